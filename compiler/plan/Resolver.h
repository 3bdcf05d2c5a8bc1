//===- Resolver.h - which backend and engine serve a layer ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One resolver for every scheme, driven by the tables: each realization of a
// layer, with each backend and each engine that it admits, is judged by the
// same list of predicates, pure functions of (layer, arch). No device is asked
// and no environment read.
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

/// Predicates may ask this of a layer on this rank, as one realization computes
/// it.
struct LayerFacts {
  std::string name;
  /// A row of Realizations.h. An engine may make `dequantized` of `native`.
  std::string realization = "native";
  std::string bits; ///< "w4a16": what is multiplied
  /// Why no engine does, whatever the arch: no program computes it so.
  std::string impossible;
  /// The instruction that would, if the arch has it.
  const catalog::BlockInstruction *instruction = nullptr;
  /// The operands with scales of blocks that its engine multiplies, where the
  /// arch has that; nothing is impossible then.
  const catalog::BlockPair *blocks = nullptr;
  /// The operands with power-of-two scales of 128 elements along k that a
  /// block-scaled engine multiplies, if the arch has it. Other engines multiply
  /// sums by these scales.
  const catalog::BlockPair *powerGroups = nullptr;
  /// Whether x, or what is compiled, are codes: activations are quantized.
  bool takesCodes = false;
  int64_t experts = 1, localExperts = 1, pairs = 1;
  int64_t hidden = 0, intermediate = 0; ///< of this rank
  /// The same of shared experts that have weights of their own; 0: none have.
  int64_t sharedIntermediate = 0;
  bool gated = false;
  bool takesManyRegisters = false; ///< the activation
  std::string_view function;       ///< what the activation applies
  std::string format = "standard"; ///< activation_format
  bool quantized = false;          ///< some descriptor has a scale
  std::string scheme; ///< a row of Schemes.h, or "" when spelled out
  /// Descriptors that are spelled out, but have a row of kNativeScales.
  bool nativeScales = false;
  /// Element types of x, unless it is quantized, and of what the two matmuls
  /// multiply: a1, w1, a2, w2.
  std::vector<std::string> elementTypes;
  /// Element types of weights that are dequantized. They are then none of
  /// the others.
  std::vector<std::string> codes;
  /// The descriptors of those: weight rows and elements of k that share a
  /// scale, -1 for all.
  std::vector<std::array<int64_t, 2>> codeGroups;
  /// Whether some are made of floats when the layer is loaded.
  bool quantizesWeights = false;
  /// Whether activations are quantized and dequantized before they are
  /// multiplied; elementTypes has what they become.
  bool emulated = false;
};

/// A realization by a backend with an engine, as it was judged.
struct Candidate {
  std::string backend, engine; ///< "": the realization is refused for all
  std::string realization, bits;
  std::string code;   ///< stable, lower case; "": it serves
  std::string reason; ///< a sentence without its full stop

  bool isRefused() const { return !code.empty(); }
};

struct Resolution {
  std::string backend, engine;
  /// Each candidate, in the order of the realizations, then by priority.
  std::vector<Candidate> candidates;
  /// The first choice, and why it was not taken; "" if it was.
  std::string degraded;
  /// The choice's: a row of Realizations.h.
  std::string realization = "native";
};

/// The first candidate that serves, of those backends that are for the layer's
/// activation_format. `ways` are the layer's realizations in their order. With
/// `decided`, the realization of one of them, others are not taken.
/// InvalidArgument: see checkChoices(). No candidate left is Refused with all
/// reasons, each also in `judged`, if given.
Result<Resolution> resolve(const std::vector<LayerFacts> &ways,
                           const std::string &arch, const Choices &choices,
                           const std::string &decided = "",
                           std::vector<Candidate> *judged = nullptr);

/// "grouped with wgmma_rs, mma_sync; unfused with simt": of candidates that
/// follow each other.
std::string
candidateNames(const std::vector<std::pair<std::string, std::string>> &pairs);

/// "native" or "dequantized" of what is exact, else the layer's realization.
std::string realizationWith(const LayerFacts &layer,
                            const catalog::Engine &engine,
                            const catalog::Architecture &arch);

/// The `order` of #moe.layout in which an engine that serves the layer reads
/// its weights.
std::string_view orderOf(const LayerFacts &layer,
                         const catalog::Engine &engine);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_RESOLVER_H
