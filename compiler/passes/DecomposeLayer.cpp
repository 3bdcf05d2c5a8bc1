//===- DecomposeLayer.cpp - converts layers to programs of stages ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates one program for each layer and target, with one variant for all token
// counts. Block and tile sizes are not set yet (0).
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Decomposer.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/ProgramValues.h"

namespace moec::compiler {
#define GEN_PASS_DEF_DECOMPOSELAYERPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {
struct DecomposeLayerPass
    : compiler::impl::DecomposeLayerPassBase<DecomposeLayerPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const auto targets = compiler::targetsOf(module.getLoc(), *archs, gpu);
    if (failed(targets))
      return signalPassFailure();
    if (maxTokens < 1) {
      module.emitError() << "max-tokens must be at least 1, got "
                         << maxTokens.getValue();
      return signalPassFailure();
    }
    for (auto layer : llvm::to_vector(module.getOps<moe::LayerOp>())) {
      if (targets->empty() && !compiler::hasProgram(layer)) {
        layer.emitError() << "layer @" << layer.getSymName()
                          << " has no program, and no arch is specified; "
                             "expected arch=NAME";
        return signalPassFailure();
      }
      for (const moe::TargetAttr target : *targets)
        if (failed(decompose(layer, target)))
          return signalPassFailure();
    }
  }

  LogicalResult decompose(moe::LayerOp layer, moe::TargetAttr target) {
    std::optional<moe::Realization> codes;
    if (layer.getRealization() == "native") {
      if (layer.getQuant().mayMultiplyCodes())
        codes = moe::Realization::Codes;
      else if (layer.getQuant().getBlockPair())
        codes = moe::Realization::Blocks;
    }
    for (auto program : getOperation().getOps<moe::ProgramOp>())
      if (program.getLayer() == layer.getSymName() &&
          program.getTarget().getArch() == target.getArch())
        return success();
    if (!layer.isResolved())
      return layer.emitError()
             << "what this rank holds of layer @" << layer.getSymName()
             << " is not resolved; run moe-resolve-parallel first";
    if (layer.isPart("quantize") &&
        (!codes || layer.getQuant().getA1().getSecondPerRow()) &&
        layer.getQuant().dequantizesWeights())
      return compiler::refuse(
          layer, "scheme_not_supported",
          "part quantize: on " + target.getArch() +
              " this layer emulates activations: x becomes numbers of 16 bits "
              "at once, and no codes; accepted: schemes that the support "
              "matrix calls native or dequantized there");
    // Rows of batched layers are assigned to this rank's experts by the sender,
    // so any stride is possible.
    if (layer.getLocalStride().value_or(1) != 1 && !layer.getExpertMap() &&
        !layer.isBatched())
      return compiler::refuse(layer, "option_not_supported",
                              "the experts of a rank must follow each other, "
                              "got a stride of " +
                                  Twine(*layer.getLocalStride()) +
                                  "; accepted: placement = linear");
    compiler::Decomposer(layer, target, maxTokens, codes).build();
    return success();
  }
};

} // namespace
