//===- SparseLayers.h - which layers of a model have experts ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models say it with keys of their own, but a key means the same in each that
// has it. The table of keys is in SparseLayers.cpp; a family (Families.cpp)
// names those that it has, with their defaults. A list with the type of each
// layer stands for all defaults. A layer has experts unless a key says not.
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

/// The name in lists of layer types of a layer whose ids come from a table.
inline constexpr std::string_view kHashLayer = "hash_moe";

struct SparseLayer {
  int64_t index = 0;
  /// Its name in a list of layer types; "" without one.
  std::string type;
};

/// The number of layers that lists with one entry for each layer say, where
/// the family has such a list and no number beside it.
std::optional<int64_t> countListedLayers(JsonReader &config,
                                         std::span<const SparseKey> keys);

/// The layer that is meant: the one asked for, which must have experts, or
/// without one the first that has. Errors go to the reader; what was read and
/// assumed to `origin`.
SparseLayer findSparseLayer(JsonReader &config, std::span<const SparseKey> keys,
                            int64_t numLayers, std::optional<int64_t> asked,
                            LayerOrigin &origin);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_SPARSELAYERS_H
