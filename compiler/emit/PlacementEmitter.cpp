//===- PlacementEmitter.cpp - which weights a chosen expert means ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/PlacementEmitter.h"

#include "compiler/plan/KernelFacts.h"

using namespace moec;
using namespace moec::compiler;

void compiler::addPlacement(moe::KernelOp kernel, moe::RouteOp route,
                            ArgumentLayout &arguments, ConfigPrinter &config) {
  if (takesOfRank(kernel, "local_begin"))
    arguments.ofRank("local_begin");
  if (route.getLogicalToPhysical())
    config.number("kReplicaSlots", route.getReplicaSlots());
  if (route.getPhysicalExperts())
    config.number("kPhysical", *route.getPhysicalExperts());
  if (int64_t zero = route.getZero().value_or(0))
    config.number("kZero", zero);
  if (int64_t shared = route.getShared().value_or(0))
    config.number("kShared", shared);
}
