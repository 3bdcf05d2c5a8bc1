//===- UnreadKeys.cpp - keys of a config that nobody read -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/UnreadKeys.h"

#include "dialect/catalog/Catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

using namespace moec;
using namespace moec::compiler;

namespace {

/// Parts of a key (lower case) that make it one that may change the layer.
/// "top_k" stands for top_?k: "topk" is looked for as well.
constexpr std::string_view kSuspicious[] = {"expert", "moe",  "router", "gate",
                                            "top_k",  "topk", "shared", "quant",
                                            "scal",   "act",  "limit"};

bool isSuspicious(std::string_view key) {
  std::string lower(key);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  // The "act" in "factor" is no activation.
  for (size_t at; (at = lower.find("factor")) != std::string::npos;)
    lower.erase(at, std::string_view("factor").size());
  return std::any_of(std::begin(kSuspicious), std::end(kSuspicious),
                     [&](std::string_view part) {
                       return lower.find(part) != std::string::npos;
                     });
}

} // namespace

bool compiler::isIgnored(std::string_view key, const ImportOptions &options) {
  return std::find(options.ignoreFields.begin(), options.ignoreFields.end(),
                   key) != options.ignoreFields.end();
}

void compiler::refuseSuspicious(JsonReader &config, const ModelFamily &family,
                                std::string_view model,
                                const ImportOptions &options) {
  for (auto it = config.value().begin(); it != config.value().end(); ++it) {
    const std::string &key = it.key();
    // null says that there is no such thing.
    if (it->is_null() || !isSuspicious(key) || config.wasAsked(key) ||
        isIrrelevantKey(key) || catalog::hasWord(family.irrelevant, key) ||
        isIgnored(key, options))
      continue;
    config.refuse(
        key,
        fmt::format("{} has no such key that moec knows, and its name says "
                    "that it may change the layer; if it does not, pass "
                    "--ignore-field={}",
                    model, key));
  }
}
