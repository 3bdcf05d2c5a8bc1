//===- KernelEmitter.cpp - one scheduled kernel as text -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of fields and the members of each Config are those that the header
// of the template names.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/KernelEmitter.h"

#include "compiler/backend/cuda/DequantizeEmitter.h"
#include "compiler/backend/cuda/FewTokensEmitter.h"
#include "compiler/backend/cuda/KernelStages.h"
#include "compiler/backend/cuda/PermuteColumnsEmitter.h"
#include "compiler/backend/cuda/PlacementEmitter.h"
#include "compiler/backend/cuda/QuantizeEmitter.h"
#include "compiler/backend/cuda/RoutingEmitter.h"
#include "compiler/backend/cuda/SlicesEmitter.h"
#include "compiler/engine/Engine.h"
#include "compiler/passes/Overlap.h"
#include "compiler/passes/ProgramValues.h"
#include "compiler/plan/Schedules.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Schemes.h"

#include <fmt/format.h>

#include <algorithm>

using mlir::ArrayAttr;
using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::RankedTensorType;
using mlir::StringAttr;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

std::string compiler::schemeName(moe::ProgramOp program) {
  return program.getScheme().value_or("custom").str();
}

std::string compiler::nativePolicy(moe::ProgramOp program) {
  const catalog::Scheme *row = catalog::find(
      catalog::kSchemes, std::string_view(program.getScheme().value_or("")));
  return std::string(row ? row->policy : "moe::quant::None");
}

std::string compiler::cppType(mlir::Value value) {
  return std::string(cppElementType(elementTypeOf(value)));
}

/// Whether, wherever the kernel is launched, the launch right before it wrote
/// none of these fields: then what follows from them may be fetched while that
/// launch still runs (templates/moe/core/pdl.cuh).
static bool areOlder(moe::KernelOp kernel, llvm::ArrayRef<StringRef> fields) {
  bool older = true;
  kernel->getParentOfType<moe::ProgramOp>().walk([&](moe::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return;
    for (auto [name, value] :
         llvm::zip(kernel.getFields(), launch.getArguments()))
      if (llvm::is_contained(fields, cast<StringAttr>(name).getValue()))
        older &= value.getDefiningOp() != launch->getPrevNode();
  });
  return older;
}

void compiler::addActivation(moe::ActivationAttr activation,
                             ConfigPrinter &config) {
  if (!activation) {
    config.type("Activation", "moe::activation::None");
    return;
  }
  const catalog::Activation &row = activation.getRow();
  const catalog::ActivationNumbers numbers = activation.getNumbers();
  if (!activation.getPerExpert() && !row.policy.empty() && numbers.limit == 0) {
    config.type("Activation",
                fmt::format("moe::activation::{}<{}>",
                            row.gated ? "Gated" : "Ungated", row.policy));
    return;
  }
  config.open("Numbers");
  config.real("kAlpha", numbers.alpha);
  config.real("kBeta", numbers.beta);
  config.real("kLinearBeta", std::max(numbers.linearBeta, 0.0));
  config.real("kLimit", std::max(numbers.limit, 0.0));
  config.close();
  config.type("Activation",
              fmt::format("{}<moe::activation::{}<Numbers>>", row.numbersPolicy,
                          activation.getPerExpert() ? "OfExpert" : "OfLayer"));
}

void compiler::addNumbers(
    moe::ActivateOp activate,
    llvm::function_ref<void(StringRef, StringRef)> pointer) {
  if (activate)
    for (StringRef name : activate.getActivation().getNumbersOfExperts())
      pointer(name, "float");
}

void compiler::addGateUpOrder(StringRef order, ConfigPrinter &config) {
  if (order != "gate_first")
    config.type("GateUpOrder",
                std::string(catalog::find(catalog::kGateUpOrders,
                                          std::string_view(order))
                                ->policy));
}

