//===- PackEmitter.cpp - the text of weight preparation -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members here are those that pack.cuh lists.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/KernelEmitter.h"
#include "compiler/backend/cuda/StageWriter.h"
#include "compiler/passes/ProgramValues.h"

using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::RankedTensorType;
using namespace moec;
using namespace moec::compiler;

/// Bytes that a CTA of the pack kernels moves.
static constexpr int64_t kPackBytesPerCta = 32768;

std::vector<EmittedKernel> compiler::emitPack(moe::PackOp pack,
                                              const std::string &scratch) {
  auto program = pack->getParentOfType<moe::ProgramOp>();
  auto type = cast<RankedTensorType>(pack.getResult().getType());
  auto layout = dyn_cast_or_null<moe::LayoutAttr>(type.getEncoding());
  int64_t interleave = layout ? layout.getInterleave() : 0;
  llvm::StringRef order = layout ? layout.getGateUpOrder() : "gate_first";
  int64_t rows = type.getDimSize(1), columns = type.getDimSize(2);
  std::string elementType = elementTypeOf(pack.getResult());
  int64_t bits = elementBits(elementType);
  // Codes are moved as bytes.
  bool asBytes = convertsWeights(program.getLayerOp().getQuant());
  std::string element(asBytes ? "unsigned char" : cppElementType(elementType));
  int64_t bytes = rows * columns * bits / 8;

  std::vector<EmittedKernel> kernels;
  for (bool second : {false, true}) {
    EmittedKernel out;
    out.kind = second ? "pack_interleave" : "pack_copy";
    out.scheme = schemeName(program.getLayerOp());
    out.text.include = "moe/kernel/pack.cuh";
    out.text.function = second ? "moe::packInterleave" : "moe::packCopy";
    out.text.threads = 256;
    ConfigPrinter &config = out.text.config;
    config.number("kThreads", out.text.threads);
    config.flag("kProgrammatic", false);
    config.flag("kCpAsync", program.getTarget().getArchRow().has("cp_async"));
    config.type("Element", element);
    config.number("kRows", rows);
    config.number("kColumns", asBytes ? columns * bits / 8 : columns);
    config.number("kInterleave", interleave);
    if (second)
      addGateUpOrder(order, config);
    config.number("kBytesPerCta", kPackBytesPerCta);
    ArgumentLayout &args = out.text.arguments;
    args.pointer("source", element,
                 second ? scratch : valueName(pack.getSource()));
    args.pointer("destination", element,
                 second ? valueName(pack.getResult()) : scratch, true);
    args.firstExpert("first_expert");
    args.size("experts", Expression::symbol("experts"));
    Stage stage;
    stage.op = out.kind;
    stage.operands = {{"source", "source"}};
    stage.results = {{"destination", "destination"}};
    stage.attributes = {{"rows", rows}, {"columns", columns}};
    if (second)
      addRowOrder(stage, interleave, order);
    out.stages.push_back(std::move(stage));
    out.grid.ctas[0] =
        ceilDiv(Expression::symbol("experts") * Expression(bytes),
                Expression(kPackBytesPerCta));
    kernels.push_back(std::move(out));
  }
  return kernels;
}
