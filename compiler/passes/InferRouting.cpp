//===- InferRouting.cpp - from flags to a routing method ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checkpoints' configurations say a scoring function and flags. The table here
// says which method they mean; the catalog says which methods there are.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/passes/Targets.h"
#include "dialect/catalog/RoutingMethods.h"

namespace moec::compiler {
#define GEN_PASS_DEF_INFERROUTINGPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

/// `?` in a column is any.
struct Rule {
  std::string_view scoring;
  char bias, renormalize, groups, scaled;
  std::string_view method;
};

/// The first rule that fits decides. Flags that no rule fits have no name.
constexpr Rule kRules[] = {
    // scoring       bias renorm groups scaled method
    {"sqrtsoftplus", '?', 'y', '?', '?', "deepseek_v4"},
    {"sigmoid", 'y', 'y', 'y', '?', "deepseek_v3"},
    {"sigmoid", 'y', 'y', 'n', 'n', "minimax2"},
    {"sigmoid", 'n', 'y', '?', '?', "sigmoid_renorm"},
    {"sigmoid", 'n', 'n', '?', '?', "sigmoid"},
    {"softmax", 'n', 'y', '?', '?', "renormalize_naive"},
    {"softmax", 'n', 'n', '?', '?', "default"},
};

bool fits(char column, bool flag) {
  return column == '?' || (column == 'y') == flag;
}

/// What was asked for, for messages.
std::string describe(moe::RoutingAttr routing) {
  std::string text = "scoring " + routing.getScoring().str();
  if (routing.getBias())
    text += ", bias";
  if (routing.getRenormalize())
    text += ", renormalize";
  if (routing.getGroups() > 1)
    text += ", groups";
  if (routing.getScaleValue() != 1.0)
    text += ", scale";
  return text;
}

LogicalResult infer(moe::LayerOp layer) {
  moe::RoutingAttr routing = layer.getRouting();
  FloatAttr scale = routing.getScale();
  if (layer.getRoutedScaleAttr()) {
    scale = layer.getRoutedScaleAttr();
    layer.removeRoutedScaleAttr();
  }
  // A factor of one and a single group are no factor and no groups.
  if (scale && scale.getValueAsDouble() == 1.0)
    scale = {};
  const bool isGrouped = routing.getGroups() > 1;
  const int64_t groups = isGrouped ? routing.getGroups() : 0;
  const int64_t topGroups = isGrouped ? routing.getTopGroups() : 0;
  StringRef method = routing.getMethod();
  if (std::string_view(method) == catalog::kAutoRouting) {
    const Rule *found = nullptr;
    for (const Rule &rule : kRules)
      if (!found && rule.scoring == std::string_view(routing.getScoring()) &&
          fits(rule.bias, routing.getBias()) &&
          fits(rule.renormalize, routing.getRenormalize()) &&
          fits(rule.groups, isGrouped) && fits(rule.scaled, bool(scale)))
        found = &rule;
    if (!found)
      return compiler::refuse(layer, "routing_not_supported",
                              "no routing method is known by " +
                                  describe(routing));
    if (!catalog::find(catalog::kRoutingMethods, found->method))
      return compiler::refuse(layer, "routing_not_supported",
                              describe(routing) + " is routing method '" +
                                  std::string(found->method) +
                                  "', which has no row in "
                                  "dialect/catalog/RoutingMethods.h; known: " +
                                  catalog::names(catalog::kRoutingMethods));
    method = found->method;
  }
  layer.setRoutingAttr(
      moe::RoutingAttr::get(layer.getContext(), method, groups, topGroups,
                            scale, routing.getBias(), StringRef(), false));
  return success();
}

struct InferRoutingPass
    : compiler::impl::InferRoutingPassBase<InferRoutingPass> {
  using Base::Base;

  void runOnOperation() override {
    bool failed = false;
    for (auto layer : getOperation().getOps<moe::LayerOp>())
      failed |= mlir::failed(infer(layer));
    if (failed)
      signalPassFailure();
  }
};

} // namespace