void compiler::addWeightMap(moe::GroupedMatmulOp matmul,
                            moe::ScheduleAttr schedule, std::string weight,
                            EmittedKernel &out) {
  int64_t n = matmul.getN(), k = matmul.getK();
  TensorMap map;
  map.value = std::move(weight);
  map.name = fmt::format("{}_{}x{}", map.value, schedule.getTileN(),
                         schedule.getTileK());
  map.elementType = elementTypeOf(matmul.getRhs());
  int64_t bytes = elementBytes(map.elementType);
  map.extents = {Expression(k), Expression(n),
                 Expression(int64_t(matmul.getNumExperts()))};
  map.strides = {Expression(k * bytes), Expression(n * k * bytes)};
  map.box = {schedule.getTileK(), schedule.getTileN(), 1};
  map.elementStrides = {1, 1, 1};
  map.interleave = "none";
  map.swizzle = "128b";
  map.l2Promotion = "256b";
  map.outOfBoundsFill = "zeros";
  out.text.arguments.tensorMap("rhs", map.name);
  out.tensorMaps.push_back(std::move(map));
}

namespace {
class Emitter {
public:
  Emitter(moe::KernelOp kernel, moe::LaunchOp launch)
      : kernel(kernel), launch(launch), schedule(kernel.getScheduleAttr()),
        program(kernel->getParentOfType<moe::ProgramOp>()) {}

  Result<EmittedKernel> emit();

private:
  void emitRoute(moe::RouteOp route);
  void emitPermute(moe::PermuteOp permute);
  void emitBatch(moe::BatchOp batch);
  void emitMatmul(moe::GroupedMatmulOp matmul);
  void emitActivate(moe::ActivateOp activate);
  void emitCombine(moe::CombineOp combine);

  /// The program's name for what is bound to a field, "" if there is none.
  std::string boundTo(StringRef field);
  /// The optional output that repeats a result, "ids" of "topk_ids".
  std::string outputOf(StringRef result);
  void pointer(StringRef field, StringRef type, bool written = false);
  void placesOfPermutation();

  void begin(std::string kind, const std::string &header,
             const std::string &function);

  moe::KernelOp kernel;
  moe::LaunchOp launch;
  moe::ScheduleAttr schedule;
  moe::ProgramOp program;
  EmittedKernel out;
};
} // namespace

std::string Emitter::boundTo(StringRef field) {
  for (auto [name, value] :
       llvm::zip(kernel.getFields(), launch.getArguments()))
    if (cast<StringAttr>(name).getValue() == field)
      return valueName(value);
  if (ArrayAttr results = kernel.getResultNamesAttr())
    for (auto [name, value] : llvm::zip(results, launch.getValues()))
      if (cast<StringAttr>(name).getValue() == field)
        return valueName(value);
  return {};
}

std::string Emitter::outputOf(StringRef result) {
  auto ret = cast<moe::ReturnOp>(launch->getBlock()->getTerminator());
  if (!ret.getOptionalNames())
    return {};
  for (auto [name, value] :
       llvm::zip(*ret.getOptionalNames(), ret.getOptionalOutputs()))
    if (value.getDefiningOp() == launch.getOperation() &&
        valueName(value) == result)
      return cast<StringAttr>(name).getValue().str();
  return {};
}

void Emitter::pointer(StringRef field, StringRef type, bool written) {
  out.text.arguments.pointer(field, type, boundTo(field), written);
}

void Emitter::begin(std::string kind, const std::string &header,
                    const std::string &function) {
  const catalog::Architecture &arch = program.getTarget().getArchRow();
  out.kind = std::move(kind);
  out.scheme = schemeName(program);
  out.programmatic = schedule.getProgrammatic();
  out.cooperative = schedule.getCooperative();
  for (auto [i, extent] : llvm::enumerate(schedule.getCluster()))
    if (i < 3)
      out.cluster[i] = extent;
  out.text.include = "moe/kernel/" + header;
  out.text.function = "moe::" + function;
  out.text.threads = schedule.getThreads();
  out.text.minCtasPerSm = schedule.getCtasPerSm();
  ConfigPrinter &config = out.text.config;
  config.number("kThreads", schedule.getThreads());
  config.flag("kProgrammatic", out.programmatic);
  config.flag("kCpAsync", arch.has("cp_async"));
}

