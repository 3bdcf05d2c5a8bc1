//===- Page.cpp - the report as an HTML page ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"
#include "compiler/plan/Embedded.h"
#include "runtime/support/JsonReader.h"
#include "runtime/support/Sha256.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

std::string_view styleSheet() {
  for (const EmbeddedFile &file : embeddedStyles())
    if (file.name == "page.css")
      return file.text;
  return "";
}

/// Converts a SHA-256 from hexadecimal to base64, which a
/// Content-Security-Policy requires.
std::string base64OfHex(std::string_view hex) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto digit = [&](size_t at) -> unsigned {
    if (at >= hex.size())
      return 0;
    return hex[at] <= '9' ? unsigned(hex[at] - '0')
                          : unsigned(hex[at] - 'a') + 10;
  };
  std::string out;
  // Six hexadecimal digits are three bytes, which are four base64 letters.
  for (size_t i = 0; i < hex.size(); i += 6) {
    unsigned bits = 0;
    for (size_t j = 0; j < 6; ++j)
      bits = bits << 4 | digit(i + j);
    const size_t letters = std::min<size_t>((hex.size() - i) / 2, 3) + 1;
    for (size_t j = 0; j < 4; ++j)
      out += j < letters ? kLetters[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

/// A list of names and values. Empty values are omitted.
class Facts {
public:
  void add(std::string_view word, std::string_view value) {
    if (!value.empty())
      out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(word),
                         escaped(value));
  }
  std::string finish() const {
    return out.empty() ? "" : "<dl class=\"facts\">\n" + out + "</dl>\n";
  }

private:
  std::string out;
};

std::string wordOf(JsonReader &layer, std::string_view key) {
  if (const nlohmann::json *value = layer.find(key)) {
    if (value->is_string())
      return value->get<std::string>();
    if (value->is_number_integer())
      return countText(value->get<int64_t>());
  }
  return "";
}

std::string nameIn(JsonReader &layer, std::string_view key) {
  if (std::optional<JsonReader> object = layer.object(key))
    return wordOf(*object, "name");
  return "";
}

int64_t numberOf(JsonReader &object, std::string_view key, int64_t absent) {
  const nlohmann::json *value = object.find(key);
  return value && value->is_number_integer() ? value->get<int64_t>() : absent;
}

/// Returns text such as "3 of 8", or "0 to 63 of 64" for a package for several
/// ranks. Returns "" for a layer on one rank.
std::string rankText(const Report &report, JsonReader &layer) {
  std::optional<JsonReader> parallel = layer.object("parallel");
  if (!parallel || report.ranks.empty())
    return "";
  // Values from a report file are not validated. A product of type double
  // cannot overflow like an integer.
  double count = 1;
  for (const char *size : {"dp_size", "pcp_size", "tp_size"})
    count *= double(std::max<int64_t>(numberOf(*parallel, size, 1), 1));
  if (count <= 1)
    return "";
  const std::string first = countText(report.ranks.front());
  return fmt::format("{} of {:.0f}",
                     report.ranks.size() == 1
                         ? first
                         : first + " to " + countText(report.ranks.back()),
                     count);
}

/// Returns a description of the experts that a rank has, or "" if it has all
/// experts.
std::string heldText(JsonReader &layer) {
  std::optional<JsonReader> local = layer.object("local_experts");
  if (!local)
    return "";
  int64_t count = numberOf(*local, "count", 0);
  if (!layer.find("shared_apart"))
    count -= std::clamp<int64_t>(numberOf(layer, "n_shared_experts", 0), 0,
                                 std::max<int64_t>(count, 0));
  constexpr int64_t kMost = 1 << 20; // largest plausible number of experts
  const int64_t begin = numberOf(*local, "begin", -1),
                stride = numberOf(*local, "stride", 1);
  if (count < 1 || count == numberOf(layer, "num_experts", count))
    return "";
  if (begin < 0 || begin > kMost || count > kMost || stride < 1 ||
      stride > kMost)
    return countText(count);
  return expertsText(begin, count, stride);
}

std::string layerFacts(const Report &report) {
  // readReport() has checked that the layer is an object.
  JsonErrors ignored;
  JsonReader layer(*report.layer, "layer", ignored);
  Facts facts;
  const std::string experts = wordOf(layer, "num_experts");
  if (!experts.empty())
    facts.add("experts",
              fmt::format("{}, {} a token", experts, wordOf(layer, "top_k")));
  facts.add("rank", rankText(report, layer));
  facts.add("experts of the rank", heldText(layer));
  facts.add("hidden", wordOf(layer, "hidden_size"));
  const std::string whole = wordOf(layer, "intermediate_size"),
                    part = wordOf(layer, "intermediate_size_per_partition");
  facts.add("intermediate", part.empty() || part == whole
                                ? whole
                                : fmt::format("{}, {} on a rank", whole, part));
  facts.add("scheme", report.scheme);
  facts.add("routing", nameIn(layer, "routing"));
  facts.add("activation", nameIn(layer, "activation"));
  const std::string input = wordOf(layer, "in_dtype");
  if (!input.empty())
    facts.add("input, output",
              fmt::format("{}, {}", input, wordOf(layer, "out_dtype")));
  if (std::optional<JsonReader> origin = layer.object("origin")) {
    facts.add("model", wordOf(*origin, "model"));
    if (!wordOf(*origin, "layers").empty())
      facts.add("layer", fmt::format("{} of {}", wordOf(*origin, "layer"),
                                     wordOf(*origin, "layers")));
  }
  if (report.maxTokens > 0)
    facts.add("tokens of a run", "at most " + countText(report.maxTokens));
  return facts.finish();
}

std::string note(std::string_view text) {
  return fmt::format("<p class=\"note\">{}</p>\n", escaped(text));
}

/// Returns notes about the target's realization: how the operands are
/// multiplied, and why not natively.
std::string targetNotes(const Target &target) {
  std::string out;
  if (target.realization == "dequantized")
    out += note("Operands are dequantized, exactly, before they are "
                "multiplied.");
  if (target.realization == "emulated")
    out += note("Activations are emulated: quantized and dequantized at once, "
                "then multiplied as 16 bits.");
  if (target.realization == "weight_only")
    out += note("Another layer: activations are not quantized, as was "
                "allowed.");
  for (const Choice &choice : target.choices)
    out += note(
        fmt::format("{}: {}, by {}", choice.option, choice.value, choice.by));
  if (!target.since.empty())
    out += note("Emulated since " + target.since + ".");
  if (!target.degraded.empty())
    out += note("Degraded from " + target.degraded + ".");
  if (!target.evidence.empty())
    out += note(target.arch + ": " + target.evidence + ".");
  return out;
}

/// Returns the engines of the launched matmuls, in ascending order of tokens.
/// They may exclude the target's chosen engine, which no variant uses if
/// `max_tokens` is small.
std::vector<std::string> matmulEngines(const Target &target) {
  std::vector<std::string> engines;
  for (const Variant &variant : target.variants)
    for (const Kernel &kernel : variant.kernels)
      if ((kernel.work == Work::GateUp || kernel.work == Work::Down) &&
          std::ranges::find(engines, kernel.engine) == engines.end())
        engines.push_back(kernel.engine);
  return engines;
}

std::string targetFacts(const Target &target) {
  Facts facts;
  facts.add("backend", target.backend);
  const std::vector<std::string> engines = matmulEngines(target);
  facts.add(engines.size() > 1 ? "engines, by tokens" : "engine",
            engines.empty() ? target.engine
                            : fmt::format("{}", fmt::join(engines, ", ")));
  facts.add("part", target.part);
  facts.add("scheme", target.scheme);
  if (!target.backend.empty())
    facts.add("operands", target.realization);
  if (target.weightBytes > 0)
    facts.add("weights", sizeText(target.weightBytes));
  for (const auto &[tokens, bytes] : target.workspaces)
    facts.add("workspace, " + countedText(tokens, "token", "tokens"),
              sizeText(bytes));
  // The memory that a rank needs in addition to its inputs and outputs.
  if (target.weightBytes > 0 && !target.workspaces.empty()) {
    const auto &[tokens, bytes] = target.workspaces.back();
    if (bytes < kMaxCount - target.weightBytes)
      facts.add("memory, " + countedText(tokens, "token", "tokens"),
                sizeText(target.weightBytes + bytes));
  }
  return facts.finish();
}

/// Returns a table of all candidates in their order.
std::string realizations(const Target &target) {
  std::vector<std::vector<Cell>> rows;
  for (const Realization &row : target.realizations)
    rows.push_back({row.state == "chosen"    ? Cell{"chosen", "yes"}
                    : row.state == "refused" ? Cell{"refused", "no"}
                                             : Cell{"also supported"},
                    {row.realization},
                    {row.computed, "code"},
                    {row.backend, "code"},
                    {row.engine, "code"},
                    {row.code, "code"},
                    {row.reason, "reason"}});
  return "<h3>Candidates, the best first</h3>\n" +
         table({"", "realization", "computed", "backend", "engine", "code",
                "reason"},
               rows, "Candidates for " + target.arch, true);
}

std::string refusals(const Target &target) {
  if (!target.realizations.empty())
    return realizations(target);
  std::vector<std::vector<Cell>> rows;
  if (!target.backend.empty())
    rows.push_back({{"chosen", "yes"},
                    {target.backend, "code"},
                    {target.engine, "code"},
                    {"", "code"},
                    {target.realization, "reason"}});
  for (const Refusal &refusal : target.refused)
    rows.push_back({{"refused", "no"},
                    {refusal.backend, "code"},
                    {refusal.engine, "code"},
                    {refusal.code, "code"},
                    {refusal.reason, "reason"}});
  if (rows.empty())
    return "";
  return "<h3>Candidates</h3>\n" +
         table({"", "backend", "engine", "code", "reason"}, rows,
               "Candidates for " + target.arch, true);
}

std::string variantSection(const Target &target, const Variant &variant) {
  std::string out = fmt::format(
      "<details open><summary>{} <span "
      "class=\"quiet\">{}</span></summary>\n",
      variant.firstTokens == variant.lastTokens
          ? countedText(variant.lastTokens, "token", "tokens")
          : fmt::format("{} to {} tokens", countText(variant.firstTokens),
                        countText(variant.lastTokens)),
      escaped(variant.name));
  std::string text =
      countedText(int64_t(variant.kernels.size()), "launch", "launches");
  if (variant.workspaceBytes)
    text +=
        fmt::format(", workspace {} at {}", sizeText(*variant.workspaceBytes),
                    countedText(variant.lastTokens, "token", "tokens"));
  if (variant.minSms > 0)
    text += fmt::format(", for GPUs of {} SMs or more", variant.minSms);
  if (!variant.predictions.empty())
    text += fmt::format(
        ", predicted {} at {}",
        timeText(variant.predictions.back().microseconds),
        countedText(variant.predictions.back().tokens, "token", "tokens"));
  out += fmt::format("<p>{}.</p>\n", escaped(text));
  out += figure(kernelGraph(target, variant), "Kernels", "graph");
  for (const Kernel &kernel : variant.kernels)
    if (!kernel.apart.empty())
      out += note(fmt::format("{} is a launch of its own: {}", kernel.name,
                              kernel.apart));
  if (const std::string map = workspaceMap(target, variant); !map.empty())
    out += figure(map,
                  "Workspace over launches, at " +
                      countedText(variant.lastTokens, "token", "tokens"),
                  "map") +
           workspaceTable(variant);
  return out + "</details>\n";
}

std::string variantSections(const Target &target) {
  std::string out;
  for (const Variant &variant : target.variants)
    out += variantSection(target, variant);
  return out.empty() ? "" : "<h3>Variants</h3>\n" + out;
}

/// Returns the source of a schedule. The text includes the measurement that
/// determines the schedule, or the token counts of measurements that do not
/// apply.
std::string sourceText(const Kernel &kernel) {
  if (!kernel.measuredBy.empty())
    return fmt::format("{}: {}", kernel.source, kernel.measuredBy);
  if (!kernel.measuredBeside.empty())
    return fmt::format("{}; measured for other tokens: {}", kernel.source,
                       kernel.measuredBeside);
  return kernel.source;
}

/// Returns a table of schedules. Each kernel is listed once, although several
/// variants may share it.
std::string schedules(const Target &target) {
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> seen;
  for (const Variant &variant : target.variants)
    for (const Kernel &kernel : variant.kernels) {
      if (std::find(seen.begin(), seen.end(), kernel.name) != seen.end())
        continue;
      seen.push_back(kernel.name);
      std::string words;
      for (const std::string &word : scheduleWords(kernel))
        if (word != kernel.engine && !word.starts_with("schedule "))
          words += (words.empty() ? "" : ", ") + word;
      rows.push_back({{kernel.name, "code", std::string(classOf(kernel.work))},
                      {kernel.engine, "code"},
                      {sourceText(kernel)},
                      {words, "reason"},
                      {std::to_string(kernel.ctasPerSm), "number"},
                      {kernel.grid, "code"}});
    }
  if (rows.empty())
    return "";
  return "<h3>Schedules</h3>\n" +
         table({"kernel", "engine", "source", "schedule", "CTAs an SM",
                "grid in CTAs"},
               rows, "Schedules for " + target.arch);
}

std::string weights(const Target &target) {
  std::vector<std::vector<Cell>> rows;
  for (const Weight &weight : target.weights)
    rows.push_back(
        {{weight.name, "code"},
         {weight.role},
         {weight.bytes ? sizeText(*weight.bytes) : "", "number"},
         {weight.mayAlias.empty() ? "" : "in place of " + weight.mayAlias}});
  return rows.empty() ? ""
                      : "<h3>Weights</h3>\n" +
                            table({"weight", "role", "size", "memory"}, rows,
                                  "Weights for " + target.arch);
}

std::string targetSection(const Report &report, const Target &target,
                          const Bench *bench, size_t number) {
  std::string out = fmt::format(
      "<section id=\"target-{}\"><h2>{}{}</h2>\n", number, escaped(target.arch),
      target.gpu.empty()
          ? ""
          : fmt::format(" <span class=\"quiet\">schedules for {}</span>",
                        escaped(target.gpu)));
  out += headline(report, target) + targetFacts(target) + targetNotes(target) +
         refusals(target);
  if (!target.variants.empty()) {
    out += figure(tokenStrip(report, target),
                  "Engines and launches by number of tokens", "strip");
    out += timeSection(report, target, bench);
  }
  return out + variantSections(target) + schedules(target) + weights(target) +
         "</section>\n";
}

std::string contents(const Report &report) {
  if (report.targets.size() < 2)
    return "";
  std::string out = "<nav aria-label=\"Targets\">";
  for (size_t i = 0; i < report.targets.size(); ++i)
    out += fmt::format("<a href=\"#target-{}\">{}</a>", i,
                       escaped(report.targets[i].arch));
  return out + "</nav>\n";
}

} // namespace

Result<std::string> html::makePage(std::string_view reportText,
                                   const std::optional<NamedText> &benchText) {
  const Report report = TRY(readReport(reportText));
  std::optional<Bench> bench;
  if (benchText)
    bench = TRY(readBench(*benchText, report));
  const std::string name =
      report.name.empty() ? "a layer" : shortened(report.name, 200);
  const std::string_view style = styleSheet();
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>moec: {}</title>\n<style>{}</style></head>\n<body>"
      "<main>\n",
      base64OfHex(sha256(style)), escaped(name), style);
  out += fmt::format("<header><p class=\"quiet\">moec explain</p><h1>{}</h1>\n",
                     escaped(name));
  if (!report.served)
    out += fmt::format("<p class=\"refusal\"><strong>Refused.</strong> "
                       "{}</p>\n",
                       escaped(report.message));
  out += layerFacts(report) + contents(report) + "</header>\n";
  out += comparison(report);
  for (size_t i = 0; i < report.targets.size(); ++i)
    out +=
        targetSection(report, report.targets[i], bench ? &*bench : nullptr, i);
  return out + "</main></body></html>\n";
}
