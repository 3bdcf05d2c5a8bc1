//===- ManifestWriter.cpp - the manifest of a program ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The roles of caller values follow from their names, which are interface.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/ManifestWriter.h"

#include "compiler/backend/cuda/StoredWeights.h"
#include "compiler/passes/ProgramValues.h"
#include "compiler/schedule/Liveness.h"

#include <fmt/format.h>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::RankedTensorType;
using mlir::StringAttr;
using mlir::StringRef;

namespace {
/// What a name of the interface implies.
struct CallerRow {
  StringRef name;
  ValueRole role;
  int64_t alignment; ///< of the pointer; kernels load whole vectors or elements
  bool rowStride;
  /// Element types that the caller may give besides the program's.
  StringRef otherTypes;
  bool ofRows = false; ///< its dynamic extent is rows, not tokens
};
constexpr StringRef kFloats = "f32 f16 bf16";
} // namespace

static constexpr CallerRow kCallerRows[] = {
    {"x", ValueRole::Input, 16, true, ""},
    {"logits", ValueRole::OptionalInput, 4, false, kFloats},
    {"given_ids", ValueRole::OptionalInput, 8, false, "i64"},
    {"given_weights", ValueRole::OptionalInput, 4, false, kFloats},
    {"valid_tokens", ValueRole::OptionalInput, 4, false, ""},
    {"x_scale", ValueRole::Input, 16, false, ""},
    {"x_second_scale", ValueRole::Input, 4, false, ""},
    {"expert_num_tokens", ValueRole::Input, 4, false, ""},
    {"logical_to_physical", ValueRole::Input, 4, false, ""},
    {"replica_count", ValueRole::Input, 4, false, ""},
    {"expert_map", ValueRole::Input, 4, false, ""},
    {"shared_gate", ValueRole::Input, 4, false, kFloats},
    {"gate_up_addend", ValueRole::OptionalInput, 16, false, "", true},
    {"down_addend", ValueRole::OptionalInput, 16, false, "", true},
    {"residual", ValueRole::OptionalInput, 16, false, ""},
    {"token_ids", ValueRole::OptionalInput, 8, false, "i64"},
    {"w13", ValueRole::StoredWeight, 16, false, ""},
    {"w2", ValueRole::StoredWeight, 16, false, ""},
    {"w13_group_index", ValueRole::StoredWeight, 16, false, ""},
    {"w2_group_index", ValueRole::StoredWeight, 16, false, ""},
    {"w13_scale", ValueRole::StoredWeight, 16, false, ""},
    {"w2_scale", ValueRole::StoredWeight, 16, false, ""},
    {"w13_second_scale", ValueRole::StoredWeight, 16, false, ""},
    {"w2_second_scale", ValueRole::StoredWeight, 16, false, ""},
    {"w13_zero_point", ValueRole::StoredWeight, 16, false, ""},
    {"w2_zero_point", ValueRole::StoredWeight, 16, false, ""},
    {"a1_scale", ValueRole::StoredWeight, 16, false, ""},
    {"a2_scale", ValueRole::StoredWeight, 16, false, ""},
    {"a1_second_scale", ValueRole::StoredWeight, 16, false, ""},
    {"a2_second_scale", ValueRole::StoredWeight, 16, false, ""},
    {"routing_bias", ValueRole::StoredWeight, 4, false, ""},
    {"per_expert_scale", ValueRole::StoredWeight, 4, false, ""},
    {"hash_table", ValueRole::StoredWeight, 4, false, ""},
    {"activation_alpha", ValueRole::StoredWeight, 4, false, ""},
    {"activation_beta", ValueRole::StoredWeight, 4, false, ""},
    {"activation_linear_beta", ValueRole::StoredWeight, 4, false, ""},
    {"activation_limit", ValueRole::StoredWeight, 4, false, ""},
    {"b13", ValueRole::StoredWeight, 16, false, ""},
    {"b2", ValueRole::StoredWeight, 16, false, ""},
    {"out", ValueRole::Output, 16, false, ""},
    {"partials", ValueRole::Output, 16, false, "", true},
    {"positions", ValueRole::Output, 4, false, ""},
    {"ids", ValueRole::OptionalOutput, 4, false, ""},
    {"weights", ValueRole::OptionalOutput, 4, false, ""},
    {"counts", ValueRole::OptionalOutput, 4, false, ""},
};

