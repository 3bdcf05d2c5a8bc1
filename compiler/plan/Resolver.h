//===- Resolver.h - which backend and engine serve a layer ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One resolver for every scheme, driven by the tables: each pair of a backend
// and an engine that it admits is judged by the same list of predicates, pure
// functions of (layer, arch). No device is asked and no environment read.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_RESOLVER_H
#define MOEC_COMPILER_PLAN_RESOLVER_H

#include "dialect/catalog/Engines.h"
#include "runtime/support/Result.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace moec::compiler {

/// Predicates may ask this of a layer on this rank.
struct LayerFacts {
  std::string name;
  int64_t experts = 1, localExperts = 1, pairs = 1;
  int64_t hidden = 0, intermediate = 0; ///< of this rank
  bool gated = false;
  bool takesManyRegisters = false; ///< the activation
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

struct Refused {
  std::string backend, engine;
  std::string code;   ///< stable, lower case
  std::string reason; ///< a sentence without its full stop
};

struct Resolution {
  std::string backend, engine;
  std::vector<Refused> refused; ///< every candidate that cannot serve
  /// The first choice, and why it was not taken; "" if it was.
  std::string degraded;
  /// "native" or "dequantized": see catalog::realizationOf; or "emulated", of
  /// activations too.
  std::string realization = "native";
};

/// The candidate of highest priority that serves the layer, of those backends
/// that are for its activation_format. `backend` and `engine` force ("" does
/// not). An unknown name is InvalidArgument with the known ones; no candidate
/// left is Refused with all reasons, each also in `refusals`, if given.
Result<Resolution> resolve(const LayerFacts &layer, const std::string &arch,
                           const std::string &backend,
                           const std::string &engine,
                           std::vector<Refused> *refusals = nullptr);

/// The `order` of #moe.layout in which an engine that serves the layer reads
/// its weights.
std::string_view orderOf(const LayerFacts &layer,
                         const catalog::Engine &engine);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_RESOLVER_H
