//===- QuantizationReaders.h - readers of quantization formats --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that the readers of a quantization_config share.
// CompressedTensors.cpp, ModelOpt.cpp and Quark.cpp each contain one reader.
// Each reader takes the defaults from its format's own configuration classes
// and names these classes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_QUANTIZATIONREADERS_H
#define MOEC_COMPILER_IMPORT_QUANTIZATIONREADERS_H

#include "compiler/import/LayerDescription.h"
#include "compiler/import/ModuleNames.h"
#include "runtime/support/JsonReader.h"
#include "runtime/support/WordList.h"

namespace moec::compiler {

/// The quantization of the experts' weights as the config specifies it.
struct ExpertQuantization {
  QuantDescription quant; ///< meaningless after an error
  /// The name of a stored layout (StoredLayouts.h).
  std::string storedLayout = "rows";
  /// A g_idx tensor maps each column of K to its scale group.
  bool groupIndex = false;
  /// Shared experts are not quantized like the routed experts.
  bool sharedDiffer = false;
  /// No routed expert of the layer is quantized.
  bool plain = false;
};

/// The layer for which a config is read.
struct QuantizationContext {
  LayerModules layer;
  /// Keys that the user declares to have no effect.
  const std::vector<std::string> &ignored;

  bool ignores(std::string_view key) const;
};

/// The largest scale group or block that is accepted.
inline constexpr int64_t kMaxBlock = 1 << 20;
/// The maximum number of patterns in a list. It limits the time, because each
/// pattern is compared with all names of experts.
inline constexpr size_t kMaxPatterns = 1024;

/// Returns "another scheme of the expert weights is named with --scheme= ...".
std::string orScheme();

/// Reports a key that moec cannot read; the message says that --scheme can name
/// the scheme.
template <typename... Args>
void refuseScheme(JsonReader &reader, std::string_view key,
                  fmt::format_string<Args...> text, Args &&...args) {
  reader.refuse(key, "{}; {}", fmt::format(text, std::forward<Args>(args)...),
                orScheme());
}

/// Returns `scheme` if the catalog has a scheme of that name. Otherwise reports
/// an error at `key` and returns "".
std::string knownScheme(JsonReader &reader, std::string_view key,
                        std::string_view scheme);

/// Reads the rows and columns of one scale; returns nullopt if the field is
/// absent or invalid.
std::optional<std::pair<int64_t, int64_t>> readBlockShape(JsonReader &reader,
                                                          std::string_view key);

/// Returns an operand whose scales each cover `rows` rows and `columns`
/// columns, -1 for all.
DescriptorDescription scaledOperand(std::string_view element, int64_t rows,
                                    int64_t columns, std::string_view scale,
                                    bool isDynamic = false);

/// Returns the quantization of both matmuls: the name of a scheme if one
/// matches, else spelled out. Activations without an element type have the type
/// of the layer's input.
QuantDescription describeQuantization(DescriptorDescription activations,
                                      DescriptorDescription weights);

/// Returns true if a value switches off the feature of its key.
bool saysNothing(const nlohmann::json &value);

/// Checks that a key is absent or has a value that switches it off ("null",
/// "false", ...).
void expectNothing(JsonReader &reader, std::string_view key,
                   std::string_view otherwise);

/// Returns "if it names no routed experts of layer 3, pass --ignore-field=KEY".
std::string orIgnore(std::string_view key, const QuantizationContext &context);

void readCompressedTensors(JsonReader &quant,
                           const QuantizationContext &context,
                           ExpertQuantization &result);
std::string readQuark(JsonReader &quant, const QuantizationContext &context);
void readModelOpt(JsonReader &outer, const QuantizationContext &context,
                  ExpertQuantization &result);

/// Reads lists of modules that stay unquantized, one list at each key. Together
/// the lists must name either all or none of the layer's routed experts. The
/// lists may name any other modules.
void readExceptions(JsonReader &quant, WordList keys,
                    const QuantizationContext &context,
                    ExpertQuantization &result);
/// Reports an error for each --ignore-field key that was read.
void refuseReadFields(JsonReader &quant, const QuantizationContext &context);
/// Reports keys that no reader has read and that may change the meaning of the
/// weights.
void refuseSuspicious(JsonReader &quant, const QuantizationContext &context);

/// Returns the experts' quantization that a "quantization_config" specifies: a
/// scheme of the catalog, or four descriptors if no scheme matches. A key that
/// changes the values and that no reader supports is an error.
ExpertQuantization readQuantization(JsonReader &quant,
                                    const QuantizationContext &context);

/// Returns the scheme for "expert_dtype", the element type of experts that
/// quantization_config does not cover.
std::string readExpertType(JsonReader &config, std::string_view key);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_QUANTIZATIONREADERS_H
