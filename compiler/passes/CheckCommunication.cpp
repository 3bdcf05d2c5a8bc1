//===- CheckCommunication.cpp - checks layers that move tokens ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rejects options of layers whose package moves tokens between ranks. After the
// gather, the tokens differ from this rank's tokens in order and count. Options
// that depend on either are errors.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "compiler/plan/Communication.h"
#include "dialect/catalog/RoutingMethods.h"
#include "runtime/package/Limits.h"

using namespace mlir;
using namespace moec;

/// Rejects options that one-sided kernels do not support, because these kernels
/// write into other ranks' memory.
static LogicalResult checkOneSided(moe::LayerOp layer,
                                   const compiler::Communication &moved) {
  bool failed = false;
  const auto refuseAsked = [&](bool isAsked, StringRef code,
                               const Twine &reason) {
    if (isAsked)
      failed |=
          mlir::failed(compiler::refuse(layer, code,
                                        "all_to_all one_sided, and " + reason +
                                            ", or all_to_all gather_scatter"));
  };
  refuseAsked(moved.reduce > 1, "option_not_supported",
              Twine(moved.reduce) +
                  " ranks that have the same tokens; accepted: sp = tp, with "
                  "which each rank has tokens of its own");
  refuseAsked(moved.gather > kMostWindowRanks, "size_not_supported",
              Twine(moved.gather) + " ranks; accepted: at most " +
                  Twine(kMostWindowRanks));
  return failure(failed);
}

LogicalResult compiler::checkCommunication(moe::LayerOp layer) {
  if (!layer.communicates())
    return success();
  const moe::DescriptorAttr a1 = layer.getQuant().getA1();
  const bool hasOneScale =
      layer.getInputQuantized() &&
      (a1.isOfTensor() || (a1.getSecondScale() && !a1.getSecondPerRow()));
  const catalog::RoutingMethod *row =
      catalog::find(catalog::kRoutingMethods, layer.getRouting().getMethod());
  struct Rule {
    bool isAsked;
    StringRef reason;
  };
  const Rule always[] = {
      {bool(layer.getPart()),
       "part: a part of a layer is for callers that move tokens themselves"},
      {layer.isBatched(), "activation_format batched: rows come by expert, so "
                          "the caller has moved them"},
      {layer.getDeferMoeFinalize(),
       "defer_moe_finalize: the caller sums over experts before ranks can sum"},
      {layer.getResidual(), "residual: each rank would add it to its sum"},
      {layer.getSkipFinalAllReduce(),
       "skip_final_all_reduce: the caller reduces over ranks"},
      {layer.getBatchInvariant(),
       "batch_invariant: the order of sums over ranks may depend on their "
       "size"}};
  const Rule gathering[] = {
      {layer.getIsLoraEnabled(),
       "is_lora_enabled: addends are of the pairs of one rank's tokens"},
      {layer.getExpertMap(),
       "expert_map, which placements other than linear need: each rank maps "
       "ids of all ranks' tokens by its own"},
      {!a1.isPlain() && a1.getDynamic() && a1.isOfTensor() && !hasOneScale,
       "a scheme with one dynamic scale of all tokens: ranks have different "
       "numbers of them"},
      {hasOneScale,
       "input_quantized with one scale of all tokens: each rank has its own"},
      {row && row->score.starts_with("drawn"),
       "a routing that draws experts by a token's position: tokens of "
       "different ranks have the same positions"}};
  bool failed = false;
  const auto refuseAsked = [&](ArrayRef<Rule> rules) {
    for (const Rule &rule : rules)
      if (rule.isAsked)
        failed |= mlir::failed(refuse(
            layer, "option_not_supported",
            "all_to_all " + *layer.getAllToAll() + ", and " + rule.reason +
                "; accepted: one of the two, or all_to_all "
                "allgather_reducescatter, with which the caller moves "
                "tokens and sums"));
  };
  refuseAsked(always);
  const auto moved = movedByPackage(layer);
  if (moved && moved->gather > 1)
    refuseAsked(gathering);
  if (moved && moved->oneSided)
    failed |= mlir::failed(checkOneSided(layer, *moved));
  return failure(failed);
}
