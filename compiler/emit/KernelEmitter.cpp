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

#include "compiler/emit/Emitters.h"

#include "compiler/matmul/Engine.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Window.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/package/Stages.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/core.h>

#include <algorithm>

using mlir::ArrayAttr;
using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::RankedTensorType;
using mlir::StringAttr;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

namespace {
class Emitter {
public:
  Emitter(moe::KernelOp kernel, moe::LaunchOp launch)
      : kernel(kernel), launch(launch), schedule(kernel.getScheduleAttr()),
        plan(kernel.getPlanAttr()),
        program(kernel->getParentOfType<moe::ProgramOp>()) {}

  Result<EmittedKernel> emit();

private:
  void emitRoute();
  void emitSharedRows();
  void emitMatmul();
  void emitActivate();
  void emitNorm();

  /// The program's name for what is bound to a field, "" if there is none.
  std::string boundTo(StringRef field);
  /// The output that repeats what is bound to a field, "ids" of "topk_ids".
  std::string outputOf(StringRef field);
  void pointer(StringRef field, StringRef type, bool written = false);
  void placesOfPermutation();

  void begin(const Expression &grid);
  void addArguments();
  bool addExchange(StringRef word);
  void addMembers();

  moe::KernelOp kernel;
  moe::LaunchOp launch;
  moe::ScheduleAttr schedule;
  moe::PlanAttr plan;
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

std::string Emitter::outputOf(StringRef field) {
  const std::string bound = boundTo(field);
  auto ret = cast<moe::ReturnOp>(launch->getBlock()->getTerminator());
  for (const NamedOutput &output : outputsOf(ret))
    if (output.value.getDefiningOp() == launch.getOperation() &&
        valueName(output.value) == bound && output.name != bound)
      return output.name.str();
  return {};
}

void Emitter::pointer(StringRef field, StringRef type, bool written) {
  out.text.arguments.pointer(field, type, boundTo(field), written);
}

void Emitter::begin(const Expression &grid) {
  compiler::beginKernel(program, kernel.getKind(), schedule.getThreads(),
                        schedule.getProgrammatic(), out);
  out.cooperative = schedule.getCooperative();
  for (auto [i, extent] : llvm::enumerate(schedule.getCluster()))
    if (i < 3)
      out.cluster[i] = extent;
  out.text.minCtasPerSm = schedule.getResidentCtas();
  out.text.sharedBytes = plan.getSharedBytes();
  out.text.sharesMore = mlir::isa<moe::GemvScheduleAttr>(schedule);
  out.tile = plan.getLabel();
  out.grid.persistent = schedule.getPersistent();
  if (out.grid.persistent) {
    out.grid.tiles = grid;
    out.grid.ctasPerSm = schedule.getCtasPerSm();
  } else {
    out.grid.ctas[0] = grid;
  }
}

/// Adds what reaches other ranks, if the word is its name.
bool Emitter::addExchange(StringRef word) {
  ArgumentLayout &args = out.text.arguments;
  if (word == "peers")
    args.peers(word);
  else if (word == "status")
    args.status(word);
  else if (word == StringRef(kExchangeWords))
    args.pointer(word, "unsigned long long", word, /*written=*/true);
  else if (word == StringRef(kExchangeCounter))
    args.pointer(word, "unsigned", word, /*written=*/true);
  else
    return false;
  return true;
}

/// The argument block that the kind's row says.
void Emitter::addArguments() {
  for (StringRef word : kernel.getRow().arguments) {
    ArgumentLayout &args = out.text.arguments;
    if (word == "tokens") {
      args.size(word, Expression::symbol(word));
      continue;
    }
    if (findRankOperand(word)) {
      if (takesOfRank(kernel, word))
        args.ofRank(word);
      continue;
    }
    if (addExchange(word))
      continue;
    const bool isStride = word.consume_back(".stride");
    const mlir::Value value = valueOf(kernel, word);
    if (value && isStride)
      args.rowStride((word + "_row_stride").str(), boundTo(word));
    else if (value)
      pointer(word, word == "tiles" ? "int4" : cppType(value),
              /*written=*/mlir::isa<mlir::OpResult>(value));
  }
}

/// The members of Config that the kind's row says.
void Emitter::addMembers() {
  ConfigPrinter &config = out.text.config;
  for (StringRef word : kernel.getRow().members) {
    if (auto [type, operand] = word.split(':'); !operand.empty()) {
      if (const mlir::Value value = valueOf(kernel, operand))
        config.type(type, cppType(value));
      continue;
    }
    auto [name, other] = word.split('=');
    mlir::Attribute fact = factOf(kernel, name);
    if (!fact)
      fact = factOf(kernel, other);
    std::string member = "k";
    member += llvm::convertToCamelFromSnakeCase(name, /*capitalizeFirst=*/true);
    if (auto flag = mlir::dyn_cast<mlir::BoolAttr>(fact))
      config.flag(member, flag.getValue());
    else // a whole extent is 0 in a Config
      config.number(
          member, std::max<int64_t>(cast<mlir::IntegerAttr>(fact).getInt(), 0));
  }
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

void Emitter::emitRoute() {
  auto route = findStage<moe::RouteOp>(kernel);
  auto count = findStage<moe::CountOp>(kernel);
  auto permute = findStage<moe::PermuteOp>(kernel);
  auto pairRows = findStage<moe::PairRowsOp>(kernel);
  ArgumentLayout &args = out.text.arguments;
  addRoutingFields(route, [&](StringRef f) { return boundTo(f); }, args);
  addPlacement(kernel, route, args, out.text.config);
  pointer("topk_ids", "int", true);
  pointer("topk_weights", "float", true);
  // A part of a layer may return neither.
  if (const std::string ids = outputOf("topk_ids"); !ids.empty())
    args.pointer("ids", "int", ids, true);
  if (const std::string weights = outputOf("topk_weights"); !weights.empty())
    args.pointer("weights", "float", weights, true);
  if (permute)
    placesOfPermutation();
  else if (pairRows)
    pointer("positions", "int", true);
  // A part of a layer has no use for them.
  else if (!boundTo("block_counts").empty())
    pointer("block_counts", "int", true);

  int64_t experts = route.getNumExperts(), topK = route.getTopK();
  ConfigPrinter &config = out.text.config;
  addRoutingConfig(route, out.text);
  config.number("kExperts", experts);
  config.number("kTopK", topK);
  config.number("kBlockTokens", count.getBlockTokens());
  config.number("kMostBlocks", count.getMostBlocks().value_or(0));
  config.flag("kPermute", bool(permute));
  config.number("kCluster", out.cluster[0]);
  config.number("kTileRows", permute ? int64_t(permute.getTileRows()) : 1);
  config.number("kRowStep", permute ? permute.getStepOfRows() : 1);
  config.number("kCounters", permute ? permute.getCounters() : 2);
  config.number("kLocalExperts", count.getNumLocal());
  if (findStage<moe::QuantizeOp>(kernel))
    emitQuantization(kernel, [&](StringRef f) { return boundTo(f); }, out);
}

void Emitter::emitSharedRows() {
  addRoutingFields(
      findStage<moe::SharedRowsOp>(kernel),
      [&](StringRef field) { return boundTo(field); }, out.text.arguments);
  pointer("tiles", "int4", true);
  pointer("tile_count", "int", true);
  pointer("offsets", "int", true);
  pointer("positions", "int", true);
  pointer("topk_weights", "float", true);
}

//===----------------------------------------------------------------------===//
// Matmul and activation
//===----------------------------------------------------------------------===//

void Emitter::emitMatmul() {
  auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
  auto activate = findStage<moe::ActivateOp>(kernel);
  bool gather = bool(matmul.getRows());
  mlir::Value result = resultOfMatmul(kernel);
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  ArgumentLayout &args = out.text.arguments;
  const Engine &engine = engineOf(*schedule.getMatmul());
  const MatmulProblem problem = problemOf(kernel);
  const bool mapsRows = !matmul.isFirst() && !gather &&
                        engine.mapsRows(problem, *schedule.getMatmul());
  // Tensor cores that take scales of blocks read two codes of 4 bits as one.
  const bool ofBlocks = matmul.getRealization() == moe::Realization::Blocks;
  const auto multipliedType = [&](mlir::Value value) {
    return ofBlocks && elementBits(elementTypeOf(value)) == 4 &&
                   multipliedBits(matmul) == 4
               ? "moe::e2m1x2"
               : cppType(value);
  };
  // Producers copy weight codes that are narrower than the operands of lhs; a
  // tensor map does not spread them over bytes.
  const bool spreadsCodes =
      ofBlocks && elementBits(elementTypeOf(matmul.getRhs())) <
                      elementBits(elementTypeOf(matmul.getLhs()));
  for (mlir::OpOperand &operand : matmul->getOpOperands()) {
    const StringRef name = matmul.getOperandName(operand.getOperandNumber());
    if (name == "rhs" && engine.isPersistent() && !matmul.readsFragments() &&
        !spreadsCodes)
      addWeightMap(matmul, schedule, boundTo(name), out);
    else if (name == "lhs" && mapsRows)
      addRowMap(matmul, schedule, boundTo(name), out);
    else if (name == "tiles")
      pointer(name, "int4", /*written=*/plan.getCounts());
    else
      pointer(name,
              name == "lhs" || name == "rhs" ? multipliedType(operand.get())
                                             : cppType(operand.get()),
              /*written=*/name == "tile_count" && engine.isPersistent());
    if (name == "lhs" && !mapsRows)
      args.rowStride("lhs_row_stride", boundTo(name));
  }
  if (matmul.getBiasOfRank())
    args.ofRank("add_bias");
  addNumbers(activate, [&](StringRef f, StringRef type) { pointer(f, type); });
  if (!quantize)
    pointer("result", cppType(result), true);

  int64_t n = matmul.getN(), k = matmul.getK();
  if (ofBlocks)
    k = k * multipliedBits(matmul) / 8;
  int64_t experts = matmul.getNumExperts();
  ConfigPrinter &config = out.text.config;
  config.type("Input", multipliedType(matmul.getLhs()));
  config.type("Weight", multipliedType(matmul.getRhs()));
  config.type("Result", cppType(result));
  addWeightConfig(matmul, config);
  addActivation(activate ? activate.getActivation() : moe::ActivationAttr(),
                out.text);
  addEngineHeader(engine.row.name, out);
  const bool isNative =
      catalog::choosesNative(&engine.row, elementTypeOf(matmul.getLhs()),
                             program.getTarget().getArchRow().features);
  // Types of the scales of blocks, and of weights, follow.
  std::string types = multipliedType(matmul.getLhs());
  const bool scalesGroups = problem.powerGroups && !engine.row.multipliesPlain;
  if (ofBlocks || scalesGroups)
    types += fmt::format(", {}, {}",
                         scalesGroups ? std::string("moe::ue8m0")
                                      : cppType(matmul.getRhsScale()),
                         multipliedType(matmul.getRhs()));
  config.type("Mma",
              engine.mma(problem, *schedule.getMatmul(), types, isNative));
  addSchedule(*schedule.getMatmul(), config);
  if (plan.getCursor())
    config.number("kCursor", plan.getCursor());
  if (engine.isPersistent()) {
    config.flag("kCounts", plan.getCounts());
    config.number("kAwaited", plan.getAwaits());
    if (plan.getSplitTiles()) {
      config.number("kSplit", out.cluster[0]);
      config.number("kSplitTiles", plan.getSplitTiles());
    }
  }
  config.number("kN", n);
  config.number("kK", k);
  config.number("kExperts", experts);
  if (gather)
    config.number("kPairs", *matmul.getPairs());
  config.flag("kGather", gather);
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  addGateUpOrder(matmul.getGateUpOrder(), config);
  config.flag("kTilesEarly", plan.getEarly());
  if (quantize)
    emitQuantizedResult(kernel, [&](StringRef f) { return boundTo(f); }, out);
}

void Emitter::emitActivate() {
  auto activate = findStage<moe::ActivateOp>(kernel);
  ConfigPrinter &config = out.text.config;
  config.type("Result", cppType(activate.getResult()));
  addActivation(activate.getActivation(), out.text);
  config.number(
      "kColumns",
      cast<RankedTensorType>(activate.getInput().getType()).getDimSize(1));
  config.number("kExperts",
                expertsOfRows(kernel, activate.getOffsets(), mlir::Value()));
  config.number("kInterleave", activate.getInterleave());
}

void Emitter::emitNorm() {
  auto combine = findStage<moe::CombineNormedOp>(kernel);
  out.text.config.real("kEpsilon", combine.getEpsilon().convertToDouble());
  // Rows of 16 bits leave registers for a second CTA, which loads meanwhile.
  if (elementBytes(elementTypeOf(combine.getPartials())) == 2)
    out.text.minCtasPerSm = 2;
}

Result<EmittedKernel> Emitter::emit() {
  if (!schedule || !plan)
    return invalidArgument("kernel '{}' has no plan; run "
                           "moe-select-schedule and moe-plan-launches first",
                           kernel.getSymName().str());
  auto grid = TRY(Expression::parse(plan.getGrid().str()));
  struct Row {
    StringRef kind;
    void (Emitter::*emit)() = nullptr;
    void (*emitAll)(moe::KernelOp, BoundTo, EmittedKernel &) = nullptr;
  };
  static constexpr Row rows[] = {{"route", &Emitter::emitRoute},
                                 {"route_permute", &Emitter::emitRoute},
                                 {"route_pairs", &Emitter::emitRoute},
                                 {"shared_rows", &Emitter::emitSharedRows},
                                 {"grouped_matmul", &Emitter::emitMatmul},
                                 {"activate", &Emitter::emitActivate},
                                 {"combine_normed", &Emitter::emitNorm},
                                 {"amax", nullptr, emitQuantization},
                                 {"quantize", nullptr, emitQuantization},
                                 {"route_gate_up", nullptr, emitFewTokens},
                                 {"down_combine", nullptr, emitFewTokens},
                                 {"down_slices", nullptr, emitSlices}};
  begin(grid);
  addArguments();
  addMembers();
  const auto row =
      llvm::find_if(rows, [&](auto &r) { return r.kind == kernel.getKind(); });
  if (row != std::end(rows) && row->emit)
    (this->*row->emit)();
  else if (row != std::end(rows))
    row->emitAll(kernel, [&](StringRef field) { return boundTo(field); }, out);
  out.stages = stagesOf(kernel, launch, out.text.arguments);
  return std::move(out);
}

Result<EmittedKernel> compiler::emitKernel(moe::KernelOp kernel,
                                           moe::LaunchOp launch) {
  return Emitter(kernel, launch).emit();
}
