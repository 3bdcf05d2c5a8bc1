//===- Schemes.h - quantization schemes -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scheme is a name for two descriptors: what the activations (a1, a2) and the
// weights (w1, w2) of both matmuls are made of. A descriptor's fields
// are those of #moe.descriptor; element types are spelled as in MLIR. Weights
// of a policy that dequantizes may as well be spelled out, with other groups
// and types of scales. Activations that have scales beside such weights are
// emulated: quantized and dequantized at once, and multiplied as 16 bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_SCHEMES_H
#define MOEC_DIALECT_CATALOG_SCHEMES_H

#include "dialect/catalog/Realizations.h"

namespace moec::catalog {

/// Rows and columns that share a scale; -1 is the whole extent, 0 no scale.
struct ScaleGroup {
  int rows = 0, columns = 0;
  constexpr bool operator==(const ScaleGroup &) const = default;
};
inline constexpr ScaleGroup kPerTensor = {-1, -1};
/// Per token of activations, per output channel of weights.
inline constexpr ScaleGroup kPerRow = {1, -1};

/// One quantized (or plain) operand. No scale: every field after `element`
/// stays at its default.
struct SchemeDescriptor {
  std::string_view element;
  ScaleGroup group = {};
  std::string_view scale = {};       ///< element type of the scale
  bool dynamic = false;              ///< scale computed at run time
  std::string_view secondScale = {}; ///< element type of the scale of scales
  std::string_view zeroPoint = {};   ///< element type of the zero point
  std::string_view scaleRule = {};   ///< of dynamic f8E8M0FNU; {}: the type's
  bool secondPerRow = false;         ///< the second scale is computed too
};

/// The policy of layers whose weights become numbers of 16 bits, whatever their
/// codes and scales, and whether activations are quantized or not.
inline constexpr std::string_view kWeightOnly = "moe::quant::WeightOnly";
/// That of weights of 4 bits which become elements of the activations' 8 as
/// they are; scales multiply sums.
inline constexpr std::string_view kCodeGroups = "moe::quant::CodeGroups<128>";

/// Operands of 8 bits are multiplied as they are: kNativeScales has the policy.
inline constexpr std::string_view kByScales = "";

/// The policy of operands that are not quantized.
inline constexpr std::string_view kUnquantized = "moe::quant::None";

struct Scheme {
  std::string_view name;
  SchemeDescriptor activations, weights;
  WordList realizations; ///< rows of kRealizations, the best first
  /// The C++ type in templates/moe/quant, or kByScales.
  std::string_view policy = kByScales;
};

/// Operands of one type of 8 bits whose scales multiply sums: the groups of
/// both as kernels read them.
struct NativeScales {
  std::string_view element;
  ScaleGroup activations, weights;
  std::string_view policy; ///< the C++ type in templates/moe/quant
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
