//===- RunBuffers.h - what one run writes -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Outputs, workspace and context; what a run left there, on the host.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_RUNBUFFERS_H
#define MOEC_TOOLS_MOECRUN_RUNBUFFERS_H

#include "tools/moec-run/LoadedLayer.h"

namespace moec::run {

struct RunBuffers {
  DeviceOutputs outputs;
  GuardedBuffer workspace;
  std::unique_ptr<runtime::Context> context;

  static Result<RunBuffers> create(LoadedLayer &layer, int64_t tokens);
};

/// Outputs on the host, by name.
using HostOutputs = std::map<std::string, HostArray>;

Result<HostOutputs> download(const DeviceOutputs &outputs);
/// Runs in `buffers`, or in memory of its own, and waits. "" takes the variant
/// of the token count.
Result<HostOutputs> runIn(LoadedLayer &layer, const RunBuffers &buffers,
                          const DeviceInputs &inputs, int64_t tokens,
                          const std::string &variant);
Result<HostOutputs> runOnce(LoadedLayer &layer, const DeviceInputs &inputs,
                            int64_t tokens, const std::string &variant);

/// The elements of output `name`; null if there is no such output.
template <typename T>
const T *find(const HostOutputs &outputs, const char *name) {
  const auto it = outputs.find(name);
  return it == outputs.end()
             ? nullptr
             : reinterpret_cast<const T *>(it->second.data.get());
}

/// Which output differs from `first` and where, or "".
std::string differing(const HostOutputs &first, const HostOutputs &second);

/// Makes "out" of "partials", "positions" and "weights" where a layer leaves
/// the last step to its caller: sums in f32 in the order of k, rounded once.
void finishDeferred(const reference::Layer &layer, int64_t tokens,
                    HostOutputs &outputs);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNBUFFERS_H
