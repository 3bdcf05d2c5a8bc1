//===- Backends.h - ways to form kernels ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend determines how the stages of a variant are fused into kernels. The
// matmuls of those kernels use an engine. The resolver tries backends in
// descending order of priority.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_BACKENDS_H
#define MOEC_DIALECT_CATALOG_BACKENDS_H

#include "dialect/catalog/Engines.h"

namespace moec::catalog {

struct Backend {
  std::string_view name;
  WordList engines; ///< rows of kEngines that the backend supports
  int priority;     ///< higher is tried first
  std::string_view summary;
  std::string_view fewTokens = ""; ///< engine of few-token variants; "": none
  std::string_view format = "standard"; ///< required activation_format
};

// clang-format off
inline constexpr Backend kBackends[] = {
    {.name = "grouped", .engines = kTileEngines, .priority = 10,
     .summary = "rows sorted by expert, gather and activation fused into the matmuls", .fewTokens = "gemv"},
    {.name = "batched", .engines = kTileEngines, .priority = 10,
     .summary = "rows come and go by expert, with counts; routing is the sender's", .format = "batched"},
    {.name = "unfused", .engines = "simt", .priority = 0, .summary = "one kernel a stage: the slow truth"},
};
// clang-format on

constexpr bool areBackendsWhole() {
  for (const Backend &row : kBackends)
    if (!areNames(row.engines, kEngines) ||
        !areNames(WordList(row.fewTokens), kEngines))
      return false;
  return true;
}
static_assert(areBackendsWhole());

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_BACKENDS_H
