//===- ManifestWriter.cpp - manifest of a program -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layer's tensors define the caller's values. The program defines all other
// values.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/ManifestWriter.h"

#include "compiler/plan/Liveness.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Regions.h"
#include "compiler/plan/Tuned.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::RankedTensorType;
using mlir::StringAttr;
using mlir::StringRef;

/// Returns the manifest entry for a packed weight.
static Value packedValue(mlir::Value weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  Value value;
  value.name = valueName(weight);
  value.role = ValueRole::PackedWeight;
  value.elementTypes = {elementTypeName(type.getElementType())};
  value.shape.assign(type.getShape().begin(), type.getShape().end());
  return value;
}

std::vector<Value> compiler::targetValues(moe::ProgramOp program) {
  std::vector<Value> values;
  for (auto pack : program.getBody().getOps<moe::PackOp>()) {
    Value value = packedValue(pack.getResult());
    // A packed weight that fits in the memory of the stored weight may replace
    // it.
    if (packsInPlace(pack))
      value.mayAlias = valueName(pack.getSource());
    values.push_back(std::move(value));
  }
  for (auto op : program.getBody().getOps<moe::PackOrderOp>())
    values.push_back(packedValue(op.getOrder()));
  for (auto op : program.getBody().getOps<moe::QuantizeWeightsOp>())
    for (mlir::OpResult result : op->getResults()) {
      Value value = packedValue(result);
      // Codes are smaller than the float weights and may replace them.
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

static Collective collectiveOf(moe::CollectiveOp op) {
  Collective collective;
  collective.kind = op.getKind() == "all_gather" ? Collective::Kind::AllGather
                    : op.getKind() == "reduce_scatter"
                        ? Collective::Kind::ReduceScatter
                        : Collective::Kind::AllReduce;
  collective.ranks = op.getRanks(), collective.stride = op.getStride();
  for (mlir::Value value : op.getArguments())
    collective.operands.push_back(valueName(value));
  for (mlir::Value value : op.getValues())
    collective.results.push_back(valueName(value));
  return collective;
}

Result<Variant>
compiler::writeVariant(moe::VariantOp op,
                       const std::map<std::string, Grid> &grids) {
  Variant variant;
  variant.name = op.getSymName().str();
  variant.minTokens = op.getMinTokens();
  variant.maxTokens = op.getMaxTokens();
  variant.minSms = op.getMultiprocessors().value_or(0);
  for (mlir::Operation &entry : op.getBody().front().without_terminator()) {
    if (auto collective = mlir::dyn_cast<moe::CollectiveOp>(entry)) {
      Launch launch;
      launch.collective = collectiveOf(collective);
      variant.launches.push_back(std::move(launch));
      continue;
    }
    auto launchOp = mlir::dyn_cast<moe::LaunchOp>(entry);
    if (!launchOp)
      continue;
    Launch launch;
    launch.kernel = launchOp.getKernel().str();
    auto grid = grids.find(launch.kernel);
    if (grid == grids.end())
      return invalidArgument("variant '{}' launches '{}', which is no kernel "
                             "of its program",
                             variant.name, launch.kernel);
    launch.grid = grid->second;
    variant.launches.push_back(std::move(launch));
  }
  if (!op.getRegions() || !op.getWorkspaceBytes())
    return invalidArgument("variant '{}' has no workspace plan; run "
                           "moe-plan-workspace first",
                           variant.name);
  std::vector<PlacedRegion> placed;
  for (auto region : op.getRegions()->getAsRange<moe::RegionAttr>()) {
    auto bytes = TRY(Expression::parse(region.getBytes().str()));
    placed.push_back(
        {region.getValue().str(), region.getOffset().str(), bytes});
  }
  for (auto [attribute, its] :
       llvm::zip(op.getRegions()->getAsRange<moe::RegionAttr>(), placed)) {
    auto offset = TRY(withoutEnds(its.offset, placed));
    variant.regions.push_back({its.value, offset, its.bytes,
                               attribute.getFirst(), attribute.getLast()});
  }
  variant.workspaceBytes = TRY(withoutEnds(*op.getWorkspaceBytes(), placed));
  return variant;
}

static json scheduleJson(moe::KernelOp kernel) {
  moe::ScheduleAttr s = kernel.getScheduleAttr();
  json made = {{"engine", s.getEngine().str()},
               {"threads", s.getThreads()},
               {"ctas_per_sm", s.getCtasPerSm()},
               {"source", s.getSource().str()}};
  constexpr WordList kReported =
      "tile stages warps producer_warps consumer_warps registers buffers "
      "block_rows block_tokens cluster";
  for (const Member &member : s.getMembers())
    if (kReported.contains(member.name) && !member.isAbsent)
      made[std::string(member.name)] = memberJson(member);
  if (const Schedule *matmul = s.getMatmul()) {
    made["group"] = matmul->groupM;
    if (matmul->hasRoles())
      made["swap"] = matmul->roles().swap;
  }
  if (s.getPersistent())
    made["persistent"] = true;
  if (auto combine = findStage<moe::CombineOp>(kernel);
      combine && !kernel.getRow().routesItself)
    made["partials"] = elementTypeOf(combine.getPartials());
  if (auto by = kernel->getAttrOfType<mlir::StringAttr>(kMeasuredBy))
    made["measured_by"] = by.getValue().str();
  return made;
}

json compiler::reportJson(moe::ProgramOp program) {
  moe::ReportAttr report = program.getReportAttr();
  json refused = json::array();
  json choices = json::object();
  if (report) {
    for (moe::CandidateAttr c : report.getCandidates())
      if (c.isRefused())
        refused.push_back({{"backend", c.getBackend().str()},
                           {"engine", c.getEngine().str()},
                           {"realization", c.getRealization().str()},
                           {"code", c.getCode().str()},
                           {"reason", c.getReason().str()}});
    for (moe::ChoiceAttr c : report.getChoices())
      choices[c.getOption().str()] = {{"value", c.getValue().str()},
                                      {"by", c.getBy().str()}};
  }
  json schedules = json::object();
  for (auto kernel : program.getBody().getOps<moe::KernelOp>())
    if (kernel.getSchedule())
      schedules[kernel.getSymName().str()] = scheduleJson(kernel);
  return {{"backend", report ? report.getBackend().str() : ""},
          {"engine", report ? report.getEngine().str() : ""},
          {"refused", refused},
          {"degraded", report ? report.getDegraded().str() : ""},
          {"realization", report ? report.getRealization().str() : ""},
          {"choices", choices},
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
