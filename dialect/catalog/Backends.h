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
  std::string_view engines; ///< those it admits
  int priority;             ///< higher is tried first
  std::string_view summary;
  std::string_view fewTokens = ""; ///< engine of variants of few tokens, if any
  std::string_view format = "standard"; ///< activation_format of its layers
};

inline constexpr Backend kBackends[] = {
    {"grouped", kTileEngines, 10,
     "rows sorted by expert, gather and activation fused into the matmuls",
     "gemv"},
    {"batched", kTileEngines, 10,
     "rows come and go by expert, with counts; routing is the sender's", "",
     "batched"},
    {"unfused", "simt", 0, "one kernel a stage: the slow truth"},
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_BACKENDS_H
