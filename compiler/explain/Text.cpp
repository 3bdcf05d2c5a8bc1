//===- Text.cpp - the report of explain as text ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/explain/Report.h"

#include "compiler/html/Numbers.h"
#include "compiler/plan/Resolver.h"
#include "dialect/catalog/Parts.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using namespace moec;
using namespace moec::compiler;
using moec::compiler::html::sizeText;
using nlohmann::ordered_json;

namespace {

std::string textOf(const ordered_json &object, const char *key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string joined(const ordered_json &array, const char *separator) {
  std::string text;
  for (const ordered_json &element : array)
    text += fmt::format("{}{}", text.empty() ? "" : separator,
                        element.is_string() ? element.get<std::string>()
                                            : element.dump());
  return text;
}

std::string planText(const ordered_json &kernel) {
  std::string text = fmt::format(
      "    {:<22} {}: {} CTAs{}", "", textOf(kernel, "kind"),
      textOf(kernel, "grid"),
      kernel.contains("persistent") ? " at most, as many as fit" : "");
  if (kernel.contains("early"))
    text += ", starts before the previous launch ends";
  if (kernel.contains("awaits"))
    text += fmt::format(", awaits {} column tiles of a row tile",
                        kernel["awaits"].dump());
  if (kernel.contains("counts"))
    text += ", counts its column tiles";
  if (kernel.contains("cursor"))
    text += fmt::format(", cursor {}", kernel["cursor"].dump());
  if (kernel.contains("split_tiles"))
    text += fmt::format(", splits k of up to {} tiles",
                        kernel["split_tiles"].dump());
  return text + "\n";
}

std::string kernelText(const ordered_json &kernel) {
  if (textOf(kernel, "kind") == "collective")
    return fmt::format("    {:<22} over {} ranks, {} apart: {}\n",
                       textOf(kernel, "name"), kernel["ranks"].dump(),
                       kernel["stride"].dump(), joined(kernel["reads"], ", "));
  std::string text = fmt::format("    {:<22} {}\n", textOf(kernel, "name"),
                                 joined(kernel["stages"], ", "));
  text += fmt::format("    {:<22} ", "");
  if (kernel.contains("engine"))
    text += textOf(kernel, "engine") + ", ";
  if (kernel.contains("tile"))
    text += fmt::format("tile {}, ", joined(kernel["tile"], "x"));
  if (kernel.contains("columns"))
    text += fmt::format("{} columns, ", kernel["columns"].dump());
  if (kernel.contains("pipeline_stages"))
    text +=
        fmt::format("{} pipeline stages, ", kernel["pipeline_stages"].dump());
  if (kernel.contains("warps"))
    text += fmt::format("warps {}, ", joined(kernel["warps"], "x"));
  if (kernel.contains("consumer_warps"))
    text += fmt::format("warps {}+{}, ", kernel["producer_warps"].dump(),
                        kernel["consumer_warps"].dump());
  if (kernel.contains("swap"))
    text += "swapped, ";
  if (kernel.contains("persistent"))
    text += "persistent, ";
  if (kernel.contains("block_tokens"))
    text += fmt::format("{} tokens per CTA, ", kernel["block_tokens"].dump());
  if (kernel.contains("cluster"))
    text += fmt::format("clusters of {} CTAs, ", kernel["cluster"][0].dump());
  text +=
      fmt::format("{} threads, {} of shared memory", kernel["threads"].dump(),
                  sizeText(kernel["shared_bytes"].get<int64_t>()));
  if (kernel.contains("tensor_memory_columns"))
    text += fmt::format(", {} columns of tensor memory",
                        kernel["tensor_memory_columns"].dump());
  if (kernel.contains("schedule_source"))
    text += fmt::format(" ({})", textOf(kernel, "schedule_source"));
  text += "\n";
  if (kernel.contains("measured_by"))
    text += fmt::format("    {:<22} measured: {}\n", "",
                        textOf(kernel, "measured_by"));
  if (kernel.contains("measured_beside"))
    text += fmt::format("    {:<22} not measured for these tokens: there are "
                        "{}\n",
                        "", textOf(kernel, "measured_beside"));
  if (kernel.contains("grid"))
    text += planText(kernel);
  if (kernel.contains("apart"))
    text += fmt::format("    {:<22} a launch of its own: {}\n", "",
                        textOf(kernel, "apart"));
  return text;
}

/// Returns the text about the candidates. Consecutive candidates with the same
/// verdict share a line.
std::string realizationsText(const ordered_json &rows) {
  std::string text;
  const auto answers = [](const ordered_json &a, const ordered_json &b) {
    for (const char *key :
         {"realization", "computed", "state", "code", "reason"})
      if (textOf(a, key) != textOf(b, key))
        return false;
    return true;
  };
  for (size_t i = 0; i < rows.size();) {
    const ordered_json &first = rows[i];
    std::vector<std::pair<std::string, std::string>> pairs;
    for (; i < rows.size() && answers(rows[i], first); ++i)
      if (!textOf(rows[i], "backend").empty())
        pairs.emplace_back(textOf(rows[i], "backend"),
                           textOf(rows[i], "engine"));
    const std::string state = textOf(first, "state");
    text += fmt::format("    {} {}{}{}: ", textOf(first, "realization"),
                        textOf(first, "computed"), pairs.empty() ? "" : ", ",
                        candidateNames(pairs));
    text += state == "chosen" ? "chosen"
            : state == "would_serve"
                ? "also supported"
                : fmt::format("refused [{}]: {}", textOf(first, "code"),
                              textOf(first, "reason"));
    text += "\n";
  }
  return text.empty() ? "" : "  realizations, the best first:\n" + text;
}

/// Returns the kernel with the longest predicted time and what limits it, such
/// as "up_to_512_gate_up: memory".
std::string longestKernel(const ordered_json &prediction) {
  const auto &kernels = prediction["kernels"];
  const auto longest =
      std::max_element(kernels.begin(), kernels.end(),
                       [](const ordered_json &a, const ordered_json &b) {
                         return a["microseconds"].get<double>() <
                                b["microseconds"].get<double>();
                       });
  return longest == kernels.end()
             ? ""
             : fmt::format("{}: {}", (*longest)["kernel"].get<std::string>(),
                           (*longest)["bound"].get<std::string>());
}

/// Returns a table of the predictions, or "" if there are none.
std::string predictionsText(const ordered_json &target) {
  std::map<int64_t, std::string> rows;
  for (const ordered_json &variant : target["variants"])
    for (const ordered_json &made :
         variant.value("predictions", ordered_json::array()))
      rows[made["tokens"].get<int64_t>()] = fmt::format(
          "    {:>6} {:>9.1f} {:>8.1f} {:>11.1f} {:>8.0f}%  {}\n",
          made["tokens"].get<int64_t>(), made["microseconds"].get<double>(),
          made["touched_experts"].get<double>(),
          made["most_rows"].get<double>(), 100 * made["padding"].get<double>(),
          longestKernel(made));
  if (rows.empty())
    return "";
  std::string text =
      fmt::format("  predicted for {}, routing {}; nothing was run\n"
                  "    {:>6} {:>9} {:>8} {:>11} {:>9}  {}\n",
                  target["hardware"]["gpu"].get<std::string>(),
                  target["histogram"].get<std::string>(), "tokens", "us",
                  "experts", "most rows", "padding", "longest kernel");
  for (const auto &[tokens, row] : rows)
    text += row;
  return text;
}

/// Returns the predicted times of a realization that requires --allow, relative
/// to the times of the chosen realization. Returns "" if there are none.
std::string allowedText(const ordered_json &target) {
  const auto allowed = target.find("allowed");
  if (allowed == target.end() || (*allowed)["predicted"].empty())
    return "";
  std::string factors;
  for (const ordered_json &row : (*allowed)["predicted"])
    factors += fmt::format("{}{} at {}", factors.empty() ? "" : ", ",
                           row["factor"].dump(), row["tokens"].dump());
  return fmt::format("  --allow={} would take, of these times by tokens: {}\n",
                     (*allowed)["realization"].get<std::string>(), factors);
}

/// Returns true if no range has a matmul, as in a package for only a part of a
/// layer.
bool enginesAreNone(const ordered_json &ranges) {
  return std::all_of(
      ranges.begin(), ranges.end(),
      [](const ordered_json &range) { return range["engines"].empty(); });
}

std::string summaryText(const ordered_json &summary) {
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
    // Merge consecutive ranges with the same engines.
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

/// Returns the text that states whether kernels have run on the target's arch.
std::string evidenceText(const ordered_json &target) {
  return fmt::format("  {}: {}\n", textOf(target, "arch"),
                     textOf(target, "evidence"));
}

/// Returns the text about the choice for a target: backend, engine and
/// realization.
std::string choiceText(const ordered_json &target) {
  std::string text = fmt::format("target {}", textOf(target, "arch"));
  if (std::string gpu = textOf(target, "gpu"); !gpu.empty())
    text += fmt::format(", schedules assume {}", gpu);
  const std::string part = textOf(target, "part");
  if (!part.empty())
    text += fmt::format("\n  part {}", part);
  text +=
      !part.empty() && !catalog::partHasMatmul(part)
          ? std::string(", without a matmul\n")
          : fmt::format("\n  chosen: backend {}, engine {}\n",
                        textOf(target, "backend"), textOf(target, "engine"));
  if (std::string degraded = textOf(target, "degraded"); !degraded.empty())
    text += fmt::format("  degraded from {}\n", degraded);
  if (textOf(target, "realization") == "dequantized")
    text += "  operands are dequantized, exactly, before they are multiplied\n";
  if (textOf(target, "realization") == "weight_only")
    text +=
        "  another layer: activations are not quantized, as allow permits\n";
  if (textOf(target, "realization") == "emulated")
    text +=
        "  activations are emulated: quantized and dequantized at once, then "
        "multiplied as 16 bits\n";
  if (target.contains("emulated_since"))
    text +=
        fmt::format("  emulated since {}\n", textOf(target, "emulated_since"));
  return text;
}

std::string targetText(const ordered_json &target) {
  std::string text = choiceText(target);
  text += realizationsText(target.value("realizations", ordered_json::array()));
  for (const ordered_json &weight : target["weights"]) {
    text += fmt::format("  weight {}: {}", textOf(weight, "name"),
                        textOf(weight, "role"));
    if (weight.contains("bytes"))
      text += ", " + sizeText(weight["bytes"].get<int64_t>());
    if (weight.contains("may_alias"))
      text += ", in place of " + textOf(weight, "may_alias");
    text += "\n";
  }
  for (const ordered_json &variant : target["variants"]) {
    text +=
        fmt::format("  variant {}: {} to {} tokens", textOf(variant, "name"),
                    variant["tokens"][0].dump(), variant["tokens"][1].dump());
    if (variant.contains("min_sms"))
      text += fmt::format(", on {} SMs or more", variant["min_sms"].dump());
    if (variant.contains("workspace_bytes"))
      text += fmt::format(", workspace at most {}",
                          sizeText(variant["workspace_bytes"].get<int64_t>()));
    text += "\n";
    for (const ordered_json &kernel : variant["kernels"])
      text += kernelText(kernel);
  }
  return text + predictionsText(target) + allowedText(target) +
         summaryText(target["summary"]) + evidenceText(target);
}

} // namespace

/// Returns the members of an object as text, such as "a 1, b 2".
static std::string fieldsText(const ordered_json &fields) {
  std::string text;
  for (const auto &field : fields.items())
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", field.key(),
                    field.value().is_string() ? field.value().get<std::string>()
                                              : field.value().dump());
  return text;
}

/// Returns the text about the layer's origin in a model: which properties its
/// config specifies and which are assumed.
static std::string originText(const ordered_json &origin) {
  std::string text;
  if (origin.contains("layer") && origin.contains("layers"))
    text = fmt::format("  of {}: layer {} of {}, {}\n", textOf(origin, "model"),
                       origin["layer"].dump(), origin["layers"].dump(),
                       textOf(origin, "chosen") == "asked"
                           ? "as asked"
                           : "the first with experts");
  for (const char *part : {"read", "assumed"})
    if (origin.contains(part) && !origin[part].empty())
      text += fmt::format("    {}: {}\n",
                          part == std::string_view("read")
                              ? "the config says"
                              : "assumed, since it does not say it",
                          fieldsText(origin[part]));
  return text;
}

/// Returns the text about the shared experts' weights: whether they are stored
/// with the routed experts' weights, and why not. Returns "" without shared
/// experts.
static std::string sharedText(const ordered_json &layer) {
  const int64_t count = layer.value("n_shared_experts", int64_t(0));
  if (count == 0)
    return "";
  if (!layer.contains("shared_apart"))
    return fmt::format(
        "  shared experts: {}, after the routed experts in the weights\n",
        count);
  const auto number = [&](const char *key) {
    return layer.value(key, int64_t(0));
  };
  const int64_t whole = number("shared_intermediate_size");
  const int64_t own = number("shared_intermediate_size_per_partition");
  return fmt::format(
      "  shared experts: {}, one MLP of {} columns{} with weights of its own, "
      "since {}\n",
      count, whole,
      own == whole
          ? ""
          : fmt::format(" ({} on {} rank)", own,
                        layer.contains("shared_intermediate_begin") ? "this"
                                                                    : "each"),
      textOf(layer, "shared_apart"));
}

/// Returns the ranks that the package is for, or "" if the layer has one rank.
static std::string rankText(const ordered_json &report) {
  const ordered_json parallel =
      report["layer"].value("parallel", ordered_json::object());
  int64_t count = 1;
  for (const char *size : {"dp_size", "pcp_size", "tp_size"})
    count *= parallel.value(size, int64_t(1));
  const ordered_json ranks = report.value("ranks", ordered_json::array());
  if (count == 1 || ranks.empty())
    return "";
  return ranks.size() == 1
             ? fmt::format("  rank {} of {}\n", ranks[0].dump(), count)
             : fmt::format("  ranks {} to {} of {}\n", ranks.front().dump(),
                           ranks.back().dump(), count);
}

/// Returns the lines about the layer, its rank and its origin.
static std::string layerText(const ordered_json &report) {
  const ordered_json &layer = report["layer"];
  auto number = [&](const char *key) {
    return layer.contains(key) ? layer[key].dump() : std::string("?");
  };
  auto name = [&](const char *key) {
    return layer.contains(key) ? textOf(layer[key], "name") : std::string("?");
  };
  std::string text = fmt::format(
      "layer {}: {} experts, {} a token, hidden {}, intermediate {}",
      textOf(report, "name"), number("num_experts"), number("top_k"),
      number("hidden_size"), number("intermediate_size"));
  if (number("intermediate_size") != number("intermediate_size_per_partition"))
    text += fmt::format(" ({} on {} rank)",
                        number("intermediate_size_per_partition"),
                        layer.contains("intermediate_begin") ? "this" : "each");
  const ordered_json local = layer.value("local_experts", ordered_json());
  // Do not count shared experts whose weights are stored with the routed
  // experts' weights.
  int64_t held = local.value("count", int64_t(0));
  if (!layer.contains("shared_apart"))
    held -= layer.value("n_shared_experts", int64_t(0));
  if (held != layer.value("num_experts", held)) {
    // The first expert is only known if the package is for a single rank.
    if (local.contains("begin")) {
      text +=
          fmt::format("; this rank holds {}",
                      html::expertsText(local.value("begin", int64_t(0)), held,
                                        local.value("stride", int64_t(1))));
    } else {
      text += fmt::format("; each rank holds {} experts", held);
    }
  }
  text +=
      fmt::format("\n  scheme {}, routing {}, activation {}, input {}, "
                  "output {}\n",
                  textOf(report, "scheme"), name("routing"), name("activation"),
                  textOf(layer, "in_dtype"), textOf(layer, "out_dtype"));
  text += rankText(report);
  text += sharedText(layer);
  for (const ordered_json &row : layer.value("left_out", ordered_json::array()))
    text += fmt::format("  left out of a checkpoint: {}, since {}\n",
                        textOf(row, "value"), textOf(row, "because"));
  if (layer.contains("origin"))
    text += originText(layer["origin"]);
  return text;
}

std::string moec::compiler::explainText(const ordered_json &report) {
  std::string text = layerText(report);
  for (const ordered_json &target : report["targets"])
    text += targetText(target);
  return text;
}

std::string moec::compiler::briefText(const ordered_json &report) {
  std::string text = layerText(report);
  for (const ordered_json &target : report["targets"])
    text += choiceText(target) + summaryText(target["summary"]) +
            predictionsText(target) + allowedText(target) +
            evidenceText(target);
  return text;
}

std::string moec::compiler::wrapped(std::string_view text, size_t columns) {
  constexpr size_t kIndent = 4;
  std::string made;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string blanks(indent + kIndent, ' ');
    while (line.size() > columns) {
      const size_t cut = line.rfind(' ', columns);
      if (cut == std::string::npos || cut < blanks.size() + kIndent)
        break;
      made += line.substr(0, cut) + "\n";
      line = blanks + line.substr(cut + 1);
    }
    made += line + "\n";
  }
  return made;
}
