//===- RunBuffers.h - buffers that one run writes ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Outputs, workspace and context of a run, and copies of the outputs on the
// host.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_RUNBUFFERS_H
#define MOEC_TOOLS_MOECRUN_RUNBUFFERS_H

#include "tools/moec-run/LoadedLayer.h"

namespace moec::run {

/// The buffers of one run.
struct RunBuffers {
  DeviceOutputs outputs;
  GuardedBuffer workspace;
  std::unique_ptr<runtime::Context> context;

  static Result<RunBuffers> create(LoadedLayer &layer, int64_t tokens);
};

/// Output arrays on the host, by name.
using HostOutputs = std::map<std::string, HostArray>;

Result<HostOutputs> download(const DeviceOutputs &outputs);
/// Runs the layer, waits for its end and returns the outputs. runIn() uses
/// `buffers`, and runOnce() temporary buffers. If `variant` is "", the variant
/// is chosen by the token count.
Result<HostOutputs> runIn(LoadedLayer &layer, const RunBuffers &buffers,
                          const DeviceInputs &inputs, int64_t tokens,
                          const std::string &variant);
Result<HostOutputs> runOnce(LoadedLayer &layer, const DeviceInputs &inputs,
                            int64_t tokens, const std::string &variant);

/// Returns the elements of output `name`, or null if there is no such output.
template <typename T>
const T *find(const HostOutputs &outputs, const char *name) {
  const auto it = outputs.find(name);
  return it == outputs.end()
             ? nullptr
             : reinterpret_cast<const T *>(it->second.data.get());
}

/// Describes the first output that differs from `first` and its position, or
/// returns "".
std::string differing(const HostOutputs &first, const HostOutputs &second);

/// Computes "out" from "partials", "positions" and "weights" if the layer
/// leaves the weighted sum over experts to its caller. The sum is accumulated
/// in f32 in the order of k and rounded once.
void finishDeferred(const reference::Layer &layer, int64_t tokens,
                    HostOutputs &outputs);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNBUFFERS_H
