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
  /// Element types of both operands (activation and weight are equal so far).
  std::string_view elements;
  /// Features of the arch that it needs whatever the element type.
  std::string_view features;
  std::string_view policy; ///< the C++ template, over the element type
  int priority;            ///< higher is tried first
  /// Some warps copy and the others multiply, weight rows on the M side of the
  /// instruction: schedules have roles instead of a grid of warps.
  bool warpSpecialized = false;
};

inline constexpr Engine kEngines[] = {
    {"wgmma", "f16 bf16", "wgmma tma", "moe::mma::Wgmma", 20, true},
    {"mma_sync", "f16 bf16", "mma_sync cp_async", "moe::mma::MmaSync", 10},
    {"simt", "f32 f16 bf16", "", "moe::mma::Simt", 0},
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ENGINES_H