//===----------------------------------------------------------------------===//
// Routing and permutation
//===----------------------------------------------------------------------===//

void Emitter::placesOfPermutation() {
  pointer("rows", "int", true);
  pointer("positions", "int", true);
  pointer("offsets", "int", true);
  pointer("tiles", "int4", true);
  pointer("tile_count", "int", true);
  pointer("counts", "int", true);
}

void Emitter::emitRoute(moe::RouteOp route) {
  auto count = findStage<moe::CountOp>(kernel);
  auto permute = findStage<moe::PermuteOp>(kernel);
  begin(permute ? "route_permute" : "route", "route.cuh", "route");
  ArgumentLayout &args = out.text.arguments;
  addRoutingFields(route, [&](StringRef f) { return boundTo(f); }, args);
  addPlacement(route, [&](StringRef f) { return boundTo(f); }, out);
  pointer("topk_ids", "int", true);
  pointer("topk_weights", "float", true);
  args.pointer("ids", "int", outputOf("topk_ids"), true);
  args.pointer("weights", "float", outputOf("topk_weights"), true);
  if (permute)
    placesOfPermutation();
  else
    pointer("block_counts", "int", true);

  int64_t experts = route.getNumExperts(), topK = route.getTopK();
  int64_t blockTokens = count ? int64_t(count.getBlockTokens()) : 1;
  ConfigPrinter &config = out.text.config;
  addRoutingConfig(route, config);
  config.number("kExperts", experts);
  config.number("kTopK", topK);
  config.number("kBlockTokens", blockTokens);
  config.flag("kPermute", bool(permute));
  config.number("kCluster", out.cluster[0]);
  config.number("kTileRows", permute ? int64_t(permute.getTileRows()) : 1);
  config.number("kRowStep", permute ? permute.getStepOfRows() : 1);
  config.number("kCounters", permute ? permute.getCounters() : 2);
  config.number("kLocalBegin", count ? count.getFirstLocal() : 0);
  config.number("kLocalExperts", count ? count.getNumLocal() : experts);
  out.tile = fmt::format("{}", blockTokens);
  out.grid.ctas[0] =
      permute ? Expression(out.cluster[0])
              : ceilDiv(Expression::symbol("tokens"), Expression(blockTokens));
  if (findStage<moe::QuantizeOp>(kernel))
    emitQuantization(kernel, [&](StringRef f) { return boundTo(f); }, out);
}

void Emitter::emitPermute(moe::PermuteOp permute) {
  begin("permute", "permute.cuh", "permute");
  pointer("topk_ids", "int");
  pointer("block_counts", "int");
  out.text.arguments.size("tokens", Expression::symbol("tokens"));
  placesOfPermutation();
  ConfigPrinter &config = out.text.config;
  config.number("kExperts", permute.getExperts());
  config.number("kLocalBegin", permute.getFirstLocal());
  config.number("kLocalExperts", permute.getNumLocal());
  config.number("kTopK", permute.getPairs());
  config.number("kBlockTokens", permute.getBlockTokens());
  config.number("kTileRows", permute.getTileRows());
  config.number("kRowStep", permute.getStepOfRows());
  config.number("kCounters", permute.getCounters());
  int64_t blockTokens = permute.getBlockTokens();
  out.tile = fmt::format("{}x{}", blockTokens, int64_t(permute.getTileRows()));
  out.grid.ctas[0] =
      ceilDiv(Expression::symbol("tokens"), Expression(blockTokens));
}

