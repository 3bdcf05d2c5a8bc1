//===- Resolver.h - chooses backend and engine of a layer -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One resolver serves every scheme and is driven by the tables of
// dialect/catalog. It evaluates each realization of a layer with each backend
// and each engine that the backend admits. Each combination is checked by the
// same list of predicates, which are pure functions of (layer, arch). The
// resolver queries no device and reads no environment variable.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_RESOLVER_H
#define MOEC_COMPILER_PLAN_RESOLVER_H

#include "compiler/plan/Choices.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Realizations.h"
#include "runtime/support/Result.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace moec::compiler {

/// Properties of a layer on this rank, as one of its realizations computes it.
/// The resolver's predicates read nothing else of the layer.
struct LayerFacts {
  std::string name;
  /// Name of a row of dialect/catalog/Realizations.h. An engine may implement
  /// `native` as `dequantized`.
  std::string realization = "native";
  std::string bits; ///< bit widths that are multiplied, such as "w4a16"
  /// Reason why no engine can compute this realization on any arch; "" if one
  /// can.
  std::string impossible;
  /// Instruction that could compute an impossible realization, on archs that
  /// have it; or null.
  const catalog::BlockInstruction *instruction = nullptr;
  /// Block-scaled operand types that an engine multiplies natively on archs
  /// that support it, or null. If set, the realization is possible on such
  /// archs.
  const catalog::BlockPair *blocks = nullptr;
  /// Operand types with power-of-two scales of 128 elements along k that a
  /// block-scaled engine multiplies, if the arch supports it. Other engines
  /// apply these scales to the accumulators.
  const catalog::BlockPair *powerGroups = nullptr;
  /// True if the layer receives x as codes (quantized values), or if only a
  /// part of a layer is compiled. A realization that computes another layer
  /// (weight_only) is then refused.
  bool takesCodes = false;
  int64_t experts = 1, localExperts = 1, pairs = 1;
  int64_t hidden = 0, intermediate = 0; ///< of this rank
  /// Intermediate size of shared experts that have their own weights; 0 if none
  /// have.
  int64_t sharedIntermediate = 0;
  bool gated = false;
  bool takesManyRegisters = false; ///< the activation needs many registers
  std::string_view function;       ///< name of the activation function
  std::string format = "standard"; ///< activation_format
  bool quantized = false;          ///< some descriptor has a scale
  std::string scheme; ///< row of dialect/catalog/Schemes.h; "" if spelled out
  /// True if every pair of descriptors has a row of kNativeScales. Engines then
  /// support it without a named scheme.
  bool nativeScales = false;
  /// Element types of x, unless x is quantized, and of the operands of the two
  /// matmuls: a1, w1, a2, w2.
  std::vector<std::string> elementTypes;
  /// Element types of the codes of weights that are dequantized. Such weights
  /// have no entry in elementTypes.
  std::vector<std::string> codes;
  /// Scale groups of the weights in `codes`: weight rows and elements of k that
  /// share a scale, -1 for all.
  std::vector<std::array<int64_t, 2>> codeGroups;
  /// True if some weights are quantized from floats when the layer is loaded.
  bool quantizesWeights = false;
  /// True if activations are quantized and dequantized again before they are
  /// multiplied. elementTypes then has the dequantized type.
  bool emulated = false;
};

/// A combination of backend, engine and realization, with the resolver's
/// verdict.
struct Candidate {
  std::string backend, engine; ///< "": the realization is refused for all
  std::string realization, bits;
  std::string code;   ///< stable lower-case refusal code; "" if accepted
  std::string reason; ///< a sentence without its final period

  bool isRefused() const { return !code.empty(); }
};

struct Resolution {
  std::string backend, engine;
  /// All candidates: in the order of the realizations, then by priority.
  std::vector<Candidate> candidates;
  /// First candidate that the user did not exclude but that was refused, with
  /// the reason; "" if there is none.
  std::string degraded;
  /// Realization of the chosen candidate (dialect/catalog/Realizations.h).
  std::string realization = "native";
};

/// Chooses the first candidate that is not refused, among the backends for the
/// layer's activation_format. `ways` has the layer's realizations in their
/// order. If `decided` names one of them, all other realizations are excluded.
/// Returns InvalidArgument as checkChoices() does. If no candidate remains,
/// returns Refused with all reasons; `judged`, if not null, receives the
/// candidates.
Result<Resolution> resolve(const std::vector<LayerFacts> &ways,
                           const std::string &arch, const Choices &choices,
                           const std::string &decided = "",
                           std::vector<Candidate> *judged = nullptr);

/// Returns text such as "grouped with wgmma_rs, mma_sync; unfused with simt"
/// for a list of (backend, engine) pairs. Consecutive pairs with the same
/// backend are merged.
std::string
candidateNames(const std::vector<std::pair<std::string, std::string>> &pairs);

/// Returns "native" or "dequantized" for an exact realization, depending on the
/// engine; else the layer's realization.
std::string realizationWith(const LayerFacts &layer,
                            const catalog::Engine &engine,
                            const catalog::Architecture &arch);

/// Returns the `order` of #moe.layout in which this engine reads the layer's
/// weights.
std::string_view orderOf(const LayerFacts &layer,
                         const catalog::Engine &engine);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_RESOLVER_H
