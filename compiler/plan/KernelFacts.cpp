//===- KernelFacts.cpp - named facts of a kernel --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The facts of a stage have the names and values of its manifest attributes.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/KernelFacts.h"

#include "compiler/plan/ProgramValues.h"

#include "llvm/Support/MathExtras.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Number of bytes that a warp copies at a time
/// (templates/moe/exchange/windows.cuh).
static constexpr int64_t kPieceBytes = 2048;

static int64_t bytesOfRow(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getShape().back() *
         elementBits(elementTypeName(type.getElementType())) / 8;
}

Attribute compiler::factOf(moe::KernelOp kernel, StringRef name) {
  Builder builder(kernel.getContext());
  const moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  const moe::PlanAttr plan = kernel.getPlanAttr();
  for (auto stage : kernel.getBody().front().getOps<moe::StageOpInterface>()) {
    NamedAttrList attributes;
    stage.addStageAttributes(attributes);
    if (const Attribute fact = attributes.get(name))
      return fact;
    if (name == "columns")
      return builder.getI64IntegerAttr(
          cast<RankedTensorType>(stage->getOperand(0).getType()).getDimSize(1));
  }
  StringRef operand = name;
  const bool isPieces = operand.consume_back("_pieces");
  if (isPieces || operand.consume_back("_bytes"))
    if (const Value value = valueOf(kernel, operand)) {
      const int64_t bytes = bytesOfRow(value);
      return builder.getI64IntegerAttr(
          isPieces ? int64_t(llvm::divideCeil(bytes, kPieceBytes)) : bytes);
    }
  if (name == "rank_experts")
    return builder.getI64IntegerAttr(
        localExperts(kernel->getParentOfType<moe::ProgramOp>()));
  if (name == "threads")
    return builder.getI64IntegerAttr(schedule.getThreads());
  if (name == "schedule_tokens")
    return builder.getI64IntegerAttr(schedule.getBlockTokens());
  if (plan && name == "early")
    return builder.getBoolAttr(plan.getEarly());
  if (plan && name == "column_blocks")
    return builder.getI64IntegerAttr(plan.getColumnBlocks());
  if (name == "true" || name == "false")
    return builder.getBoolAttr(name == "true");
  int64_t number = 0;
  return name.getAsInteger(10, number)
             ? Attribute()
             : Attribute(builder.getI64IntegerAttr(number));
}

nlohmann::json compiler::attributeJson(Attribute attribute) {
  if (auto fields = dyn_cast<DictionaryAttr>(attribute)) {
    nlohmann::json made = nlohmann::json::object();
    for (NamedAttribute field : fields)
      made[field.getName().str()] = attributeJson(field.getValue());
    return made;
  }
  if (auto flag = dyn_cast<BoolAttr>(attribute))
    return flag.getValue();
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    return number.getType().isInteger(64) ? nlohmann::json(number.getInt())
                                          : nlohmann::json();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.str();
  return nullptr;
}

std::string compiler::withFacts(moe::KernelOp kernel, StringRef text) {
  std::string made;
  while (true) {
    auto [before, behind] = text.split('{');
    made += before;
    if (behind.empty())
      return made;
    auto [name, rest] = behind.split('}');
    made += std::to_string(cast<IntegerAttr>(factOf(kernel, name)).getInt());
    text = rest;
  }
}

Value compiler::valueOf(moe::KernelOp kernel, StringRef name) {
  for (auto stage : kernel.getBody().front().getOps<moe::StageOpInterface>()) {
    for (OpOperand &operand : stage->getOpOperands())
      if (stage.getOperandName(operand.getOperandNumber()) == name)
        return operand.get();
    for (OpResult result : stage->getResults())
      if (stage.getResultName(result.getResultNumber()) == name)
        return result;
  }
  return {};
}

SmallVector<StringRef> compiler::rankOperandsOf(moe::StageOpInterface stage) {
  SmallVector<StringRef> operands;
  if (auto permute = dyn_cast<moe::PermuteOp>(stage.getOperation());
      permute && permute.getLocalExperts())
    operands.push_back("local_begin");
  if (auto rows = dyn_cast<moe::PairRowsOp>(stage.getOperation());
      rows && rows.getLocalExperts())
    operands.push_back("local_begin");
  if (auto route = dyn_cast<moe::RouteOp>(stage.getOperation());
      route && route.getExpertMap())
    operands.push_back("local_begin");
  if (auto matmul = dyn_cast<moe::GroupedMatmulOp>(stage.getOperation());
      matmul && matmul.getBiasOfRank())
    operands.push_back("add_bias");
  if (auto combine = dyn_cast<moe::CombineOp>(stage.getOperation());
      combine && combine.getIdentityOfRank())
    operands.push_back("add_identity");
  if (isa<moe::DispatchOp, moe::SendBackOp>(stage.getOperation()))
    operands.push_back("rank");
  return operands;
}

ArrayRef<StringRef> compiler::exchangeOperandsOf(moe::StageOpInterface stage) {
  static constexpr StringRef ofSending[] = {
      "exchange_words", "exchange_counter", "peers", "status"};
  if (isa<moe::DispatchOp, moe::SendBackOp>(stage.getOperation()))
    return ofSending;
  return isa<moe::FinalizeOp>(stage.getOperation())
             ? ArrayRef(ofSending).take_front(1)
             : ArrayRef<StringRef>();
}

bool compiler::takesOfRank(moe::KernelOp kernel, StringRef operand) {
  return llvm::any_of(kernel.getBody().front().getOps<moe::StageOpInterface>(),
                      [&](moe::StageOpInterface stage) {
                        return llvm::is_contained(rankOperandsOf(stage),
                                                  operand);
                      });
}

bool compiler::areOlder(moe::KernelOp kernel, WordList fields) {
  bool older = true;
  kernel->getParentOfType<moe::ProgramOp>().walk([&](moe::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return;
    for (auto [name, value] :
         llvm::zip(kernel.getFields(), launch.getArguments()))
      if (fields.contains(cast<StringAttr>(name).getValue()))
        older &= value.getDefiningOp() != launch->getPrevNode();
  });
  return older;
}
