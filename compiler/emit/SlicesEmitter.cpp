//===- SlicesEmitter.cpp - second matmul and combine as one kernel --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members here are those that down_slices.cuh lists. Partial
// sums stay inside of the kernel, in memory that is its own.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emitters.h"

#include "compiler/matmul/Slices.h"
#include "compiler/plan/Liveness.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include <fmt/core.h>

using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

/// The kernel drops whole lines of the cache, and with them what else is there.
static_assert(kRegionAlignment % 128 == 0,
              "partial sums must begin at a line of the cache");

void compiler::emitSlices(moe::KernelOp kernel,
                          llvm::function_ref<std::string(StringRef)> boundTo,
                          EmittedKernel &out) {
  auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
  auto combine = findStage<moe::CombineOp>(kernel);
  auto schedule = mlir::cast<moe::SlicesScheduleAttr>(kernel.getScheduleAttr());
  const SlicesSchedule &numbers = schedule.getFields();
  const auto pointer = [&](StringRef field, StringRef type,
                           bool written = false) {
    out.text.arguments.pointer(field, type, boundTo(field), written);
  };
  ArgumentLayout &args = out.text.arguments;
  for (mlir::OpOperand &operand : matmul->getOpOperands()) {
    const StringRef name = matmul.getOperandName(operand.getOperandNumber());
    if (name == "rhs")
      addWeightMap(matmul, schedule, boundTo(name), out);
    else
      pointer(name, name == "tiles" ? "int4" : cppType(operand.get()),
              /*written=*/name == "tile_count");
  }
  if (matmul.getBiasOfRank())
    args.ofRank("add_bias");
  for (mlir::OpOperand &operand : combine->getOpOperands()) {
    const StringRef name = combine.getOperandName(operand.getOperandNumber());
    if (name == "partials")
      args.pointer(name, cppType(operand.get()), kSlices.str(), true);
    else
      pointer(name, cppType(operand.get()));
  }
  args.size("tokens", Expression::symbol("tokens"));
  pointer("out", cppType(combine.getOut()), true);

  ConfigPrinter &config = out.text.config;
  config.type("Input", cppType(matmul.getLhs()));
  config.type("Result", cppType(combine.getPartials()));
  config.type("Output", cppType(combine.getOut()));
  config.type("Quant", nativePolicy(matmul));
  config.type("Activation", "moe::activation::None");
  addEngineHeader(numbers.engine->name, out);
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
  config.flag("kTilesEarly", kernel.getPlanAttr().getEarly());
  config.number("kRows", numbers.blockRows);
  config.number("kTokens", numbers.blockTokens);
}
