//===- StoredWeights.h - layouts of checkpoint weights ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes how a weight, its scales or its zero points are stored in memory:
// the tensor that the caller provides and the parameters of the kernel that
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
  std::string elementType;    ///< i32 if one word holds several elements
  std::vector<int64_t> shape; ///< [experts, rows, columns] or [experts, rows]
  int64_t bits = 0;           ///< bits of one element
  /// Rows and columns of one expert, including padding. The rows consist of
  /// `parts` matrices (gate and up) that are padded separately.
  int64_t rows = 0, columns = 0, parts = 1;
  bool isPadded = false;
  bool atoms = false; ///< stored in atoms of 128 x 4, padded to whole atoms
  /// Number of elements in one word of elementType, along rows and along
  /// columns.
  int64_t rowsPerWord = 1, columnsPerWord = 1;
  bool rowsLast = false;
  /// Position in the word of its i-th element, blank-separated.
  std::string slots;
  int64_t added = 0;
  /// Mask that is XORed with each code after `added` is added. 8-bit codes are
  /// stored with an offset of 128 in i32 words, and are signed elsewhere.
  int64_t flipped = 0;
  bool powers = false; ///< f8E8M0FNU exponents that packing converts to f32

  int64_t bytesOfExpert() const;
};

/// Returns how an input of the layer is stored. `type` is its logical type,
/// whose encoding specifies the stored layout.
StoredWeight storedWeight(moe::LayerOp layer, llvm::StringRef input,
                          mlir::RankedTensorType type);

/// Returns how the source of a pack op is stored.
StoredWeight sourceValue(moe::PackOp pack);

/// Returns how the source of a pack op is stored, or nullopt if kernels read it
/// without repacking.
std::optional<StoredWeight> storedWeight(moe::PackOp pack);

/// Returns the bytes of one expert of a weight.
int64_t packedBytes(mlir::RankedTensorType weight);
/// packedBytesOfExpert() returns the bytes of one packed expert. packsInPlace()
/// returns true if they fit into the memory of the stored weight.
int64_t packedBytesOfExpert(moe::PackOp pack);
bool packsInPlace(moe::PackOp pack);

/// Returns the layer's stored layout, for the manifest.
nlohmann::json storedLayoutJson(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_STOREDWEIGHTS_H
