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

#include "compiler/emit/SlicesEmitter.h"

#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include <fmt/format.h>

using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

void compiler::emitSlices(moe::KernelOp kernel,
                          llvm::function_ref<std::string(StringRef)> boundTo,
                          EmittedKernel &out) {
  auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
  auto combine = findStage<moe::CombineOp>(kernel);
  moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  auto program = kernel->getParentOfType<moe::ProgramOp>();
  const auto pointer = [&](StringRef field, StringRef type,
                           bool written = false) {
    out.text.arguments.pointer(field, type, boundTo(field), written);
  };
  ArgumentLayout &args = out.text.arguments;
  pointer("lhs", cppType(matmul.getLhs()));
  pointer("tiles", "int4");
  pointer("tile_count", "int", /*written=*/true);
  addWeightMap(matmul, schedule, boundTo("rhs"), out);
  if (matmul.getLhsScale()) {
    pointer("lhs_scale", cppType(matmul.getLhsScale()));
    pointer("rhs_scale", cppType(matmul.getRhsScale()));
  }
  if (matmul.getBias())
    pointer("bias", cppType(matmul.getBias()));
  args.pointer("partials", cppType(combine.getPartials()), kSlices.str(), true);
  pointer("positions", "int");
  pointer("topk_weights", "float");
  args.size("tokens", Expression::symbol("tokens"));
  pointer("out", cppType(combine.getOut()), true);

  const catalog::Engine *engine =
      catalog::find(catalog::kEngines, std::string_view(schedule.getEngine()));
  ConfigPrinter &config = out.text.config;
  config.type("Input", cppType(matmul.getLhs()));
  config.type("Result", cppType(combine.getPartials()));
  config.type("Output", cppType(combine.getOut()));
  config.type("Quant", nativePolicy(program));
  config.type("Activation", "moe::activation::None");
  config.type("Mma", fmt::format("{}<{}>", engine ? engine->policy : "",
                                 cppType(matmul.getLhs())));
  config.open("Schedule");
  config.number("kTileM", schedule.getTileM());
  config.number("kTileN", schedule.getTileN());
  config.number("kTileK", schedule.getTileK());
  config.number("kStages", schedule.getStages());
  config.number("kBuffers", schedule.getBuffers());
  config.number("kOtherWarpgroups", schedule.getProducerWarps() / 4);
  config.number("kProducerRegisters", schedule.getRegisters()[0]);
  config.number("kConsumerRegisters", schedule.getRegisters()[1]);
  config.number("kCtasPerSm", schedule.getCtasPerSm());
  config.close();
  config.number("kN", matmul.getN());
  config.number("kK", matmul.getK());
  config.number("kExperts", matmul.getNumExperts());
  config.number("kTopK", combine.getPairs());
  config.flag("kBias", bool(matmul.getBias()));
  config.number("kInterleave", matmul.getInterleave());
  config.flag("kTilesEarly", kernel.getPlanAttr().getEarly());
  config.number("kRows", schedule.getBlockRows());
  config.number("kTokens", schedule.getBlockTokens());
}
