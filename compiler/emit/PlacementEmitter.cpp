//===- PlacementEmitter.cpp - which weights a chosen expert means ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/PlacementEmitter.h"

#include "compiler/plan/ProgramValues.h"

using namespace moec;
using namespace moec::compiler;

void compiler::addPlacement(
    moe::RouteOp route,
    llvm::function_ref<std::string(llvm::StringRef)> boundTo,
    EmittedKernel &out) {
  ConfigPrinter &config = out.text.config;
  const auto pointer = [&](const char *name, mlir::Value value) {
    if (value)
      out.text.arguments.pointer(name, cppElementType(elementTypeOf(value)),
                                 boundTo(name));
  };
  pointer("logical_to_physical", route.getLogicalToPhysical());
  pointer("replica_count", route.getReplicaCount());
  pointer("expert_map", route.getExpertMap());
  if (route.getSharedGate()) {
    out.text.arguments.pointer("shared_gate", "void", boundTo("shared_gate"));
    out.text.arguments.elementType("shared_gate_type", boundTo("shared_gate"));
  }
  if (route.getLogicalToPhysical())
    config.number("kReplicaSlots", route.getReplicaSlots());
  if (route.getPhysicalExperts())
    config.number("kPhysical", *route.getPhysicalExperts());
  if (int64_t zero = route.getZero().value_or(0))
    config.number("kZero", zero);
  if (int64_t shared = route.getShared().value_or(0))
    config.number("kShared", shared);
}
