//===- Schemes.h - quantization schemes -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scheme is a name for four descriptors: what the activations (a1, a2) and
// the weights (w1, w2) of the two matmuls are made of. A descriptor's fields
// are those of #moe.descriptor; element types are spelled as in MLIR. Weights
// of a policy that dequantizes may as well be spelled out, with other groups
// and types of scales. Activations that have scales beside such weights are
// emulated: quantized and dequantized at once, and multiplied as 16 bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_SCHEMES_H
#define MOEC_DIALECT_CATALOG_SCHEMES_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

/// One quantized (or plain) operand. No scale: every field after `element`
/// stays at its default.
struct SchemeDescriptor {
  std::string_view element;
  /// Rows and columns that share a scale; -1 is the whole extent, 0 no scale.
  int groupRows = 0, groupColumns = 0;
  std::string_view scale = {};       ///< element type of the scale
  bool dynamic = false;              ///< scale computed at run time
  std::string_view secondScale = {}; ///< element type of the scale of scales
  std::string_view zeroPoint = {};   ///< element type of the zero point
  std::string_view scaleRule = {};   ///< of dynamic f8E8M0FNU; {}: the type's
  bool secondPerRow = false;         ///< the second scale is computed too
};

struct Scheme {
  std::string_view name;
  SchemeDescriptor a1, a2, w1, w2;
  /// The C++ type in templates/moe/quant, or kByScales.
  std::string_view policy;
};

/// The policy of layers whose weights become numbers of 16 bits, whatever their
/// codes and scales, and whether activations are quantized or not.
inline constexpr std::string_view kWeightOnly = "moe::quant::WeightOnly";
/// That of weights of 4 bits which become elements of the activations' 8 as
/// they are; scales multiply sums.
inline constexpr std::string_view kCodeGroups = "moe::quant::CodeGroups<128>";

/// Operands of 8 bits are multiplied as they are: kNativeScales has the policy.
inline constexpr std::string_view kByScales = "";

/// Rows and columns that share a scale, as SchemeDescriptor has them.
struct ScaleGroup {
  int rows, columns;
  constexpr bool operator==(const ScaleGroup &) const = default;
};

/// Operands of one type of 8 bits whose scales multiply sums: the groups of
/// both as kernels read them.
struct NativeScales {
  std::string_view element;
  ScaleGroup activations, weights;
  std::string_view policy; ///< the C++ type in templates/moe/quant
};

inline constexpr NativeScales kNativeScales[] = {
    {"f8E4M3FN", {-1, -1}, {-1, -1}, "moe::quant::Fp8Tensor"},
    {"f8E4M3FN", {-1, -1}, {1, -1}, "moe::quant::Fp8TensorChannel"},
    {"f8E4M3FN", {1, -1}, {1, -1}, "moe::quant::Fp8Channel"},
    {"f8E4M3FN", {1, 128}, {128, 128}, "moe::quant::Fp8Block"},
    {"i8", {-1, -1}, {-1, -1}, "moe::quant::Int8Tensor"},
    {"i8", {-1, -1}, {1, -1}, "moe::quant::Int8TensorChannel"},
    {"i8", {1, -1}, {1, -1}, "moe::quant::Int8Channel"},
};

/// Whether a number of each `from` is one of each `to` if it is repeated.
constexpr bool repeatsTo(ScaleGroup from, ScaleGroup to) {
  const auto covers = [](int whole, int part) {
    return whole == part || whole == -1 || (part > 0 && whole % part == 0);
  };
  return covers(from.rows, to.rows) && covers(from.columns, to.columns);
}

/// The row for operands with scales of these groups; packing repeats those of
/// weights where the row's are smaller. Null: engines cannot multiply them as
/// they are.
constexpr const NativeScales *nativeScales(std::string_view element,
                                           ScaleGroup activations,
                                           ScaleGroup weights) {
  for (const NativeScales &row : kNativeScales)
    if (row.element == element && row.activations == activations &&
        repeatsTo(weights, row.weights))
      return &row;
  return nullptr;
}

