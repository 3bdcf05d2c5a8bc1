//===- Quantization.h - quantization_config of a config.json ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a Hugging Face "quantization_config" means for the experts: a scheme of
// the catalog, or four descriptors that no scheme has. A key that changes the
// numbers and that no reader knows is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_QUANTIZATION_H
#define MOEC_COMPILER_IMPORT_QUANTIZATION_H

#include "compiler/import/QuantizationReaders.h"

#include <string>
#include <vector>

namespace moec::compiler {

/// `quant` reads the object "quantization_config"; `ignored` are keys that the
/// user declares to be without influence.
ExpertQuantization readQuantization(JsonReader &quant,
                                    const std::vector<std::string> &ignored);

/// The scheme of "expert_dtype", the element type of experts that
/// quantization_config does not speak of.
std::string readExpertType(JsonReader &config, std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_QUANTIZATION_H
