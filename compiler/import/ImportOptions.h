//===- ImportOptions.h - what the user adds to an input ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of `moec compile` that say something about the layer itself, as
// opposed to how it is compiled (those are compiler::CompileOptions). What is
// given here wins over what the input says. No IR in this header.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_IMPORTOPTIONS_H
#define MOEC_COMPILER_IMPORT_IMPORTOPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec::compiler {

/// An absent option leaves the choice to the input.
struct ImportOptions {
  /// --scheme: a name of the scheme table.
  std::optional<std::string> scheme;
  /// --dtype: of activations in and out; bf16, f16 or f32.
  std::optional<std::string> dtype;
  /// --logits-dtype: of the router's logits; bf16, f16 or f32.
  std::optional<std::string> logitsDtype;
  /// --weights-dtype: weights are stored as floats of this type, and quantized
  /// when the layer is made; bf16, f16 or f32.
  std::optional<std::string> weightsDtype;
  /// --accumulate: how products are added, f32 or fast.
  std::optional<std::string> accumulate;
  /// --tp, --pcp, --dp: sizes of the parallel groups.
  std::optional<int64_t> tp, pcp, dp;
  /// --sp: ranks that split the tokens' sequence, 1 or those of tp.
  std::optional<int64_t> sp;
  /// --placement: of experts on ranks, linear or round_robin.
  std::optional<std::string> placement;
  /// --all-to-all: the transport between ranks that have tokens of their own.
  std::optional<std::string> allToAll;
  /// --ep: experts instead of shards are spread over the ranks.
  bool ep = false;
  /// --rank: the rank whose shard is compiled, 0 to tp * pcp * dp - 1.
  std::optional<int64_t> rank;
  /// --no-shared-experts: the caller computes those that the model has.
  bool noSharedExperts = false;
  /// --layer: which layer of the model; absent: its first MoE layer.
  std::optional<int64_t> layer;
  /// --ignore-field: keys of a Hugging Face config that the importer does not
  /// know and that the user declares to be without influence on the layer.
  std::vector<std::string> ignoreFields;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_IMPORTOPTIONS_H
