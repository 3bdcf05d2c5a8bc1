//===- StoredLayouts.h - how checkpoints store weights ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The places in memory of the elements of an expert's w13 and w2, of their
// scales and of their zero points, before they are packed. What stands here is
// all that anyone knows about a layout.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_STOREDLAYOUTS_H
#define MOEC_DIALECT_CATALOG_STOREDLAYOUTS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

/// The matrix [rows, columns] of one expert: rows are those of the weight (its
/// outputs), columns go along k.
struct StoredTensor {
  bool rowsLast = false;        ///< in memory it is [columns, rows]
  std::string_view packed = {}; ///< "rows" or "columns": i32 hold several
  WordList slots = {};          ///< where the i-th of them is; empty: at i
  int added = 0;                ///< to each element as it is read
  bool atoms = false; ///< elements of 8 bits in atoms of 128 x 4, the last ones
                      ///< filled up (templates/moe/math/scale_atoms.cuh)
  constexpr bool isAsRead() const {
    return !rowsLast && packed.empty() && !atoms;
  }
};

struct StoredLayout {
  std::string_view name;
  StoredTensor weights = {}, scales = {}, zeroPoints = {};
};

/// The order of AWQ's nibbles.
inline constexpr WordList kAwqSlots = "0 4 1 5 2 6 3 7";

inline constexpr StoredTensor kRowsLast = {.rowsLast = true};

// clang-format off
inline constexpr StoredLayout kStoredLayouts[] = {
    {.name = "rows"}, // as kernels read them, except gate and up rows
    {.name = "columns", .weights = kRowsLast},
    {.name = "columns_with_scales", .weights = kRowsLast, .scales = kRowsLast, .zeroPoints = kRowsLast},
    // cuBLAS's and CUTLASS's order of block scales, in which vLLM and
    // FlashInfer hold those of weights.
    {.name = "scales_128x4", .scales = {.atoms = true}},
    // AutoGPTQ; its zero points are less by one, which gptq_v2 mended.
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

/// The names of the weights of shared experts begin so, where these have
/// weights of their own.
inline constexpr std::string_view kSharedPrefix = "shared_";

/// The name of an input that the other experts have likewise.
constexpr std::string_view withoutShared(std::string_view input) {
  return input.starts_with(kSharedPrefix) ? input.substr(kSharedPrefix.size())
                                          : input;
}

/// The stored tensor of an input of the layer, by its name: "w13",
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
