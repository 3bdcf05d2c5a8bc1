//===- Engines.h - instruction families that multiply -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine is what the main loop of a matmul is made of. A row says which
// element types it multiplies and which features of an arch it needs; nothing
// asks for an arch by number.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ENGINES_H
#define MOEC_DIALECT_CATALOG_ENGINES_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct Engine {
  std::string_view name;
  /// Element types that it multiplies; both operands have the same.
  std::string_view elements;
  /// Features of the arch that it needs whatever the element type.
  std::string_view features;
  std::string_view policy; ///< the C++ template, over the element type
  int priority;            ///< higher is tried first
  /// Some warps copy and the others multiply, weight rows or tokens on the M
  /// side of the instruction: schedules have roles, not a grid of warps.
  bool warpSpecialized = false;
  /// Takes `true` behind the element type: sums of 8-bit floats stay in the
  /// tensor cores over all of k. Other engines add in f32 whatever was asked.
  bool addsFast = false;
  /// Serves variants of so few tokens beside the engine of the others, and
  /// never a whole program (0: any number).
  int mostTokens = 0;
  /// Element types of weights that it converts to 16 bits before it multiplies.
  std::string_view weights = "";
  /// Each `order` of #moe.layout in which it reads weights, the better one
  /// first. In fragments it reads weights that it converts, where they are
  /// whole blocks (plan/Resolver.h).
  std::string_view orders = "rows";
  /// The template for weights in fragments, where it is not `policy`.
  std::string_view fragmentPolicy = "";
  /// Element types of activations by which it multiplies weights in fragments.
  std::string_view fragmentElements = "f16 bf16";
};

/// All that templates/moe/math/codes.cuh decodes.
inline constexpr std::string_view kCodes =
    "f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN i8 i4";

/// Engines that multiply tiles: what backends with tiles admit.
inline constexpr std::string_view kTileEngines = "wgmma wgmma_rs mma_sync simt";

inline constexpr Engine kEngines[] = {
    {"wgmma", "f16 bf16 f8E4M3FN", "wgmma tma", "moe::mma::Wgmma", 20, true,
     true},
    {"wgmma_rs", "f16 bf16 f8E4M3FN", "wgmma tma", "moe::mma::WgmmaRs", 15,
     true, false, 0, kCodes, "fragment", "", "f16 bf16 f8E4M3FN"},
    {"mma_sync", "f16 bf16 f8E4M3FN i8", "mma_sync cp_async",
     "moe::mma::MmaSync", 10, false, false, 0, kCodes, "fragment rows",
     "moe::mma::MmaSyncSlabs"},
    {"simt", "f32 f16 bf16 f8E4M3FN i8", "", "moe::mma::Simt", 0, false, false,
     0, kCodes},
    {"gemv", "f32 f16 bf16 f8E4M3FN", "mma_sync cp_async", "", -1, false, false,
     8, "f8E4M3FN f8E5M2 f4E2M1FN i8 i4", "fragment"},
};

/// An element type that an engine multiplies as such only where the arch has a
/// feature; elsewhere it converts it, exactly, to a wider one first.
struct NativeElement {
  std::string_view engine, element, feature;
};

inline constexpr NativeElement kNativeElements[] = {
    {"mma_sync", "f8E4M3FN", "fp8_mma_sync"},
};

/// Whether the engine has two ways to multiply the element type, and the arch
/// the feature of the native one.
constexpr bool choosesNative(const Engine *engine, std::string_view element,
                             std::string_view features) {
  for (const NativeElement &row : kNativeElements)
    if (engine && row.engine == engine->name && row.element == element &&
        hasWord(features, row.feature))
      return true;
  return false;
}

/// "native" or "dequantized": how the engine multiplies the element type on an
/// arch with these features.
constexpr std::string_view realizationOf(std::string_view engine,
                                         std::string_view element,
                                         std::string_view features) {
  for (const NativeElement &row : kNativeElements)
    if (row.engine == engine && row.element == element &&
        !hasWord(features, row.feature))
      return "dequantized";
  return "native";
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ENGINES_H
