//===- Place.h - the memory of one run --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Outputs, workspace and context; what a run left there, on the host.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_PLACE_H
#define MOEC_RUNTIME_TOOLS_RUN_PLACE_H

#include "runtime/tools/run/Judge.h"

namespace moec::run {

struct Place {
  DeviceOutputs outputs;
  Guarded workspace;
  std::unique_ptr<runtime::Context> context;

  static Result<Place> create(Session &session, int64_t tokens);
};

/// Outputs on the host, by name.
using HostOutputs = std::map<std::string, HostArray>;

Result<HostOutputs> download(const DeviceOutputs &outputs);
/// What a run gives, in memory of its own or in `place`; waits for all.
Result<HostOutputs> runOnce(Bench &bench, const DeviceInputs &inputs,
                            int64_t tokens);
Result<HostOutputs> runIn(Bench &bench, const Place &place,
                          const DeviceInputs &inputs, int64_t tokens);

/// Which output differs from `first` and where, or "".
std::string differing(const HostOutputs &first, const HostOutputs &second);

/// A failed check is noted in the result.
void failWith(CaseResult &result, const std::string &text);

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_PLACE_H
