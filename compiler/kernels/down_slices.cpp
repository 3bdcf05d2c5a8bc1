//===- down_slices.cpp - second matmul fused with the combine -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// templates/moe/kernel/down_slices.cuh lists the fields and Config members.
// Partial sums are stored in a
// workspace region that only this kernel uses.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Emission.h"
#include "compiler/kernels/Kind.h"
#include "compiler/matmul/Slices.h"
#include "compiler/plan/Liveness.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include <fmt/core.h>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// The kernel discards the cache lines of the partial sums without writing them
/// back. Therefore no other value may share a line with them.
static_assert(kRegionAlignment % 128 == 0,
              "partial sums must begin at a line of the cache");

static FailureOr<moe::ScheduleAttr> selectSlices(moe::KernelOp kernel,
                                                 MeasuredSchedules &) {
  const FailureOr<Hardware> hardware = hardwareOf(kernel);
  if (failed(hardware))
    return failure();
  const int64_t tokens = tokenRange(kernel).second;
  const std::optional<SlicesSchedule> chosen =
      slicesSchedule(slicesProblem(findStage<moe::GroupedMatmulOp>(kernel),
                                   findStage<moe::CombineOp>(kernel), tokens),
                     *hardware);
  if (!chosen)
    return kernel.emitError()
           << "no schedule of slices holds the rows of " << tokens
           << " tokens in the shared memory of " << hardware->sms << " SMs";
  return scheduleAttr<moe::SlicesScheduleAttr>(
      kernel->getParentOfType<moe::ProgramOp>(), *chosen);
}

/// Plans the grid. The symbol `rows` is an upper bound; the runtime limits the
/// grid to the CTAs that fit on the GPU.
static void planSlices(moe::KernelOp kernel, LaunchPlan &plan) {
  const moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  plan.sharedBytes =
      slicesSharedBytes(slicesProblem(findStage<moe::GroupedMatmulOp>(kernel),
                                      findStage<moe::CombineOp>(kernel), 0),
                        cast<moe::SlicesScheduleAttr>(schedule).getFields());
  plan.label = tileLabel(schedule);
  plan.grid = Expression::symbol("rows");
}

static void emitSlices(Emission &emission) {
  auto matmul = findStage<moe::GroupedMatmulOp>(emission.kernel);
  auto combine = findStage<moe::CombineOp>(emission.kernel);
  const SlicesSchedule &numbers =
      cast<moe::SlicesScheduleAttr>(emission.schedule).getFields();
  ArgumentLayout &args = emission.args();
  for (mlir::OpOperand &operand : matmul->getOpOperands()) {
    const StringRef name = matmul.getOperandName(operand.getOperandNumber());
    if (name == "rhs")
      addWeightMap(matmul, emission.schedule, emission.boundTo(name),
                   emission.out);
    else
      emission.pointer(name, name == "tiles" ? "int4" : cppType(operand.get()),
                       /*written=*/name == "tile_count");
  }
  if (matmul.getBiasOfRank())
    args.ofRank("add_bias");
  for (mlir::OpOperand &operand : combine->getOpOperands()) {
    const StringRef name = combine.getOperandName(operand.getOperandNumber());
    if (name == "partials")
      args.pointer(name, cppType(operand.get()), kSlices.str(), true);
    else
      emission.pointer(name, cppType(operand.get()));
  }
  args.size("tokens", Expression::symbol("tokens"));
  emission.pointer("out", cppType(combine.getOut()), true);

  ConfigPrinter &config = emission.config();
  config.type("Input", cppType(matmul.getLhs()));
  config.type("Result", cppType(combine.getPartials()));
  config.type("Output", cppType(combine.getOut()));
  config.type("Quant", nativePolicy(matmul));
  config.type("Activation", "moe::activation::None");
  addEngineHeader(numbers.engine->name, emission.out);
  config.type("Mma", fmt::format("{}<{}>", numbers.engine->policy,
                                 cppType(matmul.getLhs())));
  config.open("Schedule");
  config.number("kTileM", numbers.tileM);
  config.number("kTileN", numbers.tileN);
  config.number("kTileK", numbers.tileK);
  config.number("kStages", numbers.stages);
  config.number("kBuffers", numbers.buffers);
  config.number("kOtherWarpgroups", numbers.roles().producerWarps / 4);
  config.number("kProducerRegisters", numbers.roles().producerRegisters);
  config.number("kConsumerRegisters", numbers.roles().consumerRegisters);
  config.number("kCtasPerSm", numbers.ctasPerSm);
  config.close();
  config.number("kN", matmul.getN());
  config.number("kK", matmul.getK());
  config.number("kExperts", matmul.getNumExperts());
  config.number("kPairs", combine.getPairs());
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  config.flag("kTilesEarly", emission.plan.getEarly());
  config.number("kRows", numbers.blockRows);
  config.number("kTokens", numbers.blockTokens);
}

constexpr Kind compiler::kernels::down_slices = {.names = "down_slices",
                                                 .schedule = selectSlices,
                                                 .plan = planSlices,
                                                 .emit = emitSlices};
