//===- Realizations.h - ways to compute a scheme ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A realization determines which values are multiplied to compute a scheme.
// Each scheme's row lists its realizations in the order in which the resolver
// tries them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_REALIZATIONS_H
#define MOEC_DIALECT_CATALOG_REALIZATIONS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct Realization {
  std::string_view name;
  /// The result differs from the scheme's result, so the realization is used
  /// only if the caller allows it by name.
  bool isAnotherLayer = false;
  std::string_view summary;
};

// clang-format off
inline constexpr Realization kRealizations[] = {
    {.name = "native", .summary = "the operands as stored, or exactly equal numbers"},
    {.name = "dequantized", .summary = "16-bit numbers that the kernel converts from the stored operands"},
    {.name = "weight_only", .isAnotherLayer = true, .summary = "as dequantized, with activations that are not quantized: another layer"},
    {.name = "emulated", .summary = "16-bit numbers that stand for quantized activations and weights"},
};
// clang-format on

// The lists of realizations that schemes use. An engine multiplies natively or
// dequantized as kNativeElements specifies.
inline constexpr WordList kNative = "native";
inline constexpr WordList kNativeOrConverted = "native dequantized";
inline constexpr WordList kConvertedWeights = "dequantized";
inline constexpr WordList kQuantizedActivations = "native weight_only emulated";

static_assert(areNames(kNativeOrConverted, kRealizations) &&
              areNames(kQuantizedActivations, kRealizations));

/// An instruction that multiplies operands with block scales. Engines.h lists
/// the engines that use it, and for which operands.
struct BlockInstruction {
  WordList elements;     ///< element types of both operands
  WordList scales;       ///< element types of the scales
  WordList features;     ///< the arch must have one of these
  std::string_view noun; ///< name of the missing hardware, for messages
};

// clang-format off
inline constexpr BlockInstruction kBlockInstructions[] = {
    {.elements = "f4E2M1FN", .scales = "f8E4M3FN f8E8M0FNU", .features = "fp4", .noun = "fp4 tensor core"},
    {.elements = "f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN", .scales = "f8E8M0FNU", .features = "tcgen05 block_scaled_mma",
     .noun = "tensor core with scales of blocks"},
};
// clang-format on

/// Returns the instruction that multiplies operands with these element types
/// and block scale types, or null. Each block must be within one row.
constexpr const BlockInstruction *
blockInstruction(std::string_view activation, std::string_view activationScale,
                 std::string_view weight, std::string_view weightScale) {
  for (const BlockInstruction &row : kBlockInstructions)
    if (row.elements.contains(activation) && row.elements.contains(weight) &&
        row.scales.contains(activationScale) &&
        row.scales.contains(weightScale))
      return &row;
  return nullptr;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_REALIZATIONS_H
