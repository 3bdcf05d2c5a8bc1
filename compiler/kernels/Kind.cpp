//===- Kind.cpp - rules of one kind of kernel -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"

#include <fmt/core.h>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

llvm::ArrayRef<const Kind *> compiler::allKinds() {
  static constexpr const Kind *all[] = {
#define MOEC_KERNEL(name) &kernels::name,
#include "compiler/kernels/Kinds.inc"
#undef MOEC_KERNEL
  };
  return all;
}

const Kind &compiler::kindOf(moe::KernelOp kernel) {
  for (const Kind *kind : allKinds())
    if (kind->names.words.contains(kernel.getKind()))
      return *kind;
  static constexpr Kind none = {.names = ""};
  return none;
}

std::optional<Hardware> compiler::findHardware(moe::KernelOp kernel) {
  moe::TargetAttr target =
      kernel->getParentOfType<moe::ProgramOp>().getTarget();
  Hardware hardware;
  if (!findHardware(target.getArch().str(), target.getGpu().str(), hardware))
    return std::nullopt;
  return hardware;
}

FailureOr<Hardware> compiler::hardwareOf(moe::KernelOp kernel) {
  if (const std::optional<Hardware> hardware = findHardware(kernel))
    return *hardware;
  return kernel.emitError()
         << "no hardware is known for "
         << kernel->getParentOfType<moe::ProgramOp>().getTarget();
}

moe::ScheduleAttr compiler::blockSchedule(moe::KernelOp kernel,
                                          int64_t threads) {
  BlockSchedule fields;
  fields.threads = threads;
  return scheduleAttr<moe::BlockScheduleAttr>(
      kernel->getParentOfType<moe::ProgramOp>(), fields);
}

std::string compiler::tileLabel(moe::ScheduleAttr schedule) {
  const Schedule &s = *schedule.getMatmul();
  return fmt::format("{}x{}x{}", s.tileM, s.tileN, s.tileK);
}
