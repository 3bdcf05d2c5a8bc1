//===- ModuleNames.h - which experts names of modules mean ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A quantization config names modules: those that stay as they are, or those
// that are quantized in another way. An entry is an exact name, a run of its
// words, a wildcard or one of Python's regular expressions. Here it is compared
// with the names that the experts of one layer have in the models that moec
// knows.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_MODULENAMES_H
#define MOEC_COMPILER_IMPORT_MODULENAMES_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace moec::compiler {

/// The layer that is compiled, as modules are named by it.
struct LayerModules {
  int64_t layer = 0;
  int64_t layers = 1; ///< of the model, without draft layers
  int64_t experts = 1;
  bool gated = true;
};

/// Parts of the routed experts of a layer.
class ExpertParts {
public:
  /// Parts of an expert, as bits.
  enum Part : uint8_t { Gate = 1, Up = 2, Down = 4, All = Gate | Up | Down };

  explicit ExpertParts(const LayerModules &layer)
      : ofExpert(size_t(layer.experts), 0), gated(layer.gated) {}

  /// Without gates the first weight is called either.
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

/// The meaning of an entry of a list of modules for one layer.
struct ModuleMeaning {
  explicit ModuleMeaning(const LayerModules &layer) : routed(layer) {}

  ExpertParts routed;
  bool shared = false; ///< it means shared experts, or parts of them
  /// False for an entry that may mean experts, and of which moec cannot tell
  /// which: a regular expression that is not read, or unknown words.
  bool understood = true;
};

/// The meaning of a name, a run of its words ("mlp"), or a wildcard
/// ("*.experts.*"). With "re:" in front, or if `isRegex`, it is a regular
/// expression that begins with the name.
ModuleMeaning meaningOfModules(std::string_view entry,
                               const LayerModules &layer, bool isRegex = false);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_MODULENAMES_H