void Emitter::emitBatch(moe::BatchOp batch) {
  begin("batch", "batch.cuh", "batch");
  pointer("expert_num_tokens", "int");
  out.text.arguments.size("tokens", Expression::symbol("tokens"));
  pointer("tiles", "int4", true);
  pointer("tile_count", "int", true);
  ConfigPrinter &config = out.text.config;
  config.number("kLocalExperts", batch.getNumLocal());
  config.number("kTileRows", batch.getTileRows());
  config.number("kRowStep", batch.getStepOfRows());
  out.tile = std::to_string(int64_t(batch.getTileRows()));
  out.grid.ctas[0] = Expression(1);
}

//===----------------------------------------------------------------------===//
// Matmul and activation
//===----------------------------------------------------------------------===//

/// The policy in code_groups.cuh of codes that are multiplied as they are.
static std::string codesPolicy(moe::DescriptorAttr weight, bool ofIntegers) {
  if (weight.getGroup()[1] == -1)
    return fmt::format("moe::quant::CodeChannel<{}>", ofIntegers ? 0 : 128);
  return fmt::format("moe::quant::CodeGroups<{}>", weight.getGroup()[1]);
}

void Emitter::emitMatmul(moe::GroupedMatmulOp matmul) {
  auto activate = findStage<moe::ActivateOp>(kernel);
  bool gather = bool(matmul.getRows());
  mlir::Value result = resultOfMatmul(kernel);
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  begin("grouped_matmul", "grouped_matmul.cuh", "groupedMatmul");
  ArgumentLayout &args = out.text.arguments;
  const bool counts = countsColumnTiles(kernel);
  const Engine &engine = *findEngine(schedule.getEngine());
  for (mlir::OpOperand &operand : matmul->getOpOperands()) {
    const StringRef name = matmul.getOperandName(operand.getOperandNumber());
    if (name == "rhs" && engine.isPersistent())
      addWeightMap(matmul, schedule, boundTo(name), out);
    else if (name == "tiles")
      pointer(name, "int4", /*written=*/counts);
    else
      pointer(name, cppType(operand.get()),
              /*written=*/name == "tile_count" && engine.isPersistent());
    if (name == "lhs")
      args.rowStride("lhs_row_stride", boundTo(name));
  }
  addNumbers(activate, [&](StringRef f, StringRef type) { pointer(f, type); });
  if (!quantize)
    pointer("result", cppType(result), true);

  const moe::Realization realization = matmul.getRealization();
  const bool converts = realization != moe::Realization::Native;
  int64_t n = matmul.getN(), k = matmul.getK();
  int64_t experts = matmul.getNumExperts();
  int64_t topK = matmul.getTopK().value_or(1);
  ConfigPrinter &config = out.text.config;
  config.type("Input", cppType(matmul.getLhs()));
  config.type("Weight", cppType(matmul.getRhs()));
  config.type("Result", cppType(result));
  const bool ofIntegers = elementTypeOf(matmul.getLhs()) == "i8";
  const moe::DescriptorAttr weight = matmul.getRhsDescriptorAttr();
  config.type("Quant", !converts ? nativePolicy(program)
                       : realization == moe::Realization::Codes
                           ? codesPolicy(weight, ofIntegers)
                           : std::string(catalog::kWeightOnly));
  if (converts) {
    config.type("Scale", cppType(matmul.getRhsScale()));
    config.number("kScaleRows", std::max<int64_t>(weight.getGroup()[0], 0));
    config.number("kScaleColumns", std::max<int64_t>(weight.getGroup()[1], 0));
    config.flag("kZeroPoint", bool(matmul.getRhsZeroPoint()));
    config.flag("kSecondScale", bool(matmul.getRhsSecondScale()));
  }
  addActivation(activate ? activate.getActivation() : moe::ActivationAttr(),
                config);
  // Integers are summed exactly; where scales change along k, in groups.
  const bool byGroup = converts && ofIntegers && weight.getGroup()[1] > 0;
  const Schedule numbers = scheduleOf(schedule);
  engine.addConfig(
      {cppType(matmul.getLhs()), matmul.getFast(), byGroup,
       catalog::choosesNative(&engine.row, elementTypeOf(matmul.getLhs()),
                              program.getTarget().getArchRow().features)},
      numbers, config);
  // Which word of tile_count counts the tiles that CTAs have taken.
  if (engine.isPersistent()) {
    config.number("kCursor", matmul.isFirst() ? 1 : 2);
    config.flag("kCounts", counts);
    config.number("kAwaited", awaitedColumnTiles(kernel));
    Hardware hardware;
    if (out.cluster[0] > 1 &&
        findHardware(program.getTarget().getArch().str(),
                     program.getTarget().getGpu().str(), hardware)) {
      config.number("kSplit", out.cluster[0]);
      config.number("kSplitTiles", mostTilesToSplit(hardware));
    }
  }
  config.number("kN", n);
  config.number("kK", k);
  config.number("kExperts", experts);
  config.number("kTopK", topK);
  config.flag("kGather", gather);
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  addGateUpOrder(matmul.getGateUpOrder(), config);
  config.flag("kTilesEarly",
              out.programmatic && areOlder(kernel, {"tiles", "tile_count"}));

  MatmulProblem problem;
  problem.elementBytes = elementBytes(elementTypeOf(matmul.getLhs()));
  problem.codeBits = converts ? elementBits(elementTypeOf(matmul.getRhs())) : 0;
  problem.resultBytes = elementBytes(elementTypeOf(result));
  problem.gated = activate && activate.getActivation().isGated();
  problem.groupScales = matmul.scalesByGroup();
  problem.groupColumns = columnsOfGroup(kernel);
  out.text.sharedBytes = sharedBytes(problem, numbers);

  if (quantize)
    emitQuantizedResult(kernel, [&](StringRef f) { return boundTo(f); }, out);
  out.tile = fmt::format("{}x{}x{}", schedule.getTileM(), schedule.getTileN(),
                         schedule.getTileK());
  int64_t taken = takenWeightRows(problem, schedule.getTileN());
  int64_t columnTiles = (n + taken - 1) / taken;
  Expression tiles =
      Expression(columnTiles) * tileCapacity(schedule.getTileM(), experts);
  if (!engine.isPersistent()) {
    out.grid.ctas[0] = tiles;
    return;
  }
  out.grid.persistent = true;
  out.grid.tiles = Expression(out.cluster[0]) * tiles;
  out.grid.ctasPerSm = schedule.getCtasPerSm();
}

