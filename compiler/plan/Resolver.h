//===- Resolver.h - chooses backend and engine of a layer -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One resolver handles all schemes. It is driven by the tables of
// dialect/catalog. A candidate is a combination of a realization of the layer,
// a backend, and an engine that the backend admits. The same list of predicates
// checks every candidate. Predicates are pure functions of layer, arch and
// candidate: the resolver queries no device and reads no environment variable.
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

/// Properties of a layer on this rank, for one of its realizations. The
/// resolver's predicates depend on no other properties of the layer.
struct LayerFacts {
  std::string name;
  /// Name of a row of dialect/catalog/Realizations.h. Depending on the engine,
  /// `native` may become `dequantized` (see realizationWith()).
  std::string realization = "native";
  std::string bits; ///< bit widths of the operands, such as "w4a16"
  /// Reason why no engine can compute this realization on any arch; "" if an
  /// engine can.
  std::string impossible;
  /// Instruction that could compute an impossible realization on archs that
  /// have it, or null.
  const catalog::BlockInstruction *instruction = nullptr;
  /// Block-scaled operand types that an engine multiplies natively on some
  /// archs, or null. If set, the realization is possible on these archs.
  const catalog::BlockPair *blocks = nullptr;
  /// Operand types with power-of-two scales for groups of 128 elements along k,
  /// or null. A block-scaled engine multiplies them if the arch supports it.
  /// Other engines apply these scales to the accumulators.
  const catalog::BlockPair *powerGroups = nullptr;
  /// True if the caller passes x as codes (quantized values), or if only a part
  /// of a layer is compiled. Then a realization that computes a different layer
  /// (weight_only) is not possible.
  bool takesCodes = false;
  int64_t experts = 1, localExperts = 1, pairs = 1;
  int64_t hidden = 0, intermediate = 0; ///< of this rank
  /// Intermediate size of shared experts that have their own weights; 0 if
  /// there are none.
  int64_t sharedIntermediate = 0;
  bool gated = false;
  bool takesManyRegisters = false; ///< the activation needs many registers
  std::string_view function;       ///< name of the activation function
  std::string format = "standard"; ///< activation_format
  bool quantized = false;          ///< true if some descriptor has a scale
  /// Row of dialect/catalog/Schemes.h; "" if no row matches the descriptors.
  std::string scheme;
  /// True if each matmul's pair of descriptors has a row in kNativeScales.
  /// Engines then support the layer without a named scheme.
  bool nativeScales = false;
  /// Element types of the operands of the two matmuls (a1, w1, a2, w2).
  std::vector<std::string> elementTypes;
  /// Element types of weight codes that the kernels dequantize. Such weights
  /// have no entry in elementTypes.
  std::vector<std::string> codes;
  /// Scale groups of the weights in `codes`: number of weight rows and number
  /// of k elements that share a scale; -1 for all.
  std::vector<std::array<int64_t, 2>> codeGroups;
  /// True if the package quantizes some float weights when it loads the layer.
  bool quantizesWeights = false;
  /// True if activations are quantized and dequantized again before they are
  /// multiplied. elementTypes then contains the dequantized type.
  bool emulated = false;
};

/// A combination of backend, engine and realization, and whether the resolver
/// accepts it.
struct Candidate {
  /// "": the realization is rejected for all backends and engines.
  std::string backend, engine;
  std::string realization, bits;
  std::string code;   ///< stable lower-case code of the reason; "" if accepted
  std::string reason; ///< a sentence without its final period

  bool isRefused() const { return !code.empty(); }
};

struct Resolution {
  std::string backend, engine;
  /// All candidates, in the order of the realizations and then by descending
  /// priority.
  std::vector<Candidate> candidates;
  /// The first candidate before the chosen one that was rejected for a reason
  /// other than the user's choices, with that reason; "" if there is none.
  std::string degraded;
  /// Name of the chosen candidate's realization
  /// (dialect/catalog/Realizations.h).
  std::string realization = "native";
};

/// Chooses the first accepted candidate, among the backends for the layer's
/// activation_format. `ways` lists the layer's realizations in their order. If
/// `decided` names a realization, only candidates with that realization can be
/// chosen. Invalid choices return InvalidArgument, as in checkChoices(). If no
/// candidate is accepted, returns Refused with all reasons; `judged`, if not
/// null, then receives the candidates.
Result<Resolution> resolve(const std::vector<LayerFacts> &ways,
                           const std::string &arch, const Choices &choices,
                           const std::string &decided = "",
                           std::vector<Candidate> *judged = nullptr);

/// Returns text such as "grouped with wgmma_rs, mma_sync; unfused with simt"
/// for a list of (backend, engine) pairs. Consecutive pairs with the same
/// backend are merged.
std::string
candidateNames(const std::vector<std::pair<std::string, std::string>> &pairs);

/// Returns the realization with which `engine` computes the layer. `native`
/// remains "native" or becomes "dequantized", depending on engine and arch. All
/// other realizations remain unchanged.
std::string realizationWith(const LayerFacts &layer,
                            const catalog::Engine &engine,
                            const catalog::Architecture &arch);

/// Returns the `order` of #moe.layout in which the engine reads the layer's
/// weights.
std::string_view orderOf(const LayerFacts &layer,
                         const catalog::Engine &engine);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_RESOLVER_H
