//===- ModuleNames.h - which experts a pattern of modules means -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A quantization config names modules: those that stay as they are, or those
// that are quantized in another way. Names are exact ones, runs of words,
// wildcards or Python's regular expressions. Here a name is compared with the
// names that experts have in the models that moec knows.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_MODULENAMES_H
#define MOEC_COMPILER_IMPORT_MODULENAMES_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace moec::compiler {

/// What a pattern of module names says of a layer's experts.
struct ModuleMeaning {
  /// Parts of a routed expert, as bits; 0: it means none.
  enum Part : unsigned { Gate = 1, Up = 2, Down = 4, All = Gate | Up | Down };
  unsigned routed = 0;
  bool shared = false; ///< it means shared experts, or parts of them
  /// Numbers stand in it, so that it means some layers or experts alone.
  bool ofSome = false;
  /// The one layer that it means; nullopt: any, or several.
  std::optional<int64_t> layer;
  /// False for a regular expression that is read in part only. Then `routed`
  /// says whether the word "experts" stands in it.
  bool understood = true;
};

/// The meaning of one entry of a list of modules: a name, a run of its words
/// ("mlp"), or a wildcard ("*.experts.*"). With "re:" in front, or where
/// `isRegex` says so, it is a regular expression that begins with the name.
ModuleMeaning meaningOfModules(std::string_view entry, bool isRegex = false);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_MODULENAMES_H
