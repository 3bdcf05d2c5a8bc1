//===- RoutingEmitter.cpp - how a kernel routes ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/RoutingEmitter.h"

#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/RoutingMethods.h"

#include <fmt/format.h>

using mlir::FloatAttr;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

void compiler::addRoutingFields(
    moe::RouteOp route, llvm::function_ref<std::string(StringRef)> boundTo,
    ArgumentLayout &arguments) {
  const auto pointer = [&](StringRef field, StringRef type) {
    arguments.pointer(field, type, boundTo(field));
  };
  // A run says of which type it is.
  const auto chosen = [&](StringRef field) {
    pointer(field, "void");
    arguments.elementType(field.str() + "_type", boundTo(field));
  };
  if (route.getLogits())
    chosen("logits");
  chosen("given_ids");
  chosen("given_weights");
  pointer("valid_tokens", "int");
  arguments.size("tokens", Expression::symbol("tokens"));
  if (route.getRoutingBias())
    pointer("routing_bias", "float");
  if (route.getExpertScale())
    pointer("expert_scale", "float");
  if (route.getTokenIds()) {
    chosen("token_ids");
    pointer("hash_table", "int");
  }
}

/// The row's policy, with the groups if there are any.
static std::string selectPolicy(moe::RouteOp route,
                                const catalog::RoutingMethod &row) {
  const moe::RoutingAttr routing = route.getRouting();
  if (route.getHashTable())
    return "moe::routing::FromTable";
  if (row.select == "top_k_per_group")
    return fmt::format("{}<{}>", row.selectPolicy, routing.getGroups());
  if (routing.getGroups() > 0)
    return fmt::format("{}OfGroups<{}, {}>", row.selectPolicy,
                       routing.getGroups(), routing.getTopGroups());
  return std::string(row.selectPolicy);
}

void compiler::addRoutingConfig(moe::RouteOp route, ConfigPrinter &config) {
  const catalog::RoutingMethod &row =
      *catalog::find(catalog::kRoutingMethods,
                     std::string_view(route.getRouting().getMethod()));
  config.type("Score", row.scorePolicy);
  config.type("Select", selectPolicy(route, row));
  config.type("Normalize", row.normalizePolicy);
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
