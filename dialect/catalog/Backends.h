//===- Backends.h - ways to realise a variant as kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend turns the stages of a variant into kernels; an engine works
// inside it. The resolver tries backends by descending priority.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_BACKENDS_H
#define MOEC_DIALECT_CATALOG_BACKENDS_H

#include "dialect/catalog/Engines.h"

namespace moec::catalog {

struct Backend {
  std::string_view name;
  WordList engines; ///< the engines that it admits, rows of kEngines
  int priority;     ///< higher is tried first
  std::string_view summary;
  std::string_view fewTokens = ""; ///< engine of variants of few tokens, if any
  std::string_view format = "standard"; ///< activation_format of its layers
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
