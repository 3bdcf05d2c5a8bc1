//===- Schemes.h - quantization schemes -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scheme is a name for two descriptors, one for the activations (a1, a2) and
// one for the weights (w1, w2) of both matmuls. A descriptor has the fields of
// #moe.descriptor, and element types are spelled as in MLIR. Schemes whose
// policy dequantizes weights can also be spelled out with other groups and
// scale types. With such weights, quantized activations are emulated: they are
// quantized, dequantized immediately, and multiplied as 16-bit values.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_SCHEMES_H
#define MOEC_DIALECT_CATALOG_SCHEMES_H

#include "dialect/catalog/Realizations.h"

namespace moec::catalog {

/// The rows and columns that share a scale; -1 is the whole extent, 0 is no
/// scale.
struct ScaleGroup {
  int rows = 0, columns = 0;
  constexpr bool operator==(const ScaleGroup &) const = default;
};
inline constexpr ScaleGroup kPerTensor = {-1, -1};
/// Per token for activations, per output channel for weights.
inline constexpr ScaleGroup kPerRow = {1, -1};

/// One operand, quantized or not. Without a scale, every field after `element`
/// keeps its default.
struct SchemeDescriptor {
  std::string_view element;
  ScaleGroup group = {};
  std::string_view scale = {};       ///< element type of the scale
  bool dynamic = false;              ///< the scale is computed at run time
  std::string_view secondScale = {}; ///< element type of the second-level scale
  std::string_view zeroPoint = {};   ///< element type of the zero point
  /// Rule for dynamic f8E8M0FNU scales; {}: the element's default.
  std::string_view scaleRule = {};
  bool secondPerRow = false; ///< the second scale is per row and dynamic
};

/// The policy of layers whose weights are converted to 16-bit values, for all
/// codes (quantized values) and scales, and with or without quantized
/// activations.
inline constexpr std::string_view kWeightOnly = "moe::quant::WeightOnly";
/// The policy of layers with 4-bit weights that are converted exactly to the
/// activations' 8-bit type; the scales multiply the accumulators.
inline constexpr std::string_view kCodeGroups = "moe::quant::CodeGroups<128>";

/// No policy of the scheme itself: 8-bit operands are multiplied natively, and
/// the row of kNativeScales that matches their scales has the policy.
inline constexpr std::string_view kByScales = "";

/// The policy of operands that are not quantized.
inline constexpr std::string_view kUnquantized = "moe::quant::None";

struct Scheme {
  std::string_view name;
  SchemeDescriptor activations, weights;
  WordList realizations; ///< rows of kRealizations, the preferred one first
  /// The C++ type in templates/moe/quant, or kByScales.
  std::string_view policy = kByScales;
};

/// 8-bit operands of one element type whose scales multiply the accumulators,
/// with the scale groups that kernels read.
struct NativeScales {
  std::string_view element;
  ScaleGroup activations, weights;
  std::string_view policy; ///< C++ type in templates/moe/quant
};

// clang-format off
inline constexpr NativeScales kNativeScales[] = {
    {.element = "f8E4M3FN", .activations = kPerTensor, .weights = kPerTensor, .policy = "moe::quant::Fp8Tensor"},
    {.element = "f8E4M3FN", .activations = kPerTensor, .weights = kPerRow, .policy = "moe::quant::Fp8TensorChannel"},
    {.element = "f8E4M3FN", .activations = kPerRow, .weights = kPerRow, .policy = "moe::quant::Fp8Channel"},
    {.element = "f8E4M3FN", .activations = {1, 128}, .weights = {128, 128}, .policy = "moe::quant::Fp8Block"},
    {.element = "i8", .activations = kPerTensor, .weights = kPerTensor, .policy = "moe::quant::Int8Tensor"},
    {.element = "i8", .activations = kPerTensor, .weights = kPerRow, .policy = "moe::quant::Int8TensorChannel"},
    {.element = "i8", .activations = kPerRow, .weights = kPerRow, .policy = "moe::quant::Int8Channel"},
};
// clang-format on

/// Returns true if each group of size `to` is within one group of size `from`,
/// so that repeating the `from` scales yields one scale per `to` group.
constexpr bool repeatsTo(ScaleGroup from, ScaleGroup to) {
  const auto covers = [](int whole, int part) {
    return whole == part || whole == -1 || (part > 0 && whole % part == 0);
  };
  return covers(from.rows, to.rows) && covers(from.columns, to.columns);
}

/// Returns the row of kNativeScales for operands with these scale groups, or
/// null if engines cannot multiply the operands natively. Packing repeats the
/// weight scales if the row's weight groups are smaller than `weights`.
constexpr const NativeScales *nativeScales(std::string_view element,
                                           ScaleGroup activations,
                                           ScaleGroup weights) {
  for (const NativeScales &row : kNativeScales)
    if (row.element == element && row.activations == activations &&
        repeatsTo(weights, row.weights))
      return &row;
  return nullptr;
}

// clang-format off
inline constexpr Scheme kSchemes[] = {
    {.name = "f32", .activations = {.element = "f32"}, .weights = {.element = "f32"}, .realizations = kNative, .policy = kUnquantized},
    {.name = "f16", .activations = {.element = "f16"}, .weights = {.element = "f16"}, .realizations = kNative, .policy = kUnquantized},
    {.name = "bf16", .activations = {.element = "bf16"}, .weights = {.element = "bf16"}, .realizations = kNative, .policy = kUnquantized},
    {.name = "fp8_tensor", .activations = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"},
     .weights = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_tensor_dynamic", .activations = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_channel", .activations = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_tensor_token", .activations = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_channel_static", .activations = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"},
     .weights = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_channel_tensor_dynamic", .activations = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_block", .activations = {.element = "f8E4M3FN", .group = {1, 128}, .scale = "f32", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = {128, 128}, .scale = "f32"}, .realizations = kNativeOrConverted},
    {.name = "fp8_block_ue8m0", .activations = {.element = "f8E4M3FN", .group = {1, 128}, .scale = "f8E8M0FNU", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = {128, 128}, .scale = "f8E8M0FNU"}, .realizations = kNativeOrConverted},
    {.name = "int8_tensor", .activations = {.element = "i8", .group = kPerTensor, .scale = "f32"},
     .weights = {.element = "i8", .group = kPerTensor, .scale = "f32"}, .realizations = kNative},
    {.name = "int8_tensor_dynamic", .activations = {.element = "i8", .group = kPerTensor, .scale = "f32", .dynamic = true},
     .weights = {.element = "i8", .group = kPerTensor, .scale = "f32"}, .realizations = kNative},
    {.name = "int8_channel", .activations = {.element = "i8", .group = kPerRow, .scale = "f32", .dynamic = true},
     .weights = {.element = "i8", .group = kPerRow, .scale = "f32"}, .realizations = kNative},
    {.name = "int8_tensor_token", .activations = {.element = "i8", .group = kPerRow, .scale = "f32", .dynamic = true},
     .weights = {.element = "i8", .group = kPerTensor, .scale = "f32"}, .realizations = kNative},
    {.name = "int8_channel_static", .activations = {.element = "i8", .group = kPerTensor, .scale = "f32"},
     .weights = {.element = "i8", .group = kPerRow, .scale = "f32"}, .realizations = kNative},
    {.name = "int4_w4aint8", .activations = {.element = "i8", .group = kPerRow, .scale = "f32", .dynamic = true},
     .weights = {.element = "i4", .group = {1, 128}, .scale = "bf16"}, .realizations = kNative, .policy = kCodeGroups},
    {.name = "int4_w4afp8", .activations = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32", .dynamic = true},
     .weights = {.element = "i4", .group = {1, 128}, .scale = "bf16"}, .realizations = kNativeOrConverted, .policy = kCodeGroups},
    {.name = "fp8_w8a16", .activations = {.element = "bf16"}, .weights = {.element = "f8E4M3FN", .group = kPerRow, .scale = "f32"},
     .realizations = kConvertedWeights, .policy = kWeightOnly},
    {.name = "int8_w8a16", .activations = {.element = "bf16"}, .weights = {.element = "i8", .group = kPerRow, .scale = "bf16"},
     .realizations = kConvertedWeights, .policy = kWeightOnly},
    {.name = "int8_zp_w8a16", .activations = {.element = "bf16"},
     .weights = {.element = "i8", .group = {1, 128}, .scale = "bf16", .zeroPoint = "i8"}, .realizations = kConvertedWeights,
     .policy = kWeightOnly},
    {.name = "int4_w4a16", .activations = {.element = "bf16"}, .weights = {.element = "i4", .group = {1, 128}, .scale = "bf16"},
     .realizations = kConvertedWeights, .policy = kWeightOnly},
    {.name = "int4_zp_w4a16", .activations = {.element = "bf16"},
     .weights = {.element = "i4", .group = {1, 128}, .scale = "bf16", .zeroPoint = "i8"}, .realizations = kConvertedWeights,
     .policy = kWeightOnly},
    {.name = "mxfp4_w4a16", .activations = {.element = "bf16"}, .weights = {.element = "f4E2M1FN", .group = {1, 32}, .scale = "f8E8M0FNU"},
     .realizations = kConvertedWeights, .policy = kWeightOnly},
    {.name = "nvfp4_w4a16", .activations = {.element = "bf16"},
     .weights = {.element = "f4E2M1FN", .group = {1, 16}, .scale = "f8E4M3FN", .secondScale = "f32"}, .realizations = kConvertedWeights,
     .policy = kWeightOnly},
    {.name = "mxfp8", .activations = {.element = "f8E4M3FN", .group = {1, 32}, .scale = "f8E8M0FNU", .dynamic = true},
     .weights = {.element = "f8E4M3FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "mxfp6_e3m2", .activations = {.element = "f6E3M2FN", .group = {1, 32}, .scale = "f8E8M0FNU", .dynamic = true},
     .weights = {.element = "f6E3M2FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "mxfp6_e2m3", .activations = {.element = "f6E2M3FN", .group = {1, 32}, .scale = "f8E8M0FNU", .dynamic = true},
     .weights = {.element = "f6E2M3FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "mxfp4", .activations = {.element = "f4E2M1FN", .group = {1, 32}, .scale = "f8E8M0FNU", .dynamic = true},
     .weights = {.element = "f4E2M1FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "mxfp4_mxfp8", .activations = {.element = "f8E4M3FN", .group = {1, 32}, .scale = "f8E8M0FNU", .dynamic = true},
     .weights = {.element = "f4E2M1FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "mxfp4_fp8", .activations = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"},
     .weights = {.element = "f4E2M1FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "mxfp4_fp8_block", .activations = {.element = "f8E4M3FN", .group = {1, 128}, .scale = "f32", .dynamic = true},
     .weights = {.element = "f4E2M1FN", .group = {1, 32}, .scale = "f8E8M0FNU"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "nvfp4", .activations = {.element = "f4E2M1FN", .group = {1, 16}, .scale = "f8E4M3FN", .dynamic = true, .secondScale = "f32"},
     .weights = {.element = "f4E2M1FN", .group = {1, 16}, .scale = "f8E4M3FN", .secondScale = "f32"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "nvfp4_per_token",
     .activations = {.element = "f4E2M1FN", .group = {1, 16}, .scale = "f8E4M3FN", .dynamic = true, .secondScale = "f32", .secondPerRow = true},
     .weights = {.element = "f4E2M1FN", .group = {1, 16}, .scale = "f8E4M3FN", .secondScale = "f32"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
    {.name = "nvfp4_fp8", .activations = {.element = "f8E4M3FN", .group = kPerTensor, .scale = "f32"},
     .weights = {.element = "f4E2M1FN", .group = {1, 16}, .scale = "f8E4M3FN", .secondScale = "f32"}, .realizations = kQuantizedActivations,
     .policy = kWeightOnly},
};
// clang-format on

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_SCHEMES_H