void Emitter::emitActivate(moe::ActivateOp activate) {
  begin("activate", "activate.cuh", "activate");
  pointer("input", "float");
  pointer("offsets", "int");
  if (activate.getAddend()) {
    pointer("addend", cppType(activate.getAddend()));
    pointer("rows", "int");
  }
  addNumbers(activate, [&](StringRef f, StringRef type) { pointer(f, type); });
  pointer("result", cppType(activate.getResult()), true);
  ConfigPrinter &config = out.text.config;
  config.type("Result", cppType(activate.getResult()));
  addActivation(activate.getActivation(), config);
  config.number(
      "kColumns",
      cast<RankedTensorType>(activate.getInput().getType()).getDimSize(1));
  config.number("kExperts", localExperts(program));
  config.number("kInterleave", activate.getInterleave());
  out.grid.ctas[0] = Expression::symbol("rows");
}

void Emitter::emitCombine(moe::CombineOp combine) {
  begin("combine", "combine.cuh", "combine");
  pointer("partials", cppType(combine.getPartials()));
  pointer("positions", "int");
  if (combine.getTopkWeights())
    pointer("topk_weights", "float");
  out.text.arguments.size("tokens", Expression::symbol("tokens"));
  pointer("out", cppType(combine.getOut()), true);
  if (combine.getResidual())
    pointer("residual", cppType(combine.getResidual()));
  if (combine.getAddend())
    pointer("addend", cppType(combine.getAddend()));
  if (combine.getIdentity()) {
    pointer("identity", cppType(combine.getIdentity()));
    out.text.arguments.rowStride("identity_row_stride", boundTo("identity"));
    pointer("topk_ids", "int");
    out.text.config.type("Input", cppType(combine.getIdentity()));
  }
  int64_t hidden = combine.getWidth(), topK = combine.getPairs();
  int64_t columns = cast<moe::CombineScheduleAttr>(schedule).getColumns();
  int64_t columnBlocks = (hidden + columns - 1) / columns;
  ConfigPrinter &config = out.text.config;
  config.type("Partial", cppType(combine.getPartials()));
  config.type("Output", cppType(combine.getOut()));
  config.number("kTopK", topK);
  config.number("kHidden", hidden);
  config.number("kColumnBlocks", columnBlocks);
  config.flag("kPlacesEarly",
              out.programmatic &&
                  areOlder(kernel, {"positions", "topk_weights", "topk_ids"}));
  out.tile = fmt::format("1x{}", columns);
  out.grid.ctas[0] = Expression::symbol("tokens") * Expression(columnBlocks);
}