/// A value of the caller's; its only dynamic extent is tokens, or rows, which
/// all are where they come by expert.
static Value callerValue(StringRef name, mlir::Type type, ValueRole fallback,
                         bool isBatched = false) {
  auto tensor = cast<RankedTensorType>(type);
  Value value;
  value.name = name.str();
  value.role = fallback;
  bool ofRows = isBatched;
  for (const CallerRow &row : kCallerRows) {
    if (row.name != name)
      continue;
    value.role = row.role;
    value.alignment = row.alignment;
    value.callerRowStride = row.rowStride;
    ofRows |= row.ofRows;
    value.elementTypes.push_back(elementTypeName(tensor.getElementType()));
    mlir::SmallVector<StringRef> others;
    row.otherTypes.split(others, ' ', -1, /*KeepEmpty=*/false);
    for (const StringRef other : others)
      if (other != value.elementTypes.front())
        value.elementTypes.push_back(other.str());
  }
  if (value.elementTypes.empty())
    value.elementTypes.push_back(elementTypeName(tensor.getElementType()));
  if (auto layout = dyn_cast_or_null<moe::LayoutAttr>(tensor.getEncoding());
      layout && !layout.getStored().empty()) {
    const StoredWeight stored = storedWeight(name, tensor, layout.getStored());
    value.elementTypes = {stored.elementType};
    value.shape.assign(stored.shape.begin(), stored.shape.end());
    return value;
  }
  for (int64_t extent : tensor.getShape())
    value.shape.push_back(mlir::ShapedType::isDynamic(extent)
                              ? Expression::symbol(ofRows ? "rows" : "tokens")
                              : Expression(extent));
  return value;
}

std::vector<Value> compiler::callerValues(moe::ProgramOp program) {
  std::vector<Value> values;
  const bool isBatched = program.getLayerOp().isBatched();
  for (auto [name, argument] :
       llvm::zip(program.getInputs(), program.getBody().getArguments()))
    values.push_back(callerValue(cast<StringAttr>(name).getValue(),
                                 argument.getType(), ValueRole::Input,
                                 isBatched));
  auto variants = program.getBody().getOps<moe::VariantOp>();
  if (variants.empty())
    return values;
  auto ret = cast<moe::ReturnOp>(
      (*variants.begin()).getBody().front().getTerminator());
  for (auto [name, output] : llvm::zip(ret.getOutputNames(), ret.getOutputs()))
    values.push_back(callerValue(cast<StringAttr>(name).getValue(),
                                 output.getType(), ValueRole::Output,
                                 isBatched));
  if (ret.getOptionalNames())
    for (auto [name, output] :
         llvm::zip(*ret.getOptionalNames(), ret.getOptionalOutputs()))
      values.push_back(callerValue(cast<StringAttr>(name).getValue(),
                                   output.getType(),
                                   ValueRole::OptionalOutput));
  return values;
}

std::vector<Value> compiler::targetValues(moe::ProgramOp program) {
  std::vector<Value> values;
  for (auto pack : program.getBody().getOps<moe::PackOp>()) {
    Value value =
        callerValue(valueName(pack.getResult()), pack.getResult().getType(),
                    ValueRole::PackedWeight);
    // As many bytes in another order: the packed weight may replace the stored.
    if (packsInPlace(pack))
      value.mayAlias = valueName(pack.getSource());
    values.push_back(std::move(value));
  }
  for (auto op : program.getBody().getOps<moe::PackOrderOp>())
    values.push_back(callerValue(valueName(op.getOrder()),
                                 op.getOrder().getType(),
                                 ValueRole::PackedWeight));
  for (auto op : program.getBody().getOps<moe::QuantizeWeightsOp>())
    for (mlir::OpResult result : op->getResults()) {
      Value value = callerValue(valueName(result), result.getType(),
                                ValueRole::PackedWeight);
      // Codes are smaller than floats.
      if (result == op.getCodes())
        value.mayAlias = valueName(op.getSource());
      values.push_back(std::move(value));
    }
  for (const WorkspaceValue &workspace : workspaceValues(program)) {
    Value value;
    value.name = workspace.name;
    value.role = ValueRole::Workspace;
    value.elementTypes = {workspace.elementType};
    value.shape = workspace.shape;
    value.alignment = kRegionAlignment;
    values.push_back(std::move(value));
  }
  return values;
}

static Result<Expression> parseAttribute(StringRef text, StringRef where) {
  auto parsed = Expression::parse(text.str());
  if (!parsed)
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: {}", where.str(), parsed.error().message)};
  return parsed;
}

