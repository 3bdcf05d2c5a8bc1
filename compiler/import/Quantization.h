//===- Quantization.h - quantization_config of a config.json ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which scheme of the catalog a Hugging Face "quantization_config" means for
// the experts' weights: fp8 (per tensor or by blocks) and compressed-tensors'
// float-quantized. What is none of them is refused with what came.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_QUANTIZATION_H
#define MOEC_COMPILER_IMPORT_QUANTIZATION_H

#include "compiler/import/JsonReader.h"

#include <string>

namespace moec::compiler {

/// What a config says of the experts' weights.
struct ExpertQuantization {
  std::string scheme;    ///< "" after an error
  int64_t groupSize = 0; ///< see QuantDescription
  /// A row of StoredLayouts.h.
  std::string storedLayout = "rows";
  /// Rows of k are in groups that g_idx says.
  bool groupIndex = false;
  /// Shared experts are left as they are.
  bool sharedDiffer = false;
};

/// `quant` reads the object "quantization_config".
ExpertQuantization readQuantization(JsonReader &quant);

/// The scheme of "expert_dtype", the element type of experts that
/// quantization_config does not speak of.
std::string readExpertType(JsonReader &config, std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_QUANTIZATION_H
