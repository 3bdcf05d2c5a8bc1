//===- Explain.cpp - what was decided, and why ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Explain.h"

#include "compiler/ExplainAllowed.h"
#include "compiler/ExplainBuffers.h"
#include "compiler/ExplainPredictions.h"
#include "compiler/ExplainSummary.h"
#include "compiler/html/Numbers.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Resolver.h"
#include "dialect/Moe.h"
#include "runtime/package/ElementTypes.h"

#include <fmt/format.h>

using namespace moec;
using namespace moec::compiler;
using moec::compiler::html::sizeText;
using nlohmann::ordered_json;

namespace {

/// Bytes of a value whose shape does not depend on the run, else nothing.
std::optional<int64_t> fixedBytes(const Value &value) {
  const ElementType *element =
      value.elementTypes.empty() ? nullptr
                                 : findElementType(value.elementTypes.front());
  if (!element)
    return std::nullopt;
  int64_t elements = 1;
  for (const Expression &extent : value.shape) {
    std::optional<int64_t> size = extent.constant();
    if (!size)
      return std::nullopt;
    elements *= *size;
  }
  return (elements * element->bits + 7) / 8;
}

moe::ProgramOp programOf(mlir::ModuleOp module, const Target &target) {
  for (moe::ProgramOp program : module.getOps<moe::ProgramOp>())
    if (program.getTarget().getArch() == llvm::StringRef(target.arch))
      return program;
  return {};
}

/// What the kernel's schedule says; fields that do not apply are absent.
void addSchedule(ordered_json &kernel, moe::ScheduleAttr schedule) {
  kernel["engine"] = schedule.getEngine().str();
  if (!schedule.getTile().empty())
    kernel["tile"] = std::vector<int64_t>(schedule.getTile());
  if (auto combine = mlir::dyn_cast<moe::CombineScheduleAttr>(schedule))
    kernel["columns"] = combine.getColumns();
  if (schedule.getStages())
    kernel["pipeline_stages"] = schedule.getStages();
  if (auto warps = mlir::dyn_cast<moe::WarpsScheduleAttr>(schedule))
    kernel["warps"] = std::vector<int64_t>(warps.getWarps());
  if (const moe::Roles *roles = schedule.getRoles()) {
    kernel["producer_warps"] = roles->producerWarps;
    kernel["consumer_warps"] = roles->consumerWarps;
  }
  if (schedule.getSwap())
    kernel["swap"] = true;
  if (schedule.getPersistent())
    kernel["persistent"] = true;
  if (schedule.getBlockTokens())
    kernel["block_tokens"] = schedule.getBlockTokens();
  if (!schedule.getCluster().empty())
    kernel["cluster"] = std::vector<int64_t>(schedule.getCluster());
  kernel["schedule_source"] = schedule.getSource().str();
}

/// The fields of a plan; those that do not apply are absent.
void addPlan(ordered_json &kernel, moe::PlanAttr plan) {
  kernel["grid"] = plan.getGrid().str();
  const auto number = [&](const char *name, int64_t value) {
    if (value)
      kernel[name] = value;
  };
  number("column_blocks", plan.getColumnBlocks());
  number("cursor", plan.getCursor());
  number("awaits", plan.getAwaits());
  number("split_tiles", plan.getSplitTiles());
  if (plan.getEarly())
    kernel["early"] = true;
  if (plan.getCounts())
    kernel["counts"] = true;
}

/// The variant's source of the schedule of a kernel that it may share.
void addSource(ordered_json &json, moe::KernelOp kernel,
               const std::string &variant) {
  mlir::DictionaryAttr words;
  if (auto all = kernel->getAttrOfType<mlir::DictionaryAttr>(kSources))
    words = all.getAs<mlir::DictionaryAttr>(variant);
  const auto add = [&](llvm::StringRef name, const char *field) {
    auto text = words ? words.getAs<mlir::StringAttr>(name)
                      : kernel->getAttrOfType<mlir::StringAttr>(name);
    if (text)
      json[field] = text.getValue().str();
  };
  if (words)
    add("source", "schedule_source");
  add(kMeasuredBy, "measured_by");
  add(kMeasuredBeside, "measured_beside");
}

ordered_json kernelJson(const Kernel &kernel, const Target &target,
                        moe::ProgramOp program, const std::string &variant) {
  ordered_json json;
  json["name"] = kernel.name;
  json["stages"] = ordered_json::array();
  for (const Stage &stage : kernel.stages)
    json["stages"].push_back(stage.op);
  addBuffers(json, kernel, target);
  if (program)
    for (moe::KernelOp op : program.getBody().getOps<moe::KernelOp>()) {
      if (op.getSymName() != llvm::StringRef(kernel.name))
        continue;
      json["kind"] = op.getKind().str();
      if (op.getSchedule())
        addSchedule(json, *op.getSchedule());
      if (op.getPlan())
        addPlan(json, *op.getPlan());
      if (auto why = op->getAttrOfType<mlir::StringAttr>(kApart))
        json["apart"] = why.getValue().str();
      addSource(json, op, variant);
    }
  json["threads"] = kernel.threads;
  json["ctas_per_sm"] = kernel.minCtasPerSm;
  json["shared_bytes"] = kernel.sharedBytes;
  json["programmatic"] = kernel.programmatic;
  json["entry"] = kernel.entry;
  return json;
}

/// Collectives stand among the kernels, since buffers count launches.
ordered_json collectiveJson(moe::CollectiveOp op) {
  ordered_json json;
  json["name"] = op.getKind().str();
  json["stages"] = {op.getKind().str()};
  json["kind"] = "collective";
  json["ranks"] = op.getRanks();
  json["stride"] = op.getStride();
  json["reads"] = ordered_json::array();
  for (mlir::Value value : op.getArguments())
    json["reads"].push_back(valueName(value));
  json["writes"] = ordered_json::array();
  for (mlir::Value value : op.getValues())
    json["writes"].push_back(valueName(value));
  return json;
}

/// The collectives of a variant, in order.
llvm::SmallVector<moe::CollectiveOp> collectivesOf(moe::ProgramOp program,
                                                   llvm::StringRef variant) {
  for (auto op : program.getBody().getOps<moe::VariantOp>())
    if (op.getSymName() == variant)
      return llvm::to_vector(op.getBody().getOps<moe::CollectiveOp>());
  return {};
}

ordered_json variantJson(const Variant &variant, const Manifest &manifest,
                         const Target &target, moe::ProgramOp program) {
  ordered_json json;
  json["name"] = variant.name;
  json["tokens"] = {variant.minTokens, variant.maxTokens};
  if (variant.minSms > 0)
    json["min_sms"] = variant.minSms;
  json["workspace"] = variant.workspaceBytes.text();
  // Of the largest run; the SM count is a GPU's, so without one it is absent.
  Symbols symbols;
  symbols.tokens = variant.maxTokens;
  symbols.maxTokens = manifest.maxTokens;
  if (manifest.tokenRanks > 1)
    symbols.ownTokens = variant.maxTokens / manifest.tokenRanks;
  if (Result<int64_t> rows = manifest.rows.evaluate(symbols))
    symbols.rows = *rows;
  if (const catalog::Gpu *gpu =
          program ? program.getTarget().getGpuRow() : nullptr)
    symbols.smCount = gpu->sms;
  if (Result<int64_t> bytes = variant.workspaceBytes.evaluate(symbols))
    json["workspace_bytes"] = *bytes;
  json["buffers"] = buffersJson(variant, symbols);
  json["kernels"] = ordered_json::array();
  llvm::SmallVector<moe::CollectiveOp> collectives;
  if (program)
    collectives = collectivesOf(program, variant.name);
  size_t met = 0;
  for (const Launch &launch : variant.launches)
    if (const Kernel *kernel = findKernel(target, launch.kernel))
      json["kernels"].push_back(
          kernelJson(*kernel, target, program, variant.name));
    else if (launch.collective && met < collectives.size())
      json["kernels"].push_back(collectiveJson(collectives[met++]));
  return json;
}

ordered_json weightsJson(const Manifest &manifest, const Target &target) {
  ordered_json json = ordered_json::array();
  auto add = [&](const Value &value) {
    ordered_json weight;
    weight["name"] = value.name;
    weight["role"] =
        value.role == ValueRole::StoredWeight ? "stored" : "packed";
    if (std::optional<int64_t> bytes = fixedBytes(value))
      weight["bytes"] = *bytes;
    if (!value.mayAlias.empty())
      weight["may_alias"] = value.mayAlias;
    json.push_back(std::move(weight));
  };
  for (const Value &value : manifest.values)
    if (value.role == ValueRole::StoredWeight)
      add(value);
  for (const Value &value : target.values)
    if (value.role == ValueRole::PackedWeight)
      add(value);
  return json;
}

/// The scales that keep engines from multiplying operands of one type of 8 bits
/// as they are; "" for other operands.
std::string scalesThatEmulate(moe::QuantAttr quant) {
  std::string text;
  for (auto [activation, weight] : {std::pair(quant.getA1(), quant.getW1()),
                                    {quant.getA2(), quant.getW2()}})
    if (text.empty() && !activation.isPlain() && !weight.isPlain() &&
        activation.getElement() == weight.getElement() &&
        activation.getElement().getIntOrFloatBitWidth() == 8 &&
        !moe::nativeScales(activation, weight))
      text = fmt::format(
          "no engine multiplies {} as it is with scales of [{}, {}] and, of "
          "weights, of [{}, {}]",
          elementTypeName(weight.getElement()), activation.getGroup()[0],
          activation.getGroup()[1], weight.getGroup()[0], weight.getGroup()[1]);
  return text;
}

/// Every candidate in its order, and those of them that are refused.
void addRealizations(ordered_json &target, moe::ReportAttr report) {
  target["realizations"] = ordered_json::array();
  bool hasChosen = report.getBackend().empty();
  for (moe::CandidateAttr candidate : report.getCandidates()) {
    const bool isChosen = !candidate.isRefused() && !hasChosen;
    hasChosen |= isChosen;
    ordered_json row = {{"realization", candidate.getRealization().str()},
                        {"computed", candidate.getComputed().str()},
                        {"backend", candidate.getBackend().str()},
                        {"engine", candidate.getEngine().str()},
                        {"state", candidate.isRefused() ? "refused"
                                  : isChosen            ? "chosen"
                                                        : "would_serve"}};
    if (candidate.isRefused()) {
      row["code"] = candidate.getCode().str();
      row["reason"] = candidate.getReason().str();
      target["refused"].push_back({{"backend", row["backend"]},
                                   {"engine", row["engine"]},
                                   {"realization", row["realization"]},
                                   {"code", row["code"]},
                                   {"reason", row["reason"]}});
    }
    target["realizations"].push_back(std::move(row));
  }
  target["choices"] = ordered_json::object();
  for (moe::ChoiceAttr choice : report.getChoices())
    target["choices"][choice.getOption().str()] = {
        {"value", choice.getValue().str()}, {"by", choice.getBy().str()}};
}

void addReport(ordered_json &target, moe::ProgramOp program) {
  target["refused"] = ordered_json::array();
  if (program && program.getPart())
    target["part"] = program.getPart()->str();
  if (!program || !program.getReport())
    return;
  moe::ReportAttr report = *program.getReport();
  target["backend"] = report.getBackend().str();
  target["engine"] = report.getEngine().str();
  target["degraded"] = report.getDegraded().str();
  target["realization"] = report.getRealization().str();
  if (report.getRealization() == "emulated")
    if (const std::string scales =
            scalesThatEmulate(program.getLayerOp().getUsersQuant());
        !scales.empty())
      target["emulated_since"] = scales;
  addRealizations(target, report);
}

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
    text += ", begins before the launch in front ends";
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
    text += fmt::format("{} tokens a CTA, ", kernel["block_tokens"].dump());
  if (kernel.contains("cluster"))
    text += fmt::format("clusters of {} CTAs, ", kernel["cluster"][0].dump());
  text +=
      fmt::format("{} threads, {} of shared memory", kernel["threads"].dump(),
                  sizeText(kernel["shared_bytes"].get<int64_t>()));
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

/// A line for those that follow each other with the same answer.
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
                ? "would serve"
                : fmt::format("refused [{}]: {}", textOf(first, "code"),
                              textOf(first, "reason"));
    text += "\n";
  }
  return text.empty() ? "" : "  realizations, the best first:\n" + text;
}

