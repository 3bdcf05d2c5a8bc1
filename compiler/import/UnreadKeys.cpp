//===- UnreadKeys.cpp - keys of a config that nobody read -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/UnreadKeys.h"

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Catalog.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Parts of a key that make it one that may change the layer. "top_k" stands
/// for top_?k: "topk" is looked for as well.
static bool isSuspicious(std::string_view key) {
  // The "act" in "factor" is no activation.
  std::string other = lowerCase(key);
  for (size_t at; (at = other.find("factor")) != std::string::npos;)
    other.erase(at, std::string_view("factor").size());
  return hasPartOf(
      other, "expert moe router gate top_k topk shared quant scal act limit");
}

bool compiler::isIgnored(std::string_view key, const ImportOptions &options) {
  return std::ranges::find(options.ignoreFields, key) !=
         options.ignoreFields.end();
}

void compiler::refuseSuspicious(JsonReader &config, const ModelFamily &family,
                                std::string_view model,
                                const ImportOptions &options) {
  config.nameStrayKeys();
  for (auto it = config.value().begin(); it != config.value().end(); ++it) {
    const std::string &key = it.key();
    // null says that there is no such thing.
    if (it->is_null() || !isSuspicious(key) || config.wasAsked(key) ||
        isIrrelevantKey(key) || catalog::hasWord(family.irrelevant, key) ||
        isIgnored(key, options))
      continue;
    config.refuse(
        key,
        "{} has no such key that moec knows, and its name says that it may "
        "change the layer; if it does not, pass --ignore-field={}",
        model, key);
  }
}
