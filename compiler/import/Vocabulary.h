//===- Vocabulary.h - names that importers share ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that the importers share: element types as PyTorch and vLLM spell
// them, the command-line options that override a description, and the checks
// that apply to every layer regardless of its format. This header does not
// depend on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_VOCABULARY_H
#define MOEC_COMPILER_IMPORT_VOCABULARY_H

#include "compiler/import/ImportOptions.h"
#include "compiler/import/LayerDescription.h"
#include "compiler/plan/LayerLimits.h"
#include "runtime/support/JsonReader.h"
#include "runtime/support/WordList.h"

namespace moec::compiler {

/// The router jitter of Phi-3.5. A logit is masked if its relative difference
/// from the best logit exceeds twice this value.
inline constexpr double kSparsemixerJitter = 0.01;

/// Returns the element type for its spelling ("bfloat16", "torch.bfloat16",
/// "bf16" -> "bf16"); "" if unknown.
std::string elementTypeOf(std::string_view spelled);

/// Reads an activation type (bf16, f16 or f32 in any spelling) at `key`. If the
/// key is absent, returns `otherwise`, or reports an error if it is required.
std::string readFloatType(JsonReader &reader, std::string_view key,
                          std::string_view otherwise, bool required);

/// Reads a name of a catalog table at `key`. An unknown name is an error that
/// lists the known names.
std::string readName(JsonReader &reader, std::string_view key,
                     std::span<const std::string_view> names,
                     std::string_view otherwise);
/// Reads one of `words` at `key`, like readName().
std::string readWord(JsonReader &reader, std::string_view key, WordList words,
                     std::string_view otherwise);

std::string lowerCase(std::string_view text);

/// Returns true if one of `parts` occurs in `key`, ignoring case.
bool hasPartOf(std::string_view key, WordList parts);

std::vector<std::string_view> vectorOf(WordList words);

/// Return the names in a catalog table, and the names that importers add.
std::vector<std::string_view> schemeNames();
std::vector<std::string_view> gateUpOrderNames();
std::vector<std::string_view> routingNames(); ///< includes "auto"
std::vector<std::string_view> activationNames();
std::vector<std::string_view> storedLayoutNames();
std::span<const std::string_view> scoringNames();

/// Applies the options to a layer that a reader has filled in, and resolves
/// open values: the scheme follows from the element type if nothing is
/// quantized, and vice versa. Returns the reader's errors if there are any, or
/// an error for an option value that moec does not support.
Result<LayerDescription> finished(LayerDescription layer,
                                  const JsonErrors &errors,
                                  const ImportOptions &options);

/// Returns the file's name without folder and extension: "a/qwen3-30b.json" ->
/// "qwen3-30b"; "" for "config.json", which is not specific, and for "-".
std::string stemOf(std::string_view path);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_VOCABULARY_H