Result<EmittedKernel> Emitter::emit() {
  if (!schedule)
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("kernel '{}' has no schedule; run "
                             "moe-select-schedule first",
                             kernel.getSymName().str())};
  const auto bound = [&](StringRef field) { return boundTo(field); };
  if (isOfFewTokens(kernel)) {
    if (findStage<moe::CombineOp>(kernel))
      begin("down_combine", "down_combine.cuh", "downCombine");
    else
      begin("route_gate_up", "route_gate_up.cuh", "routeGateUp");
    emitFewTokens(kernel, bound, out);
  } else if (isOfSlices(kernel)) {
    begin("down_slices", "down_slices.cuh", "downSlices");
    bool early = out.programmatic && areOlder(kernel, {"tiles", "tile_count"});
    emitSlices(kernel, bound, early, out);
  } else if (auto route = findStage<moe::RouteOp>(kernel))
    emitRoute(route);
  else if (auto permute = findStage<moe::PermuteOp>(kernel))
    emitPermute(permute);
  else if (auto batch = findStage<moe::BatchOp>(kernel))
    emitBatch(batch);
  else if (auto matmul = findStage<moe::GroupedMatmulOp>(kernel))
    emitMatmul(matmul);
  else if (auto activate = findStage<moe::ActivateOp>(kernel))
    emitActivate(activate);
  else if (auto combine = findStage<moe::CombineOp>(kernel))
    emitCombine(combine);
  else if (auto columns = findStage<moe::PermuteColumnsOp>(kernel)) {
    begin("permute_columns", "permute_columns.cuh", "permuteColumns");
    emitPermuteColumns(columns, bound, out);
  } else if (findStage<moe::AmaxOp>(kernel)) {
    begin("amax", "quantize.cuh", "amax");
    emitQuantization(kernel, bound, out);
  } else if (findStage<moe::QuantizeOp>(kernel)) {
    begin("quantize", "quantize.cuh", "quantize");
    emitQuantization(kernel, bound, out);
  } else if (findStage<moe::DequantizeOp>(kernel)) {
    begin("dequantize", "dequantize.cuh", "dequantize");
    emitDequantization(kernel, bound, out);
  } else
    return Error{ErrorCode::Internal,
                 fmt::format("kernel '{}' holds no stage that a template does",
                             kernel.getSymName().str())};
  out.stages = stagesOf(kernel, launch, out.text.arguments);
  if (!isOfFewTokens(kernel))
    addRowsOfCta(out.stages);
  return std::move(out);
}

Result<EmittedKernel> compiler::emitKernel(moe::KernelOp kernel,
                                           moe::LaunchOp launch) {
  return Emitter(kernel, launch).emit();
}
