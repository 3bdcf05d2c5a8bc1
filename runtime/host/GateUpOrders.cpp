//===- GateUpOrders.cpp - orders of gate and up rows ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/host/GateUpOrders.h"

using namespace moec;

static constexpr GateUpOrder kOrders[] = {
#define MOEC_GATE_UP_ORDER(name, run, upFirst) {name, run, upFirst},
#include "runtime/host/Policies.inc"
#undef MOEC_GATE_UP_ORDER
};

const GateUpOrder *moec::findGateUpOrder(std::string_view name) {
  for (const GateUpOrder &order : kOrders)
    if (order.name == name)
      return &order;
  return nullptr;
}

std::string moec::gateUpOrderNames(int64_t mostRun) {
  std::string text;
  for (const GateUpOrder &order : kOrders)
    if (order.run <= mostRun)
      text.append(text.empty() ? "" : ", ").append(order.name);
  return text;
}
