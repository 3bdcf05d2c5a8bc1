//===- LayerFields.h - fields of a layer by name ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table has one row for each field of a LayerDescription. A field has the
// same name in moe.layer, in a layer JSON and in the manifest. The reader of
// layer JSONs and the builder of moe.layer use the table.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_LAYERFIELDS_H
#define MOEC_COMPILER_IMPORT_LAYERFIELDS_H

#include "compiler/import/LayerDescription.h"

#include <span>
#include <string_view>
#include <variant>

namespace moec::compiler {

/// A value of LayerField::max: the upper bound is the layer's number of
/// experts.
inline constexpr int64_t kOfExperts = -1;

struct LayerField {
  template <typename T> using Slot = T &(*)(LayerDescription &);

  std::string_view name; ///< The name in moe.layer and in a layer JSON.
  /// Returns a reference to the member of a LayerDescription.
  std::variant<Slot<int64_t>, Slot<bool>, Slot<std::optional<double>>,
               Slot<std::string>>
      slot;
  int64_t min = 0, max = 0; ///< bounds of an integer
  /// Returns the allowed values of a string; null: an element type.
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

/// Returns the names that a layer JSON uses, including the names in its inner
/// objects.
Words wordsOfLayerJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_LAYERFIELDS_H
