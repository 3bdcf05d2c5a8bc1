//===- ChooseRealization.cpp - chooses how a layer is computed ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queries the resolver (compiler/plan/Resolver.h) for the realizations that
// each target supports. All later passes see the layer in its chosen
// realization.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/Communication.h"
#include "compiler/plan/LayerFacts.h"
#include "compiler/plan/Shares.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHOOSEREALIZATIONPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
struct ChooseRealization
    : compiler::impl::ChooseRealizationPassBase<ChooseRealization> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const auto targets = compiler::targetsOf(module.getLoc(), *archs, gpu);
    if (failed(targets))
      return signalPassFailure();
    const Choices choices{backend, engine, exclude, allow, variables};
    if (const auto checked = checkChoices(choices); !checked) {
      module.emitError() << checked.error().message;
      return signalPassFailure();
    }
    // All shares of a layer must have the same realization.
    llvm::MapVector<StringAttr, SmallVector<moe::LayerOp>> shares;
    for (auto layer : module.getOps<moe::LayerOp>())
      if (!layer.getRealization() && layer.isResolved() && !targets->empty() &&
          !hasProgram(layer))
        shares[StringAttr::get(&getContext(), wholeLayerOf(layer))].push_back(
            layer);
    // Choices of environment variables do not apply to a part without a
    // matmul.
    for (auto &[name, layers] : shares)
      choose(layers, *targets,
             layers.front().hasMatmul() ? choices : choices.withoutVariables());
  }

  /// Returns the intermediate columns of this layer's share, followed by the
  /// other column counts that shares of other ranks have. The realization must
  /// support all these counts, because all ranks must compute the same way, in
  /// one package or in several.
  static SmallVector<int64_t> columnsOfShards(moe::LayerOp layer) {
    const int64_t own = layer.getIntermediateSizePerPartition().value_or(
        layer.getIntermediateSize());
    SmallVector<int64_t> columns = {own};
    const int64_t shards = layer.getParallel().getShardSize();
    for (int64_t rank = 0; shards > 1 && rank < shards; ++rank) {
      const int64_t its = shareOf(layer, rank).columns;
      if (its > 0 && !llvm::is_contained(columns, its))
        columns.push_back(its);
    }
    return columns;
  }

  static void choose(ArrayRef<moe::LayerOp> layers,
                     ArrayRef<moe::TargetAttr> targets,
                     const Choices &choices) {
    std::vector<std::vector<LayerFacts>> ways;
    for (moe::LayerOp layer : layers)
      for (const int64_t columns : columnsOfShards(layer)) {
        OwningOpRef<moe::LayerOp> share = layer.clone();
        share->setIntermediateSizePerPartition(columns);
        ways.push_back(factsOf(*share));
      }
    const size_t count = ways.front().size();
    if (count < 2)
      return;
    const auto isServed = [&](size_t way) {
      return llvm::all_of(targets, [&](moe::TargetAttr target) {
        return llvm::all_of(ways, [&](const std::vector<LayerFacts> &facts) {
          return bool(resolve({facts[way]}, target.getArch().str(), choices));
        });
      });
    };
    size_t chosen = 0;
    while (chosen + 1 < count && !isServed(chosen))
      ++chosen;
    for (moe::LayerOp layer : layers)
      write(layer, ways.front()[chosen].realization);
  }

  static void write(moe::LayerOp layer, const std::string &realization) {
    layer.setRealization(realization);
    if (realization != "weight_only")
      return;
    const Type plain = layer.getComputeType();
    layer.setStoredQuantAttr(layer.getQuant());
    layer.setQuantAttr(layer.getQuant().withPlainActivations(plain));
  }
};
} // namespace
