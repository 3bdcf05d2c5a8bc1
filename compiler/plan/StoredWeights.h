//===- StoredWeights.h - weights as a checkpoint has them -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stored layout of a weight, its scales or its zero points as it lies in
// memory: the value that the caller gives, and the numbers of the kernel that
// packs it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_STOREDWEIGHTS_H
#define MOEC_COMPILER_PLAN_STOREDWEIGHTS_H

#include "dialect/Moe.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace moec::compiler {

struct StoredWeight {
  std::string elementType;    ///< i32 where that holds several elements
  std::vector<int64_t> shape; ///< [experts, ., .], or [experts, .]
  int64_t bits = 0;           ///< of one element
  /// Elements of an expert, what pads them counted. Their rows are of so many
  /// parts (gates and ups) that are padded apart.
  int64_t rows = 0, columns = 0, parts = 1;
  bool isPadded = false;
  bool atoms = false; ///< in atoms of 128 x 4, the last ones filled up
  /// Elements in one of elementType, along rows and along columns.
  int64_t rowsPerWord = 1, columnsPerWord = 1;
  bool rowsLast = false;
  std::string slots; ///< of the elements of a word, by number
  int64_t added = 0;
  /// Codes of 8 bits have their offset in 32 bits and a sign elsewhere.
  int64_t flipped = 0;
  bool powers = false; ///< exponents (f8E8M0FNU), which become f32

  int64_t bytesOfExpert() const;
};

/// An input of the layer as it is stored; `type` is its logical type, whose
/// encoding says how.
StoredWeight storedWeight(moe::LayerOp layer, llvm::StringRef input,
                          mlir::RankedTensorType type);

/// The value that a pack reads.
StoredWeight sourceValue(moe::PackOp pack);

/// The stored form of what a pack reads; none where kernels read it as it is.
std::optional<StoredWeight> storedWeight(moe::PackOp pack);

/// Bytes of one expert of a weight.
int64_t packedBytes(mlir::RankedTensorType weight);
/// Bytes of an expert as packed, and whether they fit where it is stored.
int64_t packedBytesOfExpert(moe::PackOp pack);
bool packsInPlace(moe::PackOp pack);

/// The layer's layout, for the manifest.
nlohmann::json storedLayoutJson(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_STOREDWEIGHTS_H
