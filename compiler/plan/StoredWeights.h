//===- StoredWeights.h - layouts of checkpoint weights ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes how a weight, its scales or its zero points are stored in a
// checkpoint: the shape and element type of the caller's tensor, and the
// parameters of the kernel that packs the tensor.
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
  int64_t bits = 0;           ///< bits per element
  /// Rows and columns per expert, including padding. The rows consist of
  /// `parts` matrices (gate and up), each of which is padded separately.
  int64_t rows = 0, columns = 0, parts = 1;
  bool isPadded = false;
  /// Stored in blocks of 128 rows x 4 columns, and padded to whole blocks.
  bool atoms = false;
  /// Number of elements per word of elementType, along rows and along columns.
  int64_t rowsPerWord = 1, columnsPerWord = 1;
  bool rowsLast = false;
  /// Position of each element within a word, separated by blanks.
  std::string slots;
  int64_t added = 0;
  /// Mask that is XORed with each code (quantized value) after `added` is
  /// added. 8-bit codes have an offset of 128 in i32 words, and are signed
  /// elsewhere.
  int64_t flipped = 0;
  bool powers = false; ///< true if packing converts f8E8M0FNU exponents to f32

  int64_t bytesOfExpert() const;
};

/// Returns how the layer's input tensor `input` is stored in the checkpoint.
/// `type` is its logical type, whose encoding specifies the stored layout.
StoredWeight storedWeight(moe::LayerOp layer, llvm::StringRef input,
                          mlir::RankedTensorType type);

/// Returns how the source of a pack op is stored in the checkpoint.
StoredWeight sourceValue(moe::PackOp pack);

/// Returns how the packing kernels of a pack op read its source, or nullopt if
/// packing changes only the order of rows.
std::optional<StoredWeight> storedWeight(moe::PackOp pack);

/// Returns the bytes per expert of a weight.
int64_t packedBytes(mlir::RankedTensorType weight);
/// packedBytesOfExpert() returns the bytes per packed expert. packsInPlace()
/// returns true if a packed expert fits into the memory of the stored expert.
int64_t packedBytesOfExpert(moe::PackOp pack);
bool packsInPlace(moe::PackOp pack);

/// Returns the layer's stored layout for the manifest.
nlohmann::json storedLayoutJson(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_STOREDWEIGHTS_H
