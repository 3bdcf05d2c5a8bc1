//===- SparseLayers.h - layers of a model with experts ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models specify which layers have experts by various keys, but each key has
// the same meaning in every model that uses it. SparseLayers.cpp has the table
// of keys; a family (Families.cpp) names the keys that it uses and their
// defaults. A list with the type of each layer replaces all defaults. A layer
// has experts unless a key excludes it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_SPARSELAYERS_H
#define MOEC_COMPILER_IMPORT_SPARSELAYERS_H

#include "compiler/import/Families.h"
#include "compiler/import/LayerDescription.h"
#include "runtime/support/JsonReader.h"

#include <optional>
#include <span>
#include <string>

namespace moec::compiler {

inline constexpr int64_t kMaxLayers = 1 << 16;

/// The entry in lists of layer types for a layer whose expert ids come from a
/// table.
inline constexpr std::string_view kHashLayer = "hash_moe";

struct SparseLayer {
  int64_t index = 0;
  /// The layer's entry in a list of layer types; "" without a list.
  std::string type;
};

/// Returns the number of layers according to lists with one entry per layer, if
/// the family has such a list and no separate count.
std::optional<int64_t> countListedLayers(JsonReader &config,
                                         std::span<const SparseKey> keys);

/// Returns the layer to compile: the layer `asked`, which must have experts, or
/// else the first layer with experts. Errors are added to the reader, and keys
/// that were read or assumed to `origin`.
SparseLayer findSparseLayer(JsonReader &config, std::span<const SparseKey> keys,
                            int64_t numLayers, std::optional<int64_t> asked,
                            LayerOrigin &origin);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_SPARSELAYERS_H
