//===- Window.cpp - memory that other ranks write -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values are placed in order of first use.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Window.h"

#include "compiler/plan/ProgramValues.h"
#include "runtime/package/Manifest.h"

#include "llvm/Support/MathExtras.h"

using namespace moec;
using namespace moec::compiler;

int64_t compiler::windowRanks(moe::ProgramOp program) {
  auto dispatch = findIn<moe::DispatchOp>(program);
  return dispatch && dispatch.getOneSided() ? int64_t(dispatch.getRanks()) : 1;
}

static moec::Value makeValue(std::string_view name, ValueRole role,
                             std::string elementType,
                             std::vector<Expression> shape) {
  moec::Value value;
  value.name = name;
  value.role = role;
  value.elementTypes = {std::move(elementType)};
  value.shape = std::move(shape);
  value.alignment = kWindowAlignment;
  return value;
}

Result<void> compiler::addWindow(moe::ProgramOp program, Target &target) {
  const int64_t ranks = windowRanks(program);
  if (ranks == 1)
    return {};
  target.windowRanks = ranks;
  Symbols most;
  most.tokens = most.maxTokens = program.getMaxTokens();
  most.ownTokens = llvm::divideCeil(*most.tokens, ranks);
  const auto place = [&](const WorkspaceValue &value) -> Result<void> {
    target.values.push_back(makeValue(value.name, ValueRole::Window,
                                      value.elementType, value.shape));
    target.windowRegions.push_back({value.name, target.windowBytes});
    const int64_t bytes = TRY(value.bytes().evaluate(most));
    target.windowBytes += int64_t(llvm::alignTo(bytes, kWindowAlignment));
    return {};
  };
  TRY(place({std::string(kExchangeWords),
             "i64",
             {Expression(exchangeWordsOf(ranks))}}));
  for (const WorkspaceValue &value : windowValues(program))
    TRY(place(value));
  target.values.push_back(
      makeValue(kExchangeCounter, ValueRole::State, "i32", {Expression(1)}));
  target.stateRegions.push_back(
      {std::string(kExchangeCounter), target.stateBytes});
  target.stateBytes += kWindowAlignment;
  return {};
}
