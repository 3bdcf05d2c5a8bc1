//===- SparseLayers.h - which layers of a model have experts ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models say it with keys of their own, but a key means the same in each that
// has it. The table of keys is in SparseLayers.cpp; a family (Families.cpp)
// names those that it has. A layer has experts unless one of them says not.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_SPARSELAYERS_H
#define MOEC_COMPILER_IMPORT_SPARSELAYERS_H

#include "compiler/import/JsonReader.h"

#include <optional>

namespace moec::compiler {

inline constexpr int64_t kMaxLayers = 1 << 16;

/// The layer that is meant: the one asked for, which must have experts, or
/// without one the first that has. Errors go to the reader.
///
/// `keys`: words of the table, of which a config need not have every one.
int64_t findSparseLayer(JsonReader &config, std::string_view keys,
                        int64_t numLayers, std::optional<int64_t> asked);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_SPARSELAYERS_H
