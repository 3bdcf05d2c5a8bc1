//===- HuggingFace.h - config.json of a model -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of model families, one file each (Mixtral.cpp, Qwen3Moe.cpp), and
// what they share: dispatch by architecture, the search for keys that could
// change the layer and that the family does not know, element type, hidden
// activation. A new family is a file and a row in HuggingFace.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_HUGGINGFACE_H
#define MOEC_COMPILER_IMPORT_HUGGINGFACE_H

#include "compiler/import/ImportOptions.h"
#include "compiler/import/JsonReader.h"
#include "compiler/import/LayerDescription.h"

namespace moec::compiler {

/// How the config.json files of one family of models are read.
struct ModelFamily {
  std::string_view architecture; ///< as "architectures" names it
  std::string_view modelType;    ///< as "model_type" names it
  /// Keys that `read` asks for. "architectures", "model_type", "torch_dtype",
  /// "dtype" and "quantization_config" are read for every family.
  std::span<const std::string_view> reads;
  /// Keys that look as if they could change the layer (see kSuspicious in
  /// HuggingFace.cpp) and do not, in this family.
  std::span<const std::string_view> irrelevant;
  /// Fills in sizes, routing and activation; errors go to the reader.
  void (*read)(JsonReader &config, const ImportOptions &options,
               LayerDescription &layer);
};

extern const ModelFamily kMixtral;
extern const ModelFamily kQwen3Moe;

/// `object` holds "architectures" or "model_type".
Result<LayerDescription> readHuggingFace(const nlohmann::json &object,
                                         std::string_view name,
                                         const ImportOptions &options);

/// For the families: "hidden_act" as Transformers names it -> a gated
/// activation of the catalog.
std::string readHiddenActivation(JsonReader &config);

/// For the families: --layer against "num_hidden_layers".
/// Returns the layer asked for, or nullopt when none was.
std::optional<int64_t> readLayerIndex(JsonReader &config,
                                      const ImportOptions &options,
                                      int64_t numLayers);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_HUGGINGFACE_H
