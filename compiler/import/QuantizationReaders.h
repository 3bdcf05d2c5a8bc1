//===- QuantizationReaders.h - one for each format --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The readers of a quantization_config share these functions; two readers have
// a file of their own. Defaults are those of the formats' own classes, which
// the readers name.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_QUANTIZATIONREADERS_H
#define MOEC_COMPILER_IMPORT_QUANTIZATIONREADERS_H

#include "compiler/import/LayerDescription.h"
#include "compiler/import/ModuleNames.h"
#include "runtime/support/JsonReader.h"
#include "runtime/support/WordList.h"

namespace moec::compiler {

/// The quantization of the experts' weights, as a config says it.
struct ExpertQuantization {
  QuantDescription quant; ///< says nothing after an error
  /// A row of StoredLayouts.h.
  std::string storedLayout = "rows";
  /// Rows of k are in groups that g_idx says.
  bool groupIndex = false;
  /// Shared experts are left as they are.
  bool sharedDiffer = false;
  /// All experts of the layer are left as they are.
  bool plain = false;
};

/// The layer that a config is read for.
struct QuantizationContext {
  LayerModules layer;
  /// Keys that the user declares to be without influence.
  const std::vector<std::string> &ignored;

  bool ignores(std::string_view key) const;
};

/// Larger groups and blocks are no sizes of a layer.
inline constexpr int64_t kMaxBlock = 1 << 20;
/// Patterns of one list; each is compared with all names that experts have.
inline constexpr size_t kMaxPatterns = 1024;

/// "another scheme of the expert weights is named with --scheme= ...".
std::string orScheme();

/// Refuses a key whose layer is compiled if its scheme is named.
template <typename... Args>
void refuseScheme(JsonReader &reader, std::string_view key,
                  fmt::format_string<Args...> text, Args &&...args) {
  reader.refuse(key, "{}; {}", fmt::format(text, std::forward<Args>(args)...),
                orScheme());
}

/// The name of a scheme if it has a row; else an error at `key`.
std::string knownScheme(JsonReader &reader, std::string_view key,
                        std::string_view scheme);

/// Rows and columns of one scale; nullopt if the field is absent or wrong.
std::optional<std::pair<int64_t, int64_t>> readBlockShape(JsonReader &reader,
                                                          std::string_view key);

/// An operand whose scales cover so many rows and columns, -1 for all.
DescriptorDescription scaledOperand(std::string_view element, int64_t rows,
                                    int64_t columns, std::string_view scale,
                                    bool isDynamic = false);

/// Both matmuls alike: by the name of a scheme if there is one, else spelled
/// out. An activation without an element type is what the layer's input is.
QuantDescription describeQuantization(DescriptorDescription activations,
                                      DescriptorDescription weights);

/// Whether a value switches off what its key names.
bool saysNothing(const nlohmann::json &value);

/// A key that may stand in the config, but only with the value that means
/// nothing ("null", "false", ...).
void expectNothing(JsonReader &reader, std::string_view key,
                   std::string_view otherwise);

/// "if it names no experts of layer 3, pass --ignore-field=KEY".
std::string orIgnore(std::string_view key, const QuantizationContext &context);

void readCompressedTensors(JsonReader &quant,
                           const QuantizationContext &context,
                           ExpertQuantization &result);
std::string readQuark(JsonReader &quant, const QuantizationContext &context);
void readModelOpt(JsonReader &outer, const QuantizationContext &context,
                  ExpertQuantization &result);

/// Modules that stay unquantized: any but the routed experts of the layer, or
/// all of these. Reads a list at each of the keys.
void readExceptions(JsonReader &quant, WordList keys,
                    const QuantizationContext &context,
                    ExpertQuantization &result);
/// Refuses --ignore-field of keys that were read.
void refuseReadFields(JsonReader &quant, const QuantizationContext &context);
/// Refuses keys that nobody has read and that may change what weights mean.
void refuseSuspicious(JsonReader &quant, const QuantizationContext &context);

/// Returns the experts' quantization by a "quantization_config": a scheme of
/// the catalog, or four descriptors that no scheme has. A key that changes the
/// numbers and that no reader knows is refused.
ExpertQuantization readQuantization(JsonReader &quant,
                                    const QuantizationContext &context);

/// The scheme of "expert_dtype", the element type of experts that
/// quantization_config does not speak of.
std::string readExpertType(JsonReader &config, std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_QUANTIZATIONREADERS_H
