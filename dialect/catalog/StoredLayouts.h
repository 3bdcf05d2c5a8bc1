//===- StoredLayouts.h - layouts of weights in checkpoints ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The memory layout of an expert's w13 and w2, their scales and their zero
// points before they are packed. These tables are the only definition of a
// layout; other code reads them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_STOREDLAYOUTS_H
#define MOEC_DIALECT_CATALOG_STOREDLAYOUTS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

/// The matrix [rows, columns] of one expert. Rows are the weight's outputs, and
/// columns go along K.
struct StoredTensor {
  bool rowsLast = false; ///< stored as [columns, rows]
  /// "rows" or "columns": an i32 packs several elements along that dimension.
  std::string_view packed = {};
  WordList slots = {}; ///< slot in the i32 of each packed element; empty: in
                       ///< order
  int added = 0;       ///< added to each element when it is read
  /// 8-bit elements in 128 x 4 blocks, padded to whole blocks
  /// (moe/math/scale_atoms.cuh).
  bool atoms = false;
  constexpr bool isAsRead() const {
    return !rowsLast && packed.empty() && !atoms;
  }
};

struct StoredLayout {
  std::string_view name;
  StoredTensor weights = {}, scales = {}, zeroPoints = {};
};

/// The order of the 4-bit elements in an AWQ word.
inline constexpr WordList kAwqSlots = "0 4 1 5 2 6 3 7";

inline constexpr StoredTensor kRowsLast = {.rowsLast = true};

// clang-format off
inline constexpr StoredLayout kStoredLayouts[] = {
    {.name = "rows"}, // the layout that kernels read, except for the order of gate and up rows
    {.name = "columns", .weights = kRowsLast},
    {.name = "columns_with_scales", .weights = kRowsLast, .scales = kRowsLast, .zeroPoints = kRowsLast},
    // The block scale layout of cuBLAS and CUTLASS, in which vLLM and
    // FlashInfer keep the scales of weights.
    {.name = "scales_128x4", .scales = {.atoms = true}},
    // AutoGPTQ stores zero points minus one; gptq_v2 corrected that.
    {.name = "gptq", .weights = {.rowsLast = true, .packed = "columns"}, .scales = kRowsLast,
     .zeroPoints = {.rowsLast = true, .packed = "rows", .added = 1}},
    {.name = "gptq_v2", .weights = {.rowsLast = true, .packed = "columns"}, .scales = kRowsLast,
     .zeroPoints = {.rowsLast = true, .packed = "rows"}},
    {.name = "awq", .weights = {.rowsLast = true, .packed = "rows", .slots = kAwqSlots}, .scales = kRowsLast,
     .zeroPoints = {.rowsLast = true, .packed = "rows", .slots = kAwqSlots}},
    // compressed-tensors.
    {.name = "pack_quantized", .weights = {.packed = "columns"}, .zeroPoints = {.packed = "rows"}},
};
// clang-format on

/// The name prefix of the weights of shared experts, if these have their own
/// weights.
inline constexpr std::string_view kSharedPrefix = "shared_";

/// Returns an input's name without the prefix kSharedPrefix, which is the name
/// of the same input of the routed experts.
constexpr std::string_view withoutShared(std::string_view input) {
  return input.starts_with(kSharedPrefix) ? input.substr(kSharedPrefix.size())
                                          : input;
}

/// Returns how the layout stores an input of the layer, such as "w13" or
/// "w2_zero_point".
constexpr StoredTensor storedTensor(const StoredLayout &layout,
                                    std::string_view input) {
  input = withoutShared(input);
  if (input == "w13" || input == "w2")
    return layout.weights;
  if (input == "w13_scale" || input == "w2_scale")
    return layout.scales;
  if (input == "w13_zero_point" || input == "w2_zero_point")
    return layout.zeroPoints;
  return {};
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_STOREDLAYOUTS_H
