//===- ExplainSummary.cpp - the end of a report ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Says how a scheme is computed, the memory that it takes, and which engine
// serves how many tokens.
//
//===----------------------------------------------------------------------===//

#include "compiler/ExplainSummary.h"

#include <fmt/format.h>

#include <algorithm>

using namespace moec;
using nlohmann::ordered_json;

static constexpr int64_t kTokens[] = {1, 1024, 8192};

/// "i4 of 1 x 128", say: what one operand is stored as.
static std::string operandText(const ordered_json &operand) {
  std::string text = operand.value("element_type", "");
  if (const auto group = operand.find("group");
      group != operand.end() && group->size() == 2)
    text += fmt::format(" in groups of {} x {}", (*group)[0].dump(),
                        (*group)[1].dump());
  return text;
}

/// The scheme's name, or what its descriptors say.
static std::string schemeText(const ordered_json &quant) {
  if (const std::string name = quant.value("name", ""); !name.empty())
    return name;
  // Both matmuls', where they differ.
  const auto both = [&](const char *first, const char *second) {
    const std::string one = operandText(quant.value(first, ordered_json()));
    const std::string other = operandText(quant.value(second, ordered_json()));
    return one == other
               ? one
               : fmt::format("{} {} and {} {}", first, one, second, other);
  };
  return fmt::format("of its own (activations {}, weights {})",
                     both("a1", "a2"), both("w1", "w2"));
}

/// The engines of a variant's matmuls, in their order.
static ordered_json enginesOf(const ordered_json &variant) {
  ordered_json engines = ordered_json::array();
  for (const ordered_json &kernel : variant["kernels"])
    if (kernel.contains("engine") && kernel.contains("pipeline_stages") &&
        std::find(engines.begin(), engines.end(), kernel["engine"]) ==
            engines.end())
      engines.push_back(kernel["engine"]);
  return engines;
}

ordered_json compiler::summaryOf(const ordered_json &target,
                                 const Manifest &manifest,
                                 const Target &compiled, int64_t sms) {
  ordered_json summary;
  summary["scheme"] = schemeText(manifest.layer.value("quant", ordered_json()));
  if (const auto stored = manifest.layer.find("stored_quant");
      stored != manifest.layer.end())
    summary["scheme"] = fmt::format("{} as {}", schemeText(*stored),
                                    summary["scheme"].get<std::string>());
  const std::string realization = target.value("realization", "");
  summary["computed"] = target.contains("part")
                            ? "part " + target.value("part", "")
                        : realization.empty() ? "native"
                                              : realization;
  // Runs read the packed copy of a weight that has one.
  int64_t bytes = 0;
  for (const ordered_json &weight : target["weights"]) {
    const bool isPacked = std::any_of(
        compiled.pack.begin(), compiled.pack.end(), [&](const Pack &pack) {
          return std::find(pack.from.begin(), pack.from.end(),
                           weight["name"]) != pack.from.end();
        });
    if (!isPacked)
      bytes += weight.value("bytes", int64_t(0));
  }
  summary["weight_bytes"] = bytes;
  summary["ranges"] = ordered_json::array();
  for (const ordered_json &variant : target["variants"])
    summary["ranges"].push_back(
        {{"tokens", variant["tokens"]}, {"engines", enginesOf(variant)}});
  summary["at"] = ordered_json::array();
  for (const int64_t tokens : kTokens)
    for (const Variant &variant : compiled.variants) {
      if (tokens < variant.minTokens || tokens > variant.maxTokens ||
          variant.minSms > sms)
        continue;
      Symbols symbols;
      symbols.tokens = tokens;
      symbols.maxTokens = manifest.maxTokens;
      if (manifest.tokenRanks > 1)
        symbols.ownTokens =
            tokens / manifest.tokenRanks + (tokens % manifest.tokenRanks > 0);
      symbols.smCount = sms;
      if (Result<int64_t> rows = manifest.rows.evaluate(symbols))
        symbols.rows = *rows;
      ordered_json row = {{"tokens", tokens}, {"variant", variant.name}};
      if (Result<int64_t> size = variant.workspaceBytes.evaluate(symbols))
        row["workspace_bytes"] = *size;
      summary["at"].push_back(std::move(row));
      break;
    }
  return summary;
}

/// No matmul runs, for any number of tokens: of a part of a layer.
static bool enginesAreNone(const ordered_json &ranges) {
  return std::all_of(
      ranges.begin(), ranges.end(),
      [](const ordered_json &range) { return range["engines"].empty(); });
}

std::string compiler::summaryText(const ordered_json &summary,
                                  std::string (*sizeText)(int64_t)) {
  std::string text =
      fmt::format("  in short: scheme {}, {}; weights {}\n",
                  summary["scheme"].get<std::string>(),
                  summary["computed"].get<std::string>(),
                  sizeText(summary["weight_bytes"].get<int64_t>()));
  std::string workspaces;
  for (const ordered_json &row : summary["at"])
    if (row.contains("workspace_bytes"))
      workspaces += fmt::format("{}{} at {}", workspaces.empty() ? "" : ", ",
                                sizeText(row["workspace_bytes"].get<int64_t>()),
                                row["tokens"].dump());
  text += fmt::format("    workspace by tokens: {}\n", workspaces);
  if (enginesAreNone(summary["ranges"]))
    return text;
  std::string ranges;
  const ordered_json &all = summary["ranges"];
  for (size_t i = 0; i < all.size(); ++i) {
    // Ranges with the same engines are one.
    const ordered_json first = all[i]["tokens"][0];
    while (i + 1 < all.size() && all[i + 1]["engines"] == all[i]["engines"])
      ++i;
    std::string engines;
    for (const ordered_json &engine : all[i]["engines"])
      engines += fmt::format("{}{}", engines.empty() ? "" : " and ",
                             engine.get<std::string>());
    ranges += fmt::format("{}{} at {} to {}", ranges.empty() ? "" : ", ",
                          engines, first.dump(), all[i]["tokens"][1].dump());
  }
  return text + fmt::format("    engines by tokens: {}\n", ranges);
}
