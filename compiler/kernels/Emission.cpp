//===- Emission.cpp - state while a kernel is printed ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fields are added in the order in which the template's header lists them. The
// same header lists the Config members.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Emission.h"

#include "compiler/kernels/Kind.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Window.h"
#include "dialect/catalog/Kernels.h"
#include "runtime/package/Stages.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

std::string Emission::boundTo(StringRef field) {
  for (auto [name, value] :
       llvm::zip(kernel.getFields(), launch.getArguments()))
    if (cast<StringAttr>(name).getValue() == field)
      return valueName(value);
  if (ArrayAttr results = kernel.getResultNamesAttr())
    for (auto [name, value] : llvm::zip(results, launch.getValues()))
      if (cast<StringAttr>(name).getValue() == field)
        return valueName(value);
  return {};
}

std::string Emission::outputOf(StringRef field) {
  const std::string bound = boundTo(field);
  auto ret = cast<moe::ReturnOp>(launch->getBlock()->getTerminator());
  for (const NamedOutput &output : outputsOf(ret))
    if (output.value.getDefiningOp() == launch.getOperation() &&
        valueName(output.value) == bound && output.name != bound)
      return output.name.str();
  return {};
}

/// Sets the properties that follow from the schedule and the plan: thread
/// count, cluster, shared memory and grid.
static void beginEmission(Emission &emission, const Expression &grid) {
  EmittedKernel &out = emission.out;
  const moe::ScheduleAttr schedule = emission.schedule;
  beginKernel(emission.program, emission.kernel.getKind(),
              schedule.getThreads(), schedule.getProgrammatic(), out);
  out.cooperative = schedule.getCooperative();
  for (auto [i, extent] : llvm::enumerate(schedule.getCluster()))
    if (i < 3)
      out.cluster[i] = extent;
  out.text.minCtasPerSm = schedule.getResidentCtas();
  out.text.sharedBytes = emission.plan.getSharedBytes();
  out.text.sharesMore = isa<moe::GemvScheduleAttr>(schedule);
  out.tile = emission.plan.getLabel();
  out.grid.persistent = schedule.getPersistent();
  if (out.grid.persistent) {
    out.grid.tiles = grid;
    out.grid.ctasPerSm = schedule.getCtasPerSm();
  } else {
    out.grid.ctas[0] = grid;
  }
}

/// Adds the field `word` if it is an operand for communication with other
/// ranks. Returns true if so.
static bool addExchange(ArgumentLayout &args, StringRef word) {
  if (word == "peers")
    args.peers(word);
  else if (word == "status")
    args.status(word);
  else if (word == StringRef(kExchangeWords))
    args.pointer(word, "unsigned long long", word, /*written=*/true);
  else if (word == StringRef(kExchangeCounter))
    args.pointer(word, "unsigned", word, /*written=*/true);
  else
    return false;
  return true;
}

/// Adds the arguments that the kind's catalog row lists.
static void addArguments(Emission &emission) {
  const moe::KernelOp kernel = emission.kernel;
  ArgumentLayout &args = emission.args();
  for (StringRef word : emission.kernel.getRow().arguments) {
    if (word == "tokens") {
      args.size(word, Expression::symbol(word));
      continue;
    }
    if (findRankOperand(word)) {
      if (takesOfRank(kernel, word))
        args.ofRank(word);
      continue;
    }
    if (addExchange(args, word))
      continue;
    const bool isStride = word.consume_back(".stride");
    const mlir::Value value = valueOf(kernel, word);
    if (value && isStride)
      args.rowStride((word + "_row_stride").str(), emission.boundTo(word));
    else if (value)
      emission.pointer(word, word == "tiles" ? "int4" : cppType(value),
                       /*written=*/isa<OpResult>(value));
  }
}

/// Adds the Config members that the kind's catalog row lists.
static void addMembers(Emission &emission) {
  const moe::KernelOp kernel = emission.kernel;
  ConfigPrinter &config = emission.config();
  for (StringRef word : emission.kernel.getRow().members) {
    if (auto [type, operand] = word.split(':'); !operand.empty()) {
      if (const mlir::Value value = valueOf(kernel, operand))
        config.type(type, cppType(value));
      continue;
    }
    auto [name, other] = word.split('=');
    Attribute fact = factOf(kernel, name);
    if (!fact)
      fact = factOf(kernel, other);
    std::string member = "k";
    member += llvm::convertToCamelFromSnakeCase(name, /*capitalizeFirst=*/true);
    if (auto flag = dyn_cast<BoolAttr>(fact))
      config.flag(member, flag.getValue());
    else
      config.number(member, cast<IntegerAttr>(fact).getInt());
  }
}

Result<EmittedKernel> compiler::emitKernel(moe::KernelOp kernel,
                                           moe::LaunchOp launch) {
  Emission emission(kernel, launch);
  if (!emission.schedule || !emission.plan)
    return invalidArgument("kernel '{}' has no plan; run "
                           "moe-select-schedule and moe-plan-launches first",
                           kernel.getSymName().str());
  beginEmission(emission,
                TRY(Expression::parse(emission.plan.getGrid().str())));
  addArguments(emission);
  addMembers(emission);
  if (const auto emit = kindOf(kernel).emit)
    emit(emission);
  emission.out.stages = stagesOf(kernel, launch, emission.args());
  return std::move(emission.out);
}
