//===- PackStep.h - one step of a pack stage --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_PACKSTEP_H
#define MOEC_RUNTIME_HOST_PACKSTEP_H

#include "runtime/host/KernelRun.h"

namespace moec::host {

/// The experts [firstExpert, lastExpert()) that one step packs. Each expert's
/// weight has [rows, columns] elements.
struct PackStep {
  int64_t rows = 0, columns = 0, firstExpert = 0, experts = 0;
  int64_t lastExpert() const { return firstExpert + experts; }
  static Result<PackStep> of(KernelRun &run);
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_PACKSTEP_H
