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

/// The scheme's name; "" after an error, or where the experts are left as they
/// are. `quant` reads the object "quantization_config".
std::string readQuantization(JsonReader &quant);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_QUANTIZATION_H
