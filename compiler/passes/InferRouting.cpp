//===- InferRouting.cpp - routing method from flags -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Configurations of checkpoints specify a scoring function and flags. The table
// in this file maps them to a method; the catalog defines the methods.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "dialect/Moe.h"
#include "dialect/catalog/RoutingMethods.h"

namespace moec::compiler {
#define GEN_PASS_DEF_INFERROUTINGPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

/// One row of the table. `?` in a column matches any value.
struct Rule {
  std::string_view scoring;
  char bias, renormalize, groups, scaled;
  std::string_view method;
};

/// The table. The first rule that matches applies. Every combination of flags
/// has a method, including combinations that other systems call unspecified.
constexpr Rule kRules[] = {
    // scoring       bias renorm groups scaled method
    {"sqrtsoftplus", '?', 'y', '?', '?', "deepseek_v4"},
    {"sqrtsoftplus", '?', 'n', '?', '?', "sqrtsoftplus"},
    {"sigmoid", 'y', 'n', '?', '?', "sigmoid_bias"},
    {"sigmoid", 'y', 'y', 'n', 'n', "minimax2"},
    {"sigmoid", 'y', 'y', '?', '?', "deepseek_v3"},
    {"softmax", 'y', 'y', '?', '?', "ernie"},
    {"softmax", 'y', 'n', '?', '?', "longcat"},
    {"sigmoid", 'n', 'y', '?', '?', "sigmoid_renorm"},
    {"sigmoid", 'n', 'n', '?', '?', "sigmoid"},
    {"softmax", 'n', 'y', '?', '?', "renormalize_naive"},
    {"softmax", 'n', 'n', '?', '?', "default"},
};

bool fitsColumn(char column, bool flag) {
  return column == '?' || (column == 'y') == flag;
}

void infer(moe::LayerOp layer) {
  moe::RoutingAttr routing = layer.getRouting();
  FloatAttr scale = routing.getScale();
  if (layer.getRoutedScalingFactorAttr() &&
      !layer.getApplyRoutedScaleToOutput()) {
    scale = layer.getRoutedScalingFactorAttr();
    layer.removeRoutedScalingFactorAttr();
  }
  // A factor of 1, or a single group, is equivalent to none.
  if (scale && scale.getValueAsDouble() == 1.0)
    scale = {};
  FloatAttr logitScale = routing.getLogitScale();
  if (logitScale && logitScale.getValueAsDouble() == 1.0)
    logitScale = {};
  const bool isGrouped = routing.getGroups() > 1;
  StringRef method = routing.getMethod();
  if (std::string_view(method) == catalog::kAutoRouting) {
    const Rule *found = nullptr;
    for (const Rule &rule : kRules)
      if (!found && rule.scoring == std::string_view(routing.getScoring()) &&
          fitsColumn(rule.bias, routing.getBias()) &&
          fitsColumn(rule.renormalize, routing.getRenormalize()) &&
          fitsColumn(rule.groups, isGrouped) &&
          fitsColumn(rule.scaled, bool(scale)))
        found = &rule;
    assert(found && "the table is whole");
    method = found->method;
  }
  const catalog::RoutingMethod *row =
      catalog::find(catalog::kRoutingMethods, method);
  // Flags that a method implies are omitted.
  const bool bias = routing.getBias() || row->needs.contains("bias");
  if (row->needs.contains("weight_on_input"))
    layer.setApplyRouterWeightOnInput(true);
  const bool keepsGroups = isGrouped || row->needs.contains("groups");
  layer.setRoutingAttr(
      moe::RoutingAttr::get(layer.getContext(), method, StringRef(), false,
                            keepsGroups ? routing.getGroups() : 0,
                            keepsGroups ? routing.getTopGroups() : 0, scale,
                            bias, routing.getSoftcap(), logitScale,
                            routing.getEpsilon(), routing.getSinks()));
}

struct InferRoutingPass
    : compiler::impl::InferRoutingPassBase<InferRoutingPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto layer : getOperation().getOps<moe::LayerOp>())
      infer(layer);
  }
};

} // namespace
