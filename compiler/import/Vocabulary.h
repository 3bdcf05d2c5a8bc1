//===- Vocabulary.h - foreign words for ours --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The importers share: element types as PyTorch and vLLM spell them, the
// options of the command line laid over a description, and the checks that hold
// for every layer whatever file it came from. No IR.
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

/// Phi-3.5 keeps logits that are within twice this of the best, relatively.
inline constexpr double kSparsemixerJitter = 0.01;

/// "bfloat16", "torch.bfloat16", "bf16" -> "bf16"; "" if unknown.
std::string elementTypeOf(std::string_view spelled);

/// Reads an activation type (bf16, f16, f32 in any spelling) at `key`; an
/// absent one gives `otherwise`, a required one an error.
std::string readFloatType(JsonReader &reader, std::string_view key,
                          std::string_view otherwise, bool required);

/// Reads a name of a catalog table at `key`; an unknown one is an error that
/// lists the known ones.
std::string readName(JsonReader &reader, std::string_view key,
                     std::span<const std::string_view> names,
                     std::string_view otherwise);
/// Likewise, with a list of words.
std::string readWord(JsonReader &reader, std::string_view key, WordList words,
                     std::string_view otherwise);

std::string lowerCase(std::string_view text);

/// Returns true if one of `parts` occurs in `key`, in upper or lower case.
bool hasPartOf(std::string_view key, WordList parts);

std::vector<std::string_view> vectorOf(WordList words);

/// Names of the catalog's tables, with what the importers add to them.
std::vector<std::string_view> schemeNames();
std::vector<std::string_view> gateUpOrderNames();
std::vector<std::string_view> routingNames(); ///< and "auto"
std::vector<std::string_view> activationNames();
std::vector<std::string_view> storedLayoutNames();
std::span<const std::string_view> scoringNames();

/// The layer, if there are no errors, with the options laid over it and what is
/// still open settled: the scheme follows from the type where nothing is
/// quantized, and the other way round. Options that no part of moec serves are
/// refused by name.
Result<LayerDescription> finished(LayerDescription layer,
                                  const JsonErrors &errors,
                                  const ImportOptions &options);

/// The file's name without folder and ending: "a/qwen3-30b.json" ->
/// "qwen3-30b"; "" for "config.json", which says nothing, and for "-".
std::string stemOf(std::string_view path);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_VOCABULARY_H
