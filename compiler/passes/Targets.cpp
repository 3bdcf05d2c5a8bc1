//===- Targets.cpp - targets, and errors for rejected layers --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements functions that Passes.h declares.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace moec;

FailureOr<SmallVector<moe::TargetAttr>>
compiler::targetsOf(Location location, ArrayRef<std::string> archs,
                    StringRef gpu) {
  const catalog::Gpu *gpuRow = nullptr;
  if (!gpu.empty()) {
    gpuRow = catalog::find(catalog::kGpus, gpu);
    if (!gpuRow)
      return emitError(location)
             << "unknown GPU '" << gpu
             << "'; known: " << catalog::names(catalog::kGpus);
  }
  SmallVector<moe::TargetAttr> targets;
  bool isUsed = false;
  for (const std::string &arch : archs) {
    const catalog::Architecture *row =
        catalog::find(catalog::kArchitectures, arch);
    if (!row)
      return emitError(location)
             << "unknown arch '" << arch
             << "'; known: " << catalog::names(catalog::kArchitectures);
    std::string_view assumed = row->gpu;
    if (gpuRow) {
      const catalog::Architecture &device =
          *catalog::find(catalog::kArchitectures, gpuRow->arch);
      if (catalog::runsOn(*row, device.major, device.minor)) {
        assumed = gpuRow->name;
        isUsed = true;
      }
    }
    auto target = moe::TargetAttr::get(location.getContext(), StringRef(arch),
                                       StringRef(assumed));
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  }
  if (gpuRow && !archs.empty() && !isUsed)
    return emitError(location)
           << "GPU '" << gpu << "' is " << gpuRow->arch
           << " and runs code for none of the requested archs: "
           << llvm::join(archs, ", ") << "; expected arch " << gpuRow->arch
           << ", or a GPU that runs one of them (`moec list gpus`)";
  return targets;
}

bool compiler::hasProgram(moe::LayerOp layer) {
  auto module = layer->getParentOfType<ModuleOp>();
  return llvm::any_of(module.getOps<moe::ProgramOp>(),
                      [&](moe::ProgramOp program) {
                        return program.getLayer() == layer.getSymName();
                      });
}

static LogicalResult refuseAt(Location location, StringRef layer,
                              StringRef code, const Twine &reason) {
  return emitError(location)
         << "layer @" << layer << " refused [" << code << "]: " << reason;
}

LogicalResult compiler::refuse(moe::LayerOp layer, StringRef code,
                               const Twine &reason) {
  return refuseAt(layer.getLoc(), layer.getSymName(), code, reason);
}

LogicalResult compiler::refuse(moe::ProgramOp program, StringRef code,
                               const Twine &reason) {
  return refuseAt(program.getLoc(), program.getLayer(), code, reason);
}