std::string targetText(const ordered_json &target) {
  std::string text = fmt::format("target {}", textOf(target, "arch"));
  if (std::string gpu = textOf(target, "gpu"); !gpu.empty())
    text += fmt::format(", schedules assume {}", gpu);
  text +=
      target.contains("part")
          ? fmt::format("\n  part {} alone, without a matmul\n",
                        textOf(target, "part"))
          : fmt::format("\n  chosen: backend {}, engine {}\n",
                        textOf(target, "backend"), textOf(target, "engine"));
  if (std::string degraded = textOf(target, "degraded"); !degraded.empty())
    text += fmt::format("  degraded from {}\n", degraded);
  if (textOf(target, "realization") == "dequantized")
    text += "  operands are dequantized, exactly, before they are multiplied\n";
  if (textOf(target, "realization") == "weight_only")
    text += "  another layer: activations are not quantized, as allow says\n";
  if (textOf(target, "realization") == "emulated")
    text +=
        "  activations are emulated: quantized and dequantized at once, then "
        "multiplied as 16 bits\n";
  if (target.contains("emulated_since"))
    text +=
        fmt::format("  emulated since {}\n", textOf(target, "emulated_since"));
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
         summaryText(target["summary"], sizeText);
}

} // namespace

Result<ordered_json>
moec::compiler::explainJson(mlir::ModuleOp scheduled, const Manifest &manifest,
                            const ExplainOptions &options) {
  ordered_json report;
  report["moec_explain"] = 1;
  report["served"] = true;
  report["name"] = manifest.name;
  report["max_tokens"] = manifest.maxTokens;
  report["layer"] = manifest.layer;
  report["targets"] = ordered_json::array();
  for (const Target &target : manifest.targets) {
    moe::ProgramOp program = programOf(scheduled, target);
    ordered_json json;
    json["arch"] = target.arch;
    json["gpu"] = target.gpu;
    addReport(json, program);
    json["weights"] = weightsJson(manifest, target);
    json["variants"] = ordered_json::array();
    for (const Variant &variant : target.variants)
      json["variants"].push_back(
          variantJson(variant, manifest, target, program));
    TRY(addPredictions(json, program, manifest.maxTokens, options));
    const catalog::Gpu *gpu =
        program ? program.getTarget().getGpuRow() : nullptr;
    json["summary"] = summaryOf(json, manifest, target, gpu ? gpu->sms : 0);
    report["targets"].push_back(std::move(json));
  }
  return report;
}

