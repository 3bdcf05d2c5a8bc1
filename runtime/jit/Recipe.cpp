//===- Recipe.cpp - all that one compilation depends on -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The canonical text of a recipe. nlohmann's objects sort their keys, so equal
// recipes have equal text.
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
  // Foreign bytes that are no UTF-8 must not throw; they become U+FFFD, and
  // texts take part by hash anyway.
  return recipe.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Recipe::key() const { return moec::sha256(json()); }
