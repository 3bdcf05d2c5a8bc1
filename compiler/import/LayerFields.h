//===- LayerFields.h - the fields of a layer by their names -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table has one row for each field of a LayerDescription. The field has the
// same name in moe.layer, in a layer JSON and in the manifest. The reader of
// layer JSONs and the builder of moe.layer use this table.
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

  std::string_view name; ///< The name in moe.layer and in a layer JSON.
  /// The member of a description.
  std::variant<Slot<int64_t>, Slot<bool>, Slot<std::optional<double>>,
               Slot<std::string>>
      slot;
  int64_t min = 0, max = 0; ///< of an integer
  /// The words that a string may be; null: a float type.
  std::vector<std::string_view> (*names)() = nullptr;
  bool isRequired = false; ///< True if a layer JSON must have the field.
  bool isInner = false; ///< True if an inner object of the layer JSON has it.
  /// The member of #moe.routing or #moe.activation that holds the field. Empty
  /// if the field is an attribute of moe.layer.
  std::string_view member = {};
  /// A former name that a layer JSON may use. Empty if there is none.
  std::string_view alias = {};
};

std::span<const LayerField> layerFields();

/// The layer JSON's words, those of its inner objects too.
Words wordsOfLayerJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_LAYERFIELDS_H
