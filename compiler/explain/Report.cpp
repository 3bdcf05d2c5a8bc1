//===- Report.cpp - the report of explain as JSON -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/explain/Report.h"

#include "compiler/explain/Parts.h"
#include "compiler/matmul/Engine.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Resolver.h"
#include "compiler/plan/Tuned.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Evidence.h"
#include "dialect/catalog/Parts.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/package/Arguments.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/package/Ranks.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

namespace {

/// Returns the bytes of a value whose shape does not depend on the run, or
/// nullopt for other values.
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

/// Adds the fields of a schedule. Omits fields that do not apply.
void addSchedule(ordered_json &kernel, moe::ScheduleAttr schedule) {
  kernel["engine"] = schedule.getEngine().str();
  constexpr WordList kReported = "tile columns stages warps producer_warps "
                                 "consumer_warps block_tokens cluster";
  for (const Member &member : schedule.getMembers())
    if (kReported.contains(member.name) && !member.isAbsent)
      kernel[member.name == "stages" ? "pipeline_stages" : member.name.data()] =
          compiler::memberJson(member);
  if (const Schedule *matmul = schedule.getMatmul();
      matmul && matmul->hasRoles() && matmul->roles().swap)
    kernel["swap"] = true;
  if (schedule.getPersistent())
    kernel["persistent"] = true;
  kernel["schedule_source"] = schedule.getSource().str();
}

/// Adds the fields of a launch plan. Omits fields that do not apply.
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

/// Adds the number of tensor memory columns that a CTA allocates, if any.
void addTensorColumns(ordered_json &json, moe::KernelOp kernel) {
  const Schedule *schedule =
      kernel.getKind() == "grouped_matmul" && kernel.getSchedule()
          ? kernel.getSchedule()->getMatmul()
          : nullptr;
  if (!schedule)
    return;
  const mlir::FailureOr<MatmulProblem> problem = tiledProblem(kernel);
  if (failed(problem))
    return;
  if (const int64_t columns =
          engineOf(*schedule).tensorColumns(*problem, *schedule))
    json["tensor_memory_columns"] = columns;
}

/// Adds the source of the kernel's schedule. Several variants may share the
/// kernel, and their sources may differ; `variant` selects one.
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
      addTensorColumns(json, op);
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

/// Returns the JSON of a collective. Collectives are listed among the kernels,
/// because buffers refer to launches by index.
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

/// Returns the collectives of a variant, in order.
llvm::SmallVector<moe::CollectiveOp> collectivesOf(moe::ProgramOp program,
                                                   llvm::StringRef variant) {
  for (auto op : program.getBody().getOps<moe::VariantOp>())
    if (op.getSymName() == variant)
      return llvm::to_vector(op.getBody().getOps<moe::CollectiveOp>());
  return {};
}

/// Returns the symbols of a run of `tokens` tokens, or as many of them as are
/// known without a rank and a GPU.
Symbols symbolsAt(const Manifest &manifest, int64_t tokens,
                  std::optional<int64_t> smCount) {
  Result<Symbols> symbols = symbolsFor(manifest, tokens, smCount);
  if (symbols)
    return *symbols;
  Symbols known;
  known.tokens = tokens;
  known.maxTokens = manifest.maxTokens;
  known.smCount = smCount;
  return known;
}

ordered_json variantJson(const Variant &variant, const Manifest &manifest,
                         const Target &target, moe::ProgramOp program) {
  ordered_json json;
  json["name"] = variant.name;
  json["tokens"] = {variant.minTokens, variant.maxTokens};
  if (variant.minSms > 0)
    json["min_sms"] = variant.minSms;
  json["workspace"] = variant.workspaceBytes.text();
  // Evaluate the workspace for the variant's largest run. The size may depend
  // on the SM count, which is unknown without a GPU.
  std::optional<int64_t> sms;
  if (const catalog::Gpu *gpu =
          program ? program.getTarget().getGpuRow() : nullptr)
    sms = gpu->sms;
  const Symbols symbols = symbolsAt(manifest, variant.maxTokens, sms);
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

/// Returns true if only the rounding rule of the activation scales prevents
/// native multiplication. Engines support only scales that are rounded up
/// ("ceil").
bool isRuleThatEmulates(moe::DescriptorAttr activation,
                        moe::DescriptorAttr weight) {
  if (activation.getRule().empty() || activation.getRule() == "ceil")
    return false;
  const auto up = moe::DescriptorAttr::get(
      activation.getContext(), activation.getElement(), activation.getGroup(),
      activation.getScale(), activation.getDynamic(),
      activation.getSecondScale(), activation.getZeroPoint(), "ceil",
      activation.getSecondPerRow());
  return moe::nativeScales(up, weight) != nullptr;
}

/// Returns a sentence about the scales that prevent native multiplication of
/// 8-bit operands of one type, or "" for other operands.
std::string scalesThatEmulate(moe::QuantAttr quant) {
  std::string text;
  for (auto [activation, weight] : {std::pair(quant.getA1(), quant.getW1()),
                                    {quant.getA2(), quant.getW2()}})
    if (text.empty() && !activation.isPlain() && !weight.isPlain() &&
        activation.getElement() == weight.getElement() &&
        activation.getElement().getIntOrFloatBitWidth() == 8 &&
        !moe::nativeScales(activation, weight))
      text =
          isRuleThatEmulates(activation, weight)
              ? fmt::format("no engine multiplies {} as it is with scales that "
                            "are rounded by the rule '{}', but with 'ceil'",
                            elementTypeName(weight.getElement()),
                            activation.getRule().str())
              : fmt::format("no engine multiplies {} as it is with scales of "
                            "[{}, {}] and, of "
                            "weights, of [{}, {}]",
                            elementTypeName(weight.getElement()),
                            activation.getGroup()[0], activation.getGroup()[1],
                            weight.getGroup()[0], weight.getGroup()[1]);
  return text;
}

/// Adds all candidates in their order, the rejected candidates, and the user's
/// choices.
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

/// Token counts for which the summary contains workspace sizes.
constexpr int64_t kSummaryTokens[] = {1, 1024, 8192};

/// Returns a string member of an object, or "" if the member is absent or null.
std::string wordOf(const ordered_json &object, const char *key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

/// Returns text such as "groups of 1 x 128", or "" for an operand without
/// scales.
std::string groupText(const ordered_json &operand) {
  const auto group = operand.find("group");
  return group != operand.end() && group->size() == 2
             ? fmt::format("groups of {} x {}", (*group)[0].dump(),
                           (*group)[1].dump())
             : "";
}

/// Returns the element type and groups of an operand, such as "i4 in groups of
/// 1 x 128".
std::string operandText(const ordered_json &operand) {
  const std::string group = groupText(operand);
  return operand.value("element_type", "") +
         (group.empty() ? "" : " in " + group);
}

/// Returns true if the operand matches the catalog descriptor in everything
/// except its group size and scale type.
bool isStoredAs(const ordered_json &operand,
                const catalog::SchemeDescriptor &row) {
  return operand.value("element_type", "") == row.element &&
         operand.value("dynamic", false) == row.dynamic &&
         wordOf(operand, "scale_type").empty() == row.scale.empty() &&
         wordOf(operand, "second_scale_type").empty() ==
             row.secondScale.empty() &&
         wordOf(operand, "zero_point_type").empty() == row.zeroPoint.empty();
}

/// Returns the number of rows and columns that share a scale, or 0 for an
/// operand without scales.
catalog::ScaleGroup groupOf(const ordered_json &operand) {
  const auto group = operand.find("group");
  if (group == operand.end() || group->size() != 2)
    return {};
  return {(*group)[0].get<int>(), (*group)[1].get<int>()};
}

/// Returns the name of a catalog scheme from which `quant` differs only in
/// group size or scale type of the weights, such as "int4_w4a16 with groups of
/// 1 x 32". Returns "" if there is no such scheme.
std::string variedScheme(const ordered_json &quant) {
  const ordered_json w1 = quant.value("w1", ordered_json()),
                     a1 = quant.value("a1", ordered_json());
  if (w1 != quant.value("w2", ordered_json()) ||
      a1 != quant.value("a2", ordered_json()))
    return "";
  for (const catalog::Scheme &row : catalog::kSchemes) {
    const catalog::ScaleGroup group = groupOf(w1), named = row.weights.group;
    if (!isStoredAs(w1, row.weights) || !isStoredAs(a1, row.activations) ||
        groupOf(a1) != row.activations.group || group.rows != named.rows ||
        group.columns < 1 || named.columns < 1)
      continue;
    std::string text = fmt::format("{} with {}", row.name, groupText(w1));
    if (const std::string scale = wordOf(w1, "scale_type");
        scale != row.weights.scale)
      text += fmt::format(", scales {}", scale);
    return text;
  }
  return "";
}

/// Returns the scheme's name or, for an unnamed scheme, a description of its
/// descriptors.
std::string schemeText(const ordered_json &quant) {
  if (const std::string name = quant.value("name", ""); !name.empty())
    return name;
  if (const std::string name = variedScheme(quant); !name.empty())
    return name;
  // Returns one description for both matmuls if their descriptors are equal,
  // otherwise one description per matmul.
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

/// Returns the engines of a variant's matmuls, in order and without duplicates.
ordered_json enginesOf(const ordered_json &variant) {
  ordered_json engines = ordered_json::array();
  for (const ordered_json &kernel : variant["kernels"])
    if (kernel.contains("engine") && kernel.contains("pipeline_stages") &&
        std::find(engines.begin(), engines.end(), kernel["engine"]) ==
            engines.end())
      engines.push_back(kernel["engine"]);
  return engines;
}

/// Returns the summary of a target. `target` is the target's report, which must
/// have weights, variants and the realization. `sms` is the number of SMs of
/// the assumed GPU, or 0 without a GPU.
ordered_json summaryOf(const ordered_json &target, const Manifest &manifest,
                       const Target &compiled, int64_t sms) {
  ordered_json summary;
  summary["scheme"] =
      schemeText(manifest.layer->value("quant", ordered_json()));
  if (const auto stored = manifest.layer->find("stored_quant");
      stored != manifest.layer->end())
    summary["scheme"] = fmt::format("{} as {}", schemeText(*stored),
                                    summary["scheme"].get<std::string>());
  const std::string realization = target.value("realization", "");
  const std::string part = target.value("part", "");
  const std::string computed = realization.empty() ? "native" : realization;
  summary["computed"] = part.empty() ? computed
                        : !catalog::partHasMatmul(part)
                            ? "part " + part
                            : "part " + part + ", " + computed;
  // If a weight has a packed copy, runs read the packed copy only.
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
  for (const int64_t tokens : kSummaryTokens)
    for (const Variant &variant : compiled.variants) {
      if (tokens < variant.minTokens || tokens > variant.maxTokens ||
          variant.minSms > sms)
        continue;
      const Symbols symbols = symbolsAt(manifest, tokens, sms);
      ordered_json row = {{"tokens", tokens}, {"variant", variant.name}};
      if (Result<int64_t> size = variant.workspaceBytes.evaluate(symbols))
        row["workspace_bytes"] = *size;
      summary["at"].push_back(std::move(row));
      break;
    }
  return summary;
}

/// Appends to the evidence of a target how to get another engine, if no GPU has
/// run its engine.
void addEvidenceOfEngine(ordered_json &target) {
  const auto *engine =
      catalog::find(catalog::kEngines, target.value("engine", ""));
  if (engine && !catalog::hasRunOnGpu(*engine))
    target["evidence"] = fmt::format(
        "{0}. No GPU has run engine '{1}'; --exclude={1} or MOEC_EXCLUDE={1} "
        "chooses another one",
        target["evidence"].get<std::string>(), engine->name);
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
  report["layer"] = *manifest.layer;
  report["ranks"] = ranksOf(manifest);
  // If the realization computes a different layer, the report names the scheme
  // of the stored weights.
  const char *quant =
      manifest.layer->contains("stored_quant") ? "stored_quant" : "quant";
  report["scheme"] = schemeText(manifest.layer->value(quant, ordered_json()));
  report["targets"] = ordered_json::array();
  for (const Target &target : manifest.targets) {
    moe::ProgramOp program = programOf(scheduled, target);
    ordered_json json;
    json["arch"] = target.arch;
    json["gpu"] = target.gpu;
    json["ran_on_gpu"] = catalog::kArchsOfGpus.contains(target.arch);
    json["evidence"] = catalog::evidenceOf(target.arch);
    addReport(json, program);
    addEvidenceOfEngine(json);
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

bool compiler::waitsForLeave(const ordered_json &report) {
  for (const ordered_json &target : report["targets"])
    for (const ordered_json &row :
         target.value("realizations", ordered_json::array()))
      if (row.value("code", "") == "not_allowed")
        return true;
  return false;
}

/// Returns the predicted microseconds by token count.
static std::map<int64_t, double> timesOf(const ordered_json &target) {
  std::map<int64_t, double> times;
  for (const ordered_json &variant :
       target.value("variants", ordered_json::array()))
    for (const ordered_json &made :
         variant.value("predictions", ordered_json::array()))
      times.emplace(made["tokens"].get<int64_t>(),
                    made["microseconds"].get<double>());
  return times;
}

void compiler::addAllowed(ordered_json &report, const ordered_json &allowed) {
  constexpr double kDigits = 100;
  for (ordered_json &target : report["targets"])
    for (const ordered_json &other : allowed["targets"]) {
      if (target["arch"] != other["arch"] ||
          target["realization"] == other["realization"])
        continue;
      ordered_json made = {{"realization", other["realization"]},
                           {"backend", other["backend"]},
                           {"engine", other["engine"]},
                           {"predicted", ordered_json::array()}};
      const std::map<int64_t, double> times = timesOf(target);
      for (const auto &[tokens, time] : timesOf(other))
        if (const auto now = times.find(tokens);
            now != times.end() && now->second > 0)
          made["predicted"].push_back(
              {{"tokens", tokens},
               {"factor", std::round(kDigits * time / now->second) / kDigits}});
      target["allowed"] = std::move(made);
    }
}
