//===- KernelStages.cpp - a kernel's stages for the manifest --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stage ops define the operand names, result names and attributes
// (dialect/MoeInterfaces.td). A value that is used only inside the
// kernel is named "%name".
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/EmittedKernel.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/ProgramValues.h"
#include "runtime/package/Stages.h"

#include "llvm/ADT/DenseMap.h"

#include <nlohmann/json.hpp>

using mlir::cast;
using mlir::dyn_cast;
using mlir::StringAttr;
using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

/// Returns true if stages of kind `op` may omit the result.
static bool mayLack(StringRef op, StringRef result) {
  const StageKind *kind = findStageKind(std::string_view(op));
  return kind && kind->results.contains((result + "?").str());
}

/// Returns the name of a value that is used only inside the kernel. If a stage
/// reads the value, the name is the operand name in that stage. If the operand
/// name is the generic "input", the name is the SSA name of the value instead.
/// If no stage reads the value, the name is the result name in the stage that
/// defines it.
static std::string localName(moe::StageOpInterface stage,
                             mlir::OpResult result) {
  for (mlir::OpOperand &use : result.getUses()) {
    auto reader = dyn_cast<moe::StageOpInterface>(use.getOwner());
    if (!reader)
      continue;
    const StringRef name = reader.getOperandName(use.getOperandNumber());
    if (name != "input")
      return ("%" + name).str();
    std::string printed;
    cast<mlir::OpAsmOpInterface>(stage.getOperation())
        .getAsmResultNames([&](mlir::Value value, StringRef its) {
          if (value == result)
            printed = its.str();
        });
    return "%" + printed;
  }
  return ("%" + stage.getResultName(result.getResultNumber())).str();
}

namespace {
class Writer {
public:
  Writer(moe::KernelOp kernel, moe::LaunchOp launch,
         const ArgumentLayout &arguments)
      : kernel(kernel), launch(launch), arguments(arguments) {
    for (auto [argument, field] :
         llvm::zip(kernel.getBody().getArguments(), kernel.getFields()))
      names[argument] = cast<StringAttr>(field).str();
  }

  Stage write(moe::StageOpInterface stage) {
    Stage made;
    made.op = stage->getName().stripDialect().str();
    for (mlir::OpOperand &operand : stage->getOpOperands())
      made.operands[stage.getOperandName(operand.getOperandNumber()).str()] =
          names.lookup(operand.get());
    for (const StringRef operand : rankOperandsOf(stage))
      made.operands[operand.str()] = operand.str();
    for (const StringRef operand : exchangeOperandsOf(stage))
      made.operands[operand.str()] = operand.str();
    for (mlir::OpResult result : stage->getResults())
      addResult(stage, result, made);
    mlir::NamedAttrList attributes;
    stage.addStageAttributes(attributes);
    for (mlir::NamedAttribute attribute : attributes)
      made.attributes[attribute.getName().str()] =
          attributeJson(attribute.getValue());
    return made;
  }

private:
  void addResult(moe::StageOpInterface stage, mlir::OpResult result,
                 Stage &made) {
    const std::string own = stage.getResultName(result.getResultNumber()).str();
    std::string &name = names[result];
    bool isRead = false;
    for (mlir::OpOperand &use : result.getUses()) {
      if (!mlir::isa<moe::YieldOp>(use.getOwner())) {
        isRead = true;
        continue;
      }
      const unsigned index = use.getOperandNumber();
      const std::string field =
          cast<StringAttr>((*kernel.getResultNames())[index]).str();
      made.results[field] = field;
      if (field == own)
        name = field;
      addCopies(index, field, made);
    }
    if (!name.empty() || (!isRead && mayLack(made.op, own)))
      return;
    name = localName(stage, result);
    made.results[own] = name;
  }

  /// Adds the result a second time, under the name by which the caller may
  /// request it, if the argument block has a separate field with that name.
  void addCopies(unsigned index, StringRef field, Stage &made) {
    auto ret = cast<moe::ReturnOp>(launch->getBlock()->getTerminator());
    for (const NamedOutput &output : outputsOf(ret))
      if (const std::string shown = output.name.str();
          output.value == launch.getValues()[index] && shown != field &&
          arguments.has(shown))
        made.results[shown] = shown;
  }

  moe::KernelOp kernel;
  moe::LaunchOp launch;
  const ArgumentLayout &arguments;
  llvm::DenseMap<mlir::Value, std::string> names;
};
} // namespace

std::vector<Stage> compiler::stagesOf(moe::KernelOp kernel,
                                      moe::LaunchOp launch,
                                      const ArgumentLayout &arguments) {
  Writer writer(kernel, launch, arguments);
  std::vector<Stage> stages;
  for (auto stage : kernel.getBody().front().getOps<moe::StageOpInterface>())
    stages.push_back(writer.write(stage));
  return stages;
}
