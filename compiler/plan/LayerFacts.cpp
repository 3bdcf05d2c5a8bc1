//===- LayerFacts.cpp - what the resolver asks of a program ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/LayerFacts.h"

#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

LayerFacts compiler::factsOf(moe::ProgramOp program) {
  LayerFacts facts;
  facts.name = program.getLayer();
  facts.scheme = program.getScheme().value_or("");
  facts.experts = storedExperts(program);
  facts.localExperts = localExperts(program);
  auto permute = findIn<moe::PermuteOp>(program);
  facts.pairs = permute ? permute.getPairs() : 1;
  facts.format = isBatched(program) ? "batched" : "standard";
  bool isFirst = true;
  facts.nativeScales = true;
  program.walk([&](moe::GroupedMatmulOp matmul) {
    (isFirst ? facts.hidden : facts.intermediate) = matmul.getK();
    isFirst = false;
    facts.gated |= bool(matmul.getGateUp());
    facts.quantized |= matmul.getLhsDescriptor() || matmul.getRhsDescriptor();
    const moe::Realization realization = matmul.getRealization();
    facts.emulated |= realization == moe::Realization::Emulated;
    facts.nativeScales &= matmul.getLhsDescriptor() &&
                          matmul.getRhsDescriptor() &&
                          moe::nativeScales(*matmul.getLhsDescriptor(),
                                            *matmul.getRhsDescriptor());
    facts.elementTypes.push_back(elementTypeOf(matmul.getLhs()));
    (realization == moe::Realization::Native ? facts.elementTypes : facts.codes)
        .push_back(elementTypeOf(matmul.getRhs()));
    if (realization != moe::Realization::Native) {
      const ArrayRef<int64_t> group = matmul.getRhsDescriptor()->getGroup();
      facts.codeGroups.push_back({group[0], group[1]});
    }
  });
  program.walk([&](moe::ActivateOp activate) {
    facts.takesManyRegisters |= activate.getActivation().takesManyRegisters();
  });
  facts.quantizesWeights = bool(findIn<moe::QuantizeWeightsOp>(program));
  return facts;
}