Result<Variant>
compiler::writeVariant(moe::VariantOp op,
                       const std::map<std::string, Grid> &grids) {
  Variant variant;
  variant.name = op.getSymName().str();
  variant.minTokens = op.getMinTokens();
  variant.maxTokens = op.getMaxTokens();
  variant.minSms = op.getMultiprocessors().value_or(0);
  for (auto launchOp : op.getBody().getOps<moe::LaunchOp>()) {
    Launch launch;
    launch.kernel = launchOp.getKernel().str();
    auto grid = grids.find(launch.kernel);
    if (grid == grids.end())
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("variant '{}' launches '{}', which is no kernel "
                               "of its program",
                               variant.name, launch.kernel)};
    launch.grid = grid->second;
    variant.launches.push_back(std::move(launch));
  }
  if (!op.getRegions() || !op.getWorkspaceBytes())
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("variant '{}' has no workspace plan; run "
                             "moe-plan-workspace first",
                             variant.name)};
  mlir::ArrayAttr regions = *op.getRegions();
  for (mlir::Attribute attribute : regions) {
    auto regionAttr = cast<moe::RegionAttr>(attribute);
    Region region;
    region.value = regionAttr.getValue().str();
    auto offset = parseAttribute(regionAttr.getOffset(), region.value);
    auto bytes = parseAttribute(regionAttr.getBytes(), region.value);
    if (!offset)
      return offset.takeError();
    if (!bytes)
      return bytes.takeError();
    region.offset = *offset;
    region.bytes = *bytes;
    region.firstLaunch = regionAttr.getFirst();
    region.lastLaunch = regionAttr.getLast();
    variant.regions.push_back(std::move(region));
  }
  auto total = parseAttribute(*op.getWorkspaceBytes(), variant.name);
  if (!total)
    return total.takeError();
  variant.workspaceBytes = *total;
  return variant;
}

static json scheduleJson(moe::KernelOp kernel) {
  moe::ScheduleAttr s = kernel.getScheduleAttr();
  json made = {{"engine", s.getEngine().str()},
               {"threads", s.getThreads()},
               {"ctas_per_sm", s.getCtasPerSm()},
               {"source", s.getSource().str()}};
  if (s.getBuffers()) {
    made["buffers"] = s.getBuffers();
    made["block_rows"] = s.getBlockRows();
  }
  if (isOfFewTokens(kernel)) {
    made["stages"] = s.getStages();
    made["persistent"] = s.getPersistent();
  } else if (findStage<moe::GroupedMatmulOp>(kernel)) {
    made["tile"] = {s.getTileM(), s.getTileN(), s.getTileK()};
    made["stages"] = s.getStages();
    if (s.getConsumerWarps()) {
      made["producer_warps"] = s.getProducerWarps();
      made["consumer_warps"] = s.getConsumerWarps();
      made["registers"] = {s.getRegisters()[0], s.getRegisters()[1]};
      made["swap"] = s.getSwap();
      made["persistent"] = s.getPersistent();
    } else {
      made["warps"] = {s.getWarpsM(), s.getWarpsN()};
    }
    made["group"] = s.getGroup();
  }
  if (s.getBlockTokens())
    made["block_tokens"] = s.getBlockTokens();
  if (!s.getCluster().empty())
    made["cluster"] = std::vector<int64_t>(s.getCluster());
  if (auto combine = findStage<moe::CombineOp>(kernel);
      combine && !isOfFewTokens(kernel))
    made["partials"] = elementTypeOf(combine.getPartials());
  return made;
}

json compiler::reportJson(moe::ProgramOp program) {
  moe::ReportAttr report = program.getReportAttr();
  json refused = json::array();
  if (report)
    for (moe::RefusalAttr r : report.getRefused())
      refused.push_back({{"backend", r.getBackend().str()},
                         {"engine", r.getEngine().str()},
                         {"code", r.getCode().str()},
                         {"reason", r.getReason().str()}});
  json schedules = json::object();
  for (auto kernel : program.getBody().getOps<moe::KernelOp>())
    if (kernel.getSchedule())
      schedules[kernel.getSymName().str()] = scheduleJson(kernel);
  return {{"backend", report ? report.getBackend().str() : ""},
          {"engine", report ? report.getEngine().str() : ""},
          {"refused", refused},
          {"degraded", report ? report.getDegraded().str() : ""},
          {"realization", report ? report.getRealization().str() : ""},
          {"schedules", schedules}};
}

Target compiler::beginTarget(moe::ProgramOp program) {
  moe::TargetAttr attribute = program.getTarget();
  const catalog::Architecture &arch = attribute.getArchRow();
  Target target;
  target.arch = attribute.getArch().str();
  if (const catalog::Gpu *gpu = attribute.getGpuRow())
    target.gpu = gpu->name;
  target.compatibility = arch.compatibility;
  target.computeMajor = arch.major;
  target.computeMinor = arch.minor;
  return target;
}
