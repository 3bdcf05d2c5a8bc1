//===- Realizations.h - ways to compute a scheme ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A realization says what is multiplied for a scheme. Each scheme has a row
// with its realizations in the order in which the resolver tries them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_REALIZATIONS_H
#define MOEC_DIALECT_CATALOG_REALIZATIONS_H

#include "dialect/catalog/Schemes.h"

namespace moec::catalog {

struct Realization {
  std::string_view name;
  /// Computes otherwise than the scheme says: taken only if the caller allows
  /// it by this name.
  bool isAnotherLayer;
  std::string_view summary;
};

inline constexpr Realization kRealizations[] = {
    {"native", false, "the operands as stored, or exactly equal numbers"},
    {"dequantized", false,
     "16-bit numbers that the kernel converts from the stored operands"},
    {"weight_only", true,
     "as dequantized, with activations that are not quantized: another layer"},
    {"emulated", false,
     "16-bit numbers that stand for quantized activations and weights"},
};

// The orders that there are. An engine is native or dequantized, as
// kNativeElements says.
inline constexpr std::string_view kNative = "native";
inline constexpr std::string_view kNativeOrConverted = "native dequantized";
inline constexpr std::string_view kConvertedWeights = "dequantized";
inline constexpr std::string_view kQuantizedActivations =
    "native weight_only emulated";

struct SchemeRealizations {
  std::string_view name; ///< a row of kSchemes
  std::string_view ways; ///< rows of kRealizations, the best first
};

inline constexpr SchemeRealizations kSchemeRealizations[] = {
    {"f32", kNative},
    {"f16", kNative},
    {"bf16", kNative},
    {"fp8_tensor", kNativeOrConverted},
    {"fp8_tensor_dynamic", kNativeOrConverted},
    {"fp8_channel", kNativeOrConverted},
    {"fp8_tensor_token", kNativeOrConverted},
    {"fp8_channel_static", kNativeOrConverted},
    {"fp8_channel_tensor_dynamic", kNativeOrConverted},
    {"fp8_block", kNativeOrConverted},
    {"fp8_block_ue8m0", kNativeOrConverted},
    {"int8_tensor", kNative},
    {"int8_tensor_dynamic", kNative},
    {"int8_channel", kNative},
    {"int8_tensor_token", kNative},
    {"int8_channel_static", kNative},
    {"int4_w4aint8", kNative},
    {"int4_w4afp8", kNativeOrConverted},
    {"fp8_w8a16", kConvertedWeights},
    {"int8_w8a16", kConvertedWeights},
    {"int8_zp_w8a16", kConvertedWeights},
    {"int4_w4a16", kConvertedWeights},
    {"int4_zp_w4a16", kConvertedWeights},
    {"mxfp4_w4a16", kConvertedWeights},
    {"nvfp4_w4a16", kConvertedWeights},
    {"mxfp8", kQuantizedActivations},
    {"mxfp6_e3m2", kQuantizedActivations},
    {"mxfp6_e2m3", kQuantizedActivations},
    {"mxfp4", kQuantizedActivations},
    {"mxfp4_mxfp8", kQuantizedActivations},
    {"mxfp4_fp8", kQuantizedActivations},
    {"nvfp4", kQuantizedActivations},
    {"nvfp4_per_token", kQuantizedActivations},
    {"nvfp4_fp8", kQuantizedActivations},
};

/// Whether the two tables name the same schemes in the same order.
constexpr bool everySchemeHasRealizations() {
  size_t row = 0;
  for (const Scheme &scheme : kSchemes)
    if (row == std::size(kSchemeRealizations) ||
        kSchemeRealizations[row++].name != scheme.name)
      return false;
  return row == std::size(kSchemeRealizations);
}
static_assert(everySchemeHasRealizations());

/// An instruction that multiplies operands with the scales of their blocks. No
/// engine uses one.
struct BlockInstruction {
  std::string_view elements; ///< of both operands
  std::string_view scales;   ///< element types of the scales
  std::string_view features; ///< one of these is needed
  std::string_view noun;     ///< what an arch without it lacks
};

inline constexpr BlockInstruction kBlockInstructions[] = {
    {"f4E2M1FN", "f8E4M3FN f8E8M0FNU", "fp4", "fp4 tensor core"},
    {"f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN", "f8E8M0FNU",
     "tcgen05 block_scaled_mma", "tensor core with scales of blocks"},
};

/// The row for operands whose scales are of blocks in one row; null for none.
constexpr const BlockInstruction *
blockInstruction(std::string_view activation, std::string_view activationScale,
                 std::string_view weight, std::string_view weightScale) {
  for (const BlockInstruction &row : kBlockInstructions)
    if (hasWord(row.elements, activation) && hasWord(row.elements, weight) &&
        hasWord(row.scales, activationScale) &&
        hasWord(row.scales, weightScale))
      return &row;
  return nullptr;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_REALIZATIONS_H
