//===- Parts.h - parts of a layer -------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package may have only one part of a layer. The importers, the verifier and
// the passes read this table.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_PARTS_H
#define MOEC_DIALECT_CATALOG_PARTS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct LayerPart {
  std::string_view name;
  /// The part multiplies by weights of the experts.
  bool hasMatmul = false;
};

inline constexpr LayerPart kLayerParts[] = {
    {.name = "route"},
    {.name = "quantize"},
    {.name = "gate_up", .hasMatmul = true},
    {.name = "down", .hasMatmul = true},
    {.name = "finalize"},
};

/// Returns true if the part multiplies by weights of the experts.
constexpr bool partHasMatmul(std::string_view name) {
  const LayerPart *part = find(kLayerParts, name);
  return part && part->hasMatmul;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_PARTS_H
