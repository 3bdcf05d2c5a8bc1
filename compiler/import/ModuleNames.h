//===- ModuleNames.h - experts that module names select ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A quantization config names modules that are not quantized, or that are
// quantized in another way. An entry is an exact name, some consecutive
// dot-separated words of a name, a wildcard or a Python regular expression.
// This file compares an entry with the names that one layer's experts have in
// the models that moec supports.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_MODULENAMES_H
#define MOEC_COMPILER_IMPORT_MODULENAMES_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace moec::compiler {

/// The layer that is compiled, with the properties that occur in module names.
struct LayerModules {
  int64_t layer = 0;
  int64_t layers = 1; ///< number of the model's layers, without draft layers
  int64_t experts = 1;
  bool gated = true;
};

/// For each routed expert of a layer, a set of its weights: gate, up and down.
class ExpertParts {
public:
  /// The parts of an expert, as bits.
  enum Part : uint8_t { Gate = 1, Up = 2, Down = 4, All = Gate | Up | Down };

  explicit ExpertParts(const LayerModules &layer)
      : ofExpert(size_t(layer.experts), 0), gated(layer.gated) {}

  /// Adds parts of an expert. If experts have no gate, a checkpoint may name
  /// the first weight either gate or up, so either name selects it.
  void add(int64_t expert, unsigned parts) {
    if (!gated && (parts & (Gate | Up)))
      parts |= Gate | Up;
    if (expert >= 0 && expert < int64_t(ofExpert.size()))
      ofExpert[size_t(expert)] |= uint8_t(parts);
  }
  void addAll(unsigned parts) {
    for (size_t e = 0; e < ofExpert.size(); ++e)
      add(int64_t(e), parts);
  }
  void add(const ExpertParts &other) {
    for (size_t e = 0; e < ofExpert.size(); ++e)
      ofExpert[e] |= other.ofExpert[e];
  }
  void remove(const ExpertParts &other) {
    for (size_t e = 0; e < ofExpert.size(); ++e)
      ofExpert[e] &= uint8_t(~other.ofExpert[e]);
  }
  bool none() const;
  bool all() const;

private:
  std::vector<uint8_t> ofExpert;
  bool gated;
};

/// The modules that an entry of a list selects in one layer.
struct ModuleMeaning {
  explicit ModuleMeaning(const LayerModules &layer) : routed(layer) {}

  ExpertParts routed;
  bool shared = false; ///< the entry selects shared experts or parts of them
  /// False if the entry may select experts, but moec cannot determine which: a
  /// regular expression that is not supported, or unknown words.
  bool understood = true;
};

/// Returns the modules that an entry selects. The entry is a name, some
/// consecutive words of a name ("mlp"), or a wildcard ("*.experts.*"). With the
/// prefix "re:", or if `isRegex` is true, it is a regular expression that must
/// match a prefix of the name.
ModuleMeaning meaningOfModules(std::string_view entry,
                               const LayerModules &layer, bool isRegex = false);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_MODULENAMES_H
