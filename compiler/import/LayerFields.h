//===- LayerFields.h - the fields of a layer by their names -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One row for each field of a LayerDescription. moe.layer, the layer JSON and
// the manifest call it alike. The reader of layer JSONs and the builder of
// moe.layer go through this table.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_LAYERFIELDS_H
#define MOEC_COMPILER_IMPORT_LAYERFIELDS_H

#include "compiler/import/LayerDescription.h"

#include <span>
#include <string_view>
#include <variant>

namespace moec::compiler {

/// In place of an upper bound: the experts of the layer.
inline constexpr int64_t kOfExperts = -1;

struct LayerField {
  template <typename T> using Slot = T &(*)(LayerDescription &);

  std::string_view name; ///< in moe.layer and in a layer JSON
  /// The member of a description.
  std::variant<Slot<int64_t>, Slot<bool>, Slot<std::optional<double>>,
               Slot<std::string>>
      slot;
  int64_t min = 0, max = 0; ///< of an integer
  /// The words that a string may be; null: a float type.
  std::vector<std::string_view> (*names)() = nullptr;
  bool isRequired = false; ///< in a layer JSON
  bool isInner = false;    ///< an inner object of the layer JSON has it
  /// Its name in an attribute of moe.layer; "": it is one of its own.
  std::string_view member = {};
  std::string_view alias = {}; ///< an older name in a layer JSON; "": none
};

std::span<const LayerField> layerFields();

/// The layer JSON's words, those of its inner objects too.
Words wordsOfLayerJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_LAYERFIELDS_H
