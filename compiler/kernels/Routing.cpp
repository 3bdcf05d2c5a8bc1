//===- Routing.cpp - routing part of a kernel -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Parts.h"

#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/RoutingMethods.h"

#include <fmt/core.h>

using mlir::FloatAttr;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

/// Operands whose element type the caller may choose for each run.
static constexpr WordList kChosen =
    "logits given_ids given_weights token_ids shared_gate";

void compiler::addRoutingFields(moe::StageOpInterface stage,
                                Emission &emission) {
  ArgumentLayout &args = emission.args();
  for (mlir::OpOperand &operand : stage->getOpOperands()) {
    const StringRef name = stage.getOperandName(operand.getOperandNumber());
    const bool isChosen = kChosen.contains(name);
    emission.pointer(name, isChosen ? "void" : cppType(operand.get()));
    if (isChosen)
      args.elementType((name + "_type").str(), emission.boundTo(name));
    if (name == "valid_tokens")
      args.size("tokens", Expression::symbol("tokens"));
  }
  if (!args.has("tokens"))
    args.size("tokens", Expression::symbol("tokens"));
}

/// Returns the C++ policy that selects experts. It includes the parameters for
/// expert groups or sinks.
static std::string selectPolicy(moe::RouteOp route,
                                const catalog::RoutingMethod &row) {
  const moe::RoutingAttr routing = route.getRouting();
  const std::string_view policy =
      catalog::find(catalog::kSelections, row.select)->policy;
  if (route.getHashTable())
    return "moe::routing::FromTable";
  if (const int64_t sinks = routing.getSinks())
    return fmt::format("moe::routing::WithSinks<{}, {}>", policy, sinks);
  if (row.select == "top_k_per_group")
    return fmt::format("{}<{}>", policy, routing.getGroups());
  if (routing.getGroups() > 0)
    return fmt::format("{}OfGroups<{}, {}>", policy, routing.getGroups(),
                       routing.getTopGroups());
  return std::string(policy);
}

void compiler::addRoutingConfig(moe::RouteOp route, KernelText &text) {
  ConfigPrinter &config = text.config;
  const catalog::RoutingMethod &row =
      *catalog::find(catalog::kRoutingMethods,
                     std::string_view(route.getRouting().getMethod()));
  const catalog::RoutingStep &scoring =
      *catalog::find(catalog::kScores, row.score);
  std::string score(scoring.policy);
  if (!scoring.header.empty())
    text.includes.emplace_back(scoring.header);
  if (route.getRouting().getSinks() > 0)
    text.includes.emplace_back("moe/routing/sinks.cuh");
  // Policies nest: the outermost policy transforms the logit first.
  if (const FloatAttr softcap = route.getRouting().getSoftcap()) {
    text.includes.emplace_back("moe/math/softcap.cuh");
    config.open("Cap");
    config.real("kSoftcap", softcap.getValueAsDouble());
    config.close();
    score = fmt::format("moe::routing::Softcapped<{}, Cap>", score);
  }
  if (const FloatAttr scale = route.getRouting().getLogitScale()) {
    text.includes.emplace_back("moe/math/logit_scale.cuh");
    config.open("LogitScale");
    config.real("kLogitScale", scale.getValueAsDouble());
    config.close();
    score = fmt::format("moe::routing::ScaledLogit<{}, LogitScale>", score);
  }
  config.type("Score", score);
  config.type("Select", selectPolicy(route, row));
  if (const FloatAttr epsilon = route.getRouting().getEpsilon()) {
    text.includes.emplace_back("moe/math/sum_epsilon.cuh");
    config.open("Epsilon");
    config.real("kEpsilon", epsilon.getValueAsDouble());
    config.close();
    config.type("Normalize", "moe::routing::SumWith<Epsilon>");
  } else {
    config.type("Normalize",
                catalog::find(catalog::kNormalizations, row.normalize)->policy);
  }
  if (route.getRoutingBias())
    config.flag("kRoutingBias", true);
  if (route.getExpertScale())
    config.flag("kExpertScale", true);
  if (route.getHashTable())
    config.number("kTableRows", mlir::cast<mlir::RankedTensorType>(
                                    route.getHashTable().getType())
                                    .getDimSize(0));
  const auto factor = [&](StringRef name, FloatAttr value) {
    if (value && value.getValueAsDouble() != 1.0)
      config.real(name, value.getValueAsDouble());
  };
  factor("kRoutedScale", route.getRouting().getScale());
  factor("kOutputScale", route.getOutputScaleAttr());
}

void compiler::addPlacement(moe::RouteOp route, Emission &emission) {
  if (takesOfRank(emission.kernel, "local_begin"))
    emission.args().ofRank("local_begin");
  ConfigPrinter &config = emission.config();
  if (route.getLogicalToPhysical())
    config.number("kReplicaSlots", route.getReplicaSlots());
  if (route.getPhysicalExperts())
    config.number("kPhysical", *route.getPhysicalExperts());
  if (int64_t zero = route.getZero().value_or(0))
    config.number("kZero", zero);
  if (int64_t shared = route.getShared().value_or(0))
    config.number("kShared", shared);
}
