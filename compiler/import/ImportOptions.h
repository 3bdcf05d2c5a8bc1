//===- ImportOptions.h - options that change the layer ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of `moec compile` that describe the layer itself, in contrast to
// the options of its compilation (compiler::CompileOptions). They override what
// the input specifies. This header does not depend on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_IMPORTOPTIONS_H
#define MOEC_COMPILER_IMPORT_IMPORTOPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec::compiler {

/// The options. If an option is absent, the input determines its value.
struct ImportOptions {
  std::optional<std::string> scheme, dtype, logitsDtype, weightsDtype;
  std::optional<std::string> accumulate, placement, allToAll, part, as;
  std::optional<int64_t> tp, pcp, dp, sp, rank, layer;
  bool ep = false, allRanks = false, noSharedExperts = false;
  std::vector<std::string> ignoreFields;
  /// If true, noSharedExperts is an error for a config without shared experts.
  /// Library callers may pass noSharedExperts for every layer of a model, so
  /// they leave this false.
  bool needsSharedExperts = false;
};

/// Calls `see` with the name, the member and the help text of each option. The
/// name is the option's name on the command line; the C ABI replaces '-' by
/// '_'.
template <typename Options, typename See>
void forEachImportOption(Options &options, See see) {
  see("scheme", options.scheme, "quantization scheme (moec list schemes)");
  see("dtype", options.dtype, "type of activations: bf16, f16 or f32");
  see("logits-dtype", options.logitsDtype,
      "type of the router's logits, bf16, f16 or f32; if absent as the model "
      "computes them, else as activations");
  see("weights-dtype", options.weightsDtype,
      "weights are stored as floats of this type, bf16, f16 or f32, and "
      "quantized by the scheme at load");
  see("accumulate", options.accumulate,
      "how products of 8-bit operands are added: f32, or fast, as the tensor "
      "cores do");
  see("tp", options.tp, "ranks that share each expert");
  see("pcp", options.pcp, "prefill-context parallel ranks");
  see("dp", options.dp, "data parallel ranks");
  see("ep", options.ep, "spread whole experts over all ranks (dp * pcp * tp)");
  see("sp", options.sp,
      "ranks that split a sequence's tokens: 1, or those of tp");
  see("placement", options.placement,
      "placement of experts on ranks: linear or round_robin");
  see("all-to-all", options.allToAll,
      "the transport between ranks with tokens of their own; with "
      "gather_scatter or one_sided the package moves tokens and sums itself");
  see("rank", options.rank,
      "the rank to compile for, (dp_rank * pcp + pcp_rank) * tp + tp_rank");
  see("all-ranks", options.allRanks,
      "compile one package for all ranks (dp * pcp * tp); a load names its "
      "rank");
  see("no-shared-experts", options.noSharedExperts,
      "leave out the model's shared experts, which the caller computes");
  see("part", options.part,
      "only a part of the layer: route (ids and weights), quantize (codes and "
      "scales of x) or finalize (the weighted sum of the experts' outputs)");
  see("layer", options.layer,
      "the layer of the model; its first with experts if absent");
  see("as", options.as,
      "read a config.json as one of this family, by its model type or "
      "architecture, whatever the file calls itself");
  see("ignore-field", options.ignoreFields,
      "a key of config.json without influence on the layer");
}

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_IMPORTOPTIONS_H