ordered_json moec::compiler::refusalJson(mlir::ModuleOp module,
                                         std::string_view message) {
  ordered_json report;
  report["moec_explain"] = 1;
  report["served"] = false;
  report["message"] = message;
  if (module)
    for (moe::LayerOp layer : module.getOps<moe::LayerOp>())
      report["name"] = layer.getSymName().str();
  report["targets"] = ordered_json::array();
  if (module)
    for (moe::ProgramOp program : module.getOps<moe::ProgramOp>()) {
      ordered_json json;
      json["arch"] = program.getTarget().getArch().str();
      addReport(json, program);
      report["targets"].push_back(std::move(json));
    }
  return report;
}

/// "a 1, b 2" of an object.
static std::string fieldsText(const ordered_json &fields) {
  std::string text;
  for (const auto &field : fields.items())
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", field.key(),
                    field.value().is_string() ? field.value().get<std::string>()
                                              : field.value().dump());
  return text;
}

/// The model's layer, and what its config says and does not say.
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

/// The place of the weights of shared experts, and why; "" without any.
static std::string sharedText(const ordered_json &layer) {
  const int64_t count = layer.value("n_shared_experts", int64_t(0));
  if (count == 0)
    return "";
  if (!layer.contains("shared_apart"))
    return fmt::format("  shared experts: {}, behind the others in the "
                       "weights\n",
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

std::string moec::compiler::explainText(const ordered_json &report) {
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
  const int64_t held = local.value("count", int64_t(0));
  if (held != layer.value("num_experts", held)) {
    // Each of several ranks has a begin of its own.
    if (local.contains("begin")) {
      const int64_t begin = local.value("begin", int64_t(0));
      text += fmt::format("; this rank holds experts {} to {}", begin,
                          begin + held - 1);
    } else {
      text += fmt::format("; each rank holds {} experts", held);
    }
  }
  text += fmt::format(
      "\n  scheme {}, routing {}, activation {}, input {}, "
      "output {}\n",
      name(layer.contains("stored_quant") ? "stored_quant" : "quant"),
      name("routing"), name("activation"), textOf(layer, "input_type"),
      textOf(layer, "output_type"));
  text += sharedText(layer);
  for (const ordered_json &row : layer.value("left_out", ordered_json::array()))
    text += fmt::format("  left out of a checkpoint: {}, since {}\n",
                        textOf(row, "value"), textOf(row, "because"));
  if (layer.contains("origin"))
    text += originText(layer["origin"]);
  for (const ordered_json &target : report["targets"])
    text += targetText(target);
  return text;
}
