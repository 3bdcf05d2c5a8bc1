//===- Engines.h - matmul engines -------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine implements the mainloop of a matmul with one family of
// instructions. A row has the element types that the engine multiplies and the
// arch features that it needs; no code tests for an arch by number.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ENGINES_H
#define MOEC_DIALECT_CATALOG_ENGINES_H

#include "dialect/catalog/Architectures.h"

namespace moec::catalog {

struct Engine {
  std::string_view name;
  /// Element types of the operands; both operands have the same type.
  WordList elements;
  /// Arch features that the engine needs for every element type.
  WordList features = {};
  std::string_view policy = ""; ///< the C++ template over the element type
  int priority;                 ///< higher is tried first
  /// Kernels are warp-specialized, with weight rows or tokens on the M side of
  /// the instruction. Schedules then have warp roles instead of a grid of
  /// warps.
  bool warpSpecialized = false;
  /// The policy template has a flag after the element type. If it is `true` and
  /// the operands are 8-bit floating-point, accumulators stay in the tensor
  /// core over all of K. Other engines accumulate in f32, even if the layer
  /// allows fast accumulation.
  bool addsFast = false;
  /// The maximum token count of the variants that use this engine; 0: no
  /// maximum. An engine with a maximum runs only the few-token variants of a
  /// program; the program's own engine runs the other variants.
  int mostTokens = 0;
  /// Element types of weights that the engine converts to 16 bits before the
  /// MMA.
  WordList weights = {};
  /// The `order`s of #moe.layout in which the engine reads weights, the
  /// preferred one first. The engine reads weights in fragment order if it
  /// converts them and they consist of whole blocks (compiler/plan/Resolver.h).
  WordList orders = "rows";
  /// The template for weights in fragment order, if it differs from `policy`.
  std::string_view fragmentPolicy = "";
  /// Element types of activations that the engine supports with weights in
  /// fragment order.
  WordList fragmentElements = "f16 bf16";
  /// The engine multiplies block-scaled operands (kBlockPairs).
  bool scalesBlocks = false;
  /// The engine multiplies operands without block scales.
  bool multipliesPlain = true;
};

/// All element types that moe/math/codes.cuh decodes.
inline constexpr WordList kCodes =
    "f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN i8 i4";

// clang-format off
inline constexpr Engine kEngines[] = {
    {.name = "wgmma", .elements = "f16 bf16 f8E4M3FN", .features = "wgmma tma", .policy = "moe::mma::Wgmma", .priority = 20,
     .warpSpecialized = true, .addsFast = true},
    {.name = "wgmma_rs", .elements = "f16 bf16 f8E4M3FN", .features = "wgmma tma", .policy = "moe::mma::WgmmaRs", .priority = 15,
     .warpSpecialized = true, .weights = kCodes, .orders = "fragment", .fragmentElements = "f16 bf16 f8E4M3FN"},
    {.name = "mma_sync_scaled", .elements = "f8E4M3FN f6E3M2FN f6E2M3FN f4E2M1FN", .features = "mma_sync cp_async block_scaled_mma",
     .policy = "moe::mma::MmaSyncScaled", .priority = 12, .scalesBlocks = true, .multipliesPlain = false},
    {.name = "mma_sync", .elements = "f16 bf16 f8E4M3FN i8", .features = "mma_sync cp_async", .policy = "moe::mma::MmaSync", .priority = 10,
     .weights = kCodes, .orders = "fragment rows", .fragmentPolicy = "moe::mma::MmaSyncSlabs"},
    {.name = "tcgen05", .elements = "f16 bf16 f8E4M3FN f4E2M1FN", .features = "tcgen05 tma", .policy = "moe::mma::Tcgen05", .priority = 18,
     .warpSpecialized = true, .scalesBlocks = true},
    {.name = "simt", .elements = "f32 f16 bf16 f8E4M3FN i8", .policy = "moe::mma::Simt", .priority = 0, .weights = kCodes},
    {.name = "gemv", .elements = "f32 f16 bf16 f8E4M3FN", .features = "mma_sync cp_async", .priority = -1, .mostTokens = 8,
     .weights = "f8E4M3FN f8E5M2 f4E2M1FN i8 i4", .orders = "fragment"},
};
// clang-format on

/// Returns the arch of the same compute capability that has an engine which
/// `arch` lacks, such as sm_90a for sm_90, or null. Ignores engines that
/// multiply only block-scaled operands. Of several archs returns the family,
/// which more GPUs run, such as sm_100f for sm_100.
constexpr const Architecture *betterTwin(const Architecture &arch) {
  const Architecture *best = nullptr;
  for (const Architecture &twin : kArchitectures)
    if (twin.major == arch.major && twin.minor == arch.minor)
      for (const Engine &engine : kEngines)
        if (engine.multipliesPlain &&
            twin.features.firstMissing(engine.features).empty() &&
            !arch.features.firstMissing(engine.features).empty())
          best = &twin;
  return best;
}

/// The engines that multiply tiles, for any number of tokens.
inline constexpr auto kTileEngineNames =
    joinNames<kEngines>([](const Engine &row) { return row.mostTokens == 0; });
inline constexpr WordList kTileEngines = kTileEngineNames.words();

/// A pair of block-scaled operands that engines multiply natively. `group`
/// elements along K share a scale. If `group` is 128, kernels read the scales
/// as f32, a weight's scale also covers 128 rows, and the engine repeats each
/// scale for four blocks of 32.
struct BlockPair {
  WordList engines; ///< engines that multiply the pair, preferred first
  std::string_view activation, weight, scale;
  int group;
  /// Each token has its own second scale.
  bool secondPerRow = false;
};

// clang-format off
inline constexpr BlockPair kBlockPairs[] = {
    {.engines = "mma_sync_scaled tcgen05", .activation = "f8E4M3FN", .weight = "f8E4M3FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled", .activation = "f8E4M3FN", .weight = "f8E4M3FN", .scale = "f8E8M0FNU", .group = 128},
    {.engines = "mma_sync_scaled tcgen05", .activation = "f8E4M3FN", .weight = "f4E2M1FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled", .activation = "f8E4M3FN", .weight = "f6E3M2FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled", .activation = "f8E4M3FN", .weight = "f6E2M3FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled", .activation = "f6E3M2FN", .weight = "f6E3M2FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled", .activation = "f6E2M3FN", .weight = "f6E2M3FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled tcgen05", .activation = "f4E2M1FN", .weight = "f4E2M1FN", .scale = "f8E8M0FNU", .group = 32},
    {.engines = "mma_sync_scaled tcgen05", .activation = "f4E2M1FN", .weight = "f4E2M1FN", .scale = "f8E4M3FN", .group = 16},
    {.engines = "mma_sync_scaled", .activation = "f4E2M1FN", .weight = "f4E2M1FN", .scale = "f8E4M3FN", .group = 16, .secondPerRow = true},
};
// clang-format on

constexpr const BlockPair *blockPair(std::string_view activation,
                                     std::string_view weight,
                                     std::string_view scale, int64_t group,
                                     bool secondPerRow = false) {
  for (const BlockPair &row : kBlockPairs)
    if (row.activation == activation && row.weight == weight &&
        row.scale == scale && row.group == group &&
        row.secondPerRow == secondPerRow)
      return &row;
  return nullptr;
}

/// An element type that an engine multiplies natively only if the arch has a
/// feature. On other archs the engine first converts it exactly to a wider
/// type.
struct NativeElement {
  std::string_view engine, element, feature;
};

inline constexpr NativeElement kNativeElements[] = {
    {.engine = "mma_sync", .element = "f8E4M3FN", .feature = "fp8_mma_sync"},
};

/// Returns true if the arch determines whether the engine multiplies the
/// element type natively (kNativeElements), and `features` include the feature
/// that makes it native.
constexpr bool choosesNative(const Engine *engine, std::string_view element,
                             WordList features) {
  for (const NativeElement &row : kNativeElements)
    if (engine && row.engine == engine->name && row.element == element &&
        features.contains(row.feature))
      return true;
  return false;
}

/// Returns "native" or "dequantized": how the engine multiplies the element
/// type on an arch with these features.
constexpr std::string_view realizationOf(std::string_view engine,
                                         std::string_view element,
                                         WordList features) {
  for (const NativeElement &row : kNativeElements)
    if (row.engine == engine && row.element == element &&
        !features.contains(row.feature))
      return "dequantized";
  return "native";
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ENGINES_H