inline constexpr Scheme kSchemes[] = {
    {"f32", {"f32"}, {"f32"}, {"f32"}, {"f32"}, "moe::quant::None"},
    {"f16", {"f16"}, {"f16"}, {"f16"}, {"f16"}, "moe::quant::None"},
    {"bf16", {"bf16"}, {"bf16"}, {"bf16"}, {"bf16"}, "moe::quant::None"},
    {"fp8_tensor",
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     kByScales},
    {"fp8_tensor_dynamic",
     {"f8E4M3FN", -1, -1, "f32", true},
     {"f8E4M3FN", -1, -1, "f32", true},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     kByScales},
    {"fp8_channel",
     {"f8E4M3FN", 1, -1, "f32", true},
     {"f8E4M3FN", 1, -1, "f32", true},
     {"f8E4M3FN", 1, -1, "f32"},
     {"f8E4M3FN", 1, -1, "f32"},
     kByScales},
    {"fp8_tensor_token",
     {"f8E4M3FN", 1, -1, "f32", true},
     {"f8E4M3FN", 1, -1, "f32", true},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     kByScales},
    {"fp8_channel_static",
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", 1, -1, "f32"},
     {"f8E4M3FN", 1, -1, "f32"},
     kByScales},
    {"fp8_channel_tensor_dynamic",
     {"f8E4M3FN", -1, -1, "f32", true},
     {"f8E4M3FN", -1, -1, "f32", true},
     {"f8E4M3FN", 1, -1, "f32"},
     {"f8E4M3FN", 1, -1, "f32"},
     kByScales},
    {"fp8_block",
     {"f8E4M3FN", 1, 128, "f32", true},
     {"f8E4M3FN", 1, 128, "f32", true},
     {"f8E4M3FN", 128, 128, "f32"},
     {"f8E4M3FN", 128, 128, "f32"},
     kByScales},
    {"fp8_block_ue8m0",
     {"f8E4M3FN", 1, 128, "f8E8M0FNU", true},
     {"f8E4M3FN", 1, 128, "f8E8M0FNU", true},
     {"f8E4M3FN", 128, 128, "f8E8M0FNU"},
     {"f8E4M3FN", 128, 128, "f8E8M0FNU"},
     kByScales},
    {"int8_tensor",
     {"i8", -1, -1, "f32"},
     {"i8", -1, -1, "f32"},
     {"i8", -1, -1, "f32"},
     {"i8", -1, -1, "f32"},
     kByScales},
    {"int8_tensor_dynamic",
     {"i8", -1, -1, "f32", true},
     {"i8", -1, -1, "f32", true},
     {"i8", -1, -1, "f32"},
     {"i8", -1, -1, "f32"},
     kByScales},
    {"int8_channel",
     {"i8", 1, -1, "f32", true},
     {"i8", 1, -1, "f32", true},
     {"i8", 1, -1, "f32"},
     {"i8", 1, -1, "f32"},
     kByScales},
    {"int8_tensor_token",
     {"i8", 1, -1, "f32", true},
     {"i8", 1, -1, "f32", true},
     {"i8", -1, -1, "f32"},
     {"i8", -1, -1, "f32"},
     kByScales},
    {"int8_channel_static",
     {"i8", -1, -1, "f32"},
     {"i8", -1, -1, "f32"},
     {"i8", 1, -1, "f32"},
     {"i8", 1, -1, "f32"},
     kByScales},
    {"int4_w4aint8",
     {"i8", 1, -1, "f32", true},
     {"i8", 1, -1, "f32", true},
     {"i4", 1, 128, "bf16"},
     {"i4", 1, 128, "bf16"},
     kCodeGroups},
    {"int4_w4afp8",
     {"f8E4M3FN", 1, -1, "f32", true},
     {"f8E4M3FN", 1, -1, "f32", true},
     {"i4", 1, 128, "bf16"},
     {"i4", 1, 128, "bf16"},
     kCodeGroups},
    {"fp8_w8a16",
     {"bf16"},
     {"bf16"},
     {"f8E4M3FN", 1, -1, "f32"},
     {"f8E4M3FN", 1, -1, "f32"},
     kWeightOnly},
    {"int8_w8a16",
     {"bf16"},
     {"bf16"},
     {"i8", 1, -1, "bf16"},
     {"i8", 1, -1, "bf16"},
     kWeightOnly},
    {"int8_zp_w8a16",
     {"bf16"},
     {"bf16"},
     {"i8", 1, 128, "bf16", false, {}, "i8"},
     {"i8", 1, 128, "bf16", false, {}, "i8"},
     kWeightOnly},
    {"int4_w4a16",
     {"bf16"},
     {"bf16"},
     {"i4", 1, 128, "bf16"},
     {"i4", 1, 128, "bf16"},
     kWeightOnly},
    {"int4_zp_w4a16",
     {"bf16"},
     {"bf16"},
     {"i4", 1, 128, "bf16", false, {}, "i8"},
     {"i4", 1, 128, "bf16", false, {}, "i8"},
     kWeightOnly},
    {"mxfp4_w4a16",
     {"bf16"},
     {"bf16"},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"nvfp4_w4a16",
     {"bf16"},
     {"bf16"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     kWeightOnly},
    {"mxfp8",
     {"f8E4M3FN", 1, 32, "f8E8M0FNU", true},
     {"f8E4M3FN", 1, 32, "f8E8M0FNU", true},
     {"f8E4M3FN", 1, 32, "f8E8M0FNU"},
     {"f8E4M3FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"mxfp6_e3m2",
     {"f6E3M2FN", 1, 32, "f8E8M0FNU", true},
     {"f6E3M2FN", 1, 32, "f8E8M0FNU", true},
     {"f6E3M2FN", 1, 32, "f8E8M0FNU"},
     {"f6E3M2FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"mxfp6_e2m3",
     {"f6E2M3FN", 1, 32, "f8E8M0FNU", true},
     {"f6E2M3FN", 1, 32, "f8E8M0FNU", true},
     {"f6E2M3FN", 1, 32, "f8E8M0FNU"},
     {"f6E2M3FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"mxfp4",
     {"f4E2M1FN", 1, 32, "f8E8M0FNU", true},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU", true},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"mxfp4_mxfp8",
     {"f8E4M3FN", 1, 32, "f8E8M0FNU", true},
     {"f8E4M3FN", 1, 32, "f8E8M0FNU", true},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"mxfp4_fp8",
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     {"f4E2M1FN", 1, 32, "f8E8M0FNU"},
     kWeightOnly},
    {"nvfp4",
     {"f4E2M1FN", 1, 16, "f8E4M3FN", true, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", true, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     kWeightOnly},
    {"nvfp4_per_token",
     {"f4E2M1FN", 1, 16, "f8E4M3FN", true, "f32", {}, {}, true},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", true, "f32", {}, {}, true},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     kWeightOnly},
    {"nvfp4_fp8",
     {"f8E4M3FN", -1, -1, "f32"},
     {"f8E4M3FN", -1, -1, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     {"f4E2M1FN", 1, 16, "f8E4M3FN", false, "f32"},
     kWeightOnly},
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_SCHEMES_H
