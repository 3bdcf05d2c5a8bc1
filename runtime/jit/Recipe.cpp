//===- Recipe.cpp - the inputs of one compilation -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The canonical text of a recipe. nlohmann::json sorts the keys of objects, so
// equal recipes have equal texts.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Recipe.h"

#include "runtime/support/Sha256.h"

#include <nlohmann/json.hpp>

using namespace moec::runtime;

HashedText::HashedText(std::string given)
    : text(std::move(given)), hash(moec::sha256(text)) {}

HashedText::HashedText(std::string given, std::string hash)
    : text(std::move(given)), hash(std::move(hash)) {}

std::string Recipe::json() const {
  nlohmann::json headerHashes = nlohmann::json::object();
  for (const auto &[name, header] : headers)
    headerHashes[name] = header->hash;
  nlohmann::json recipe = {
      {"version", kRecipeVersion},
      {"entry", entry},
      {"arch", arch},
      {"options", options},
      {"source", source->hash},
      {"headers", headerHashes},
      {"compiler", compiler},
  };
  // Bytes that are not UTF-8 are replaced by U+FFFD instead of causing an
  // exception. Different texts remain distinguishable, because they are
  // included as hashes.
  return recipe.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Recipe::key() const { return moec::sha256(json()); }
