//===- Timing.h - times of what a stream's launches take --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches are captured into graphs, so that the host's own time is none of
// theirs. Times are microseconds.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_TIMING_H
#define MOEC_TEST_TEMPLATES_TIMING_H

#include "test/templates/Harness.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace harness {

inline double medianOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// A stream, and a clock of what runs on it.
class Timer {
public:
  /// Of a stream of its own.
  Timer() {
    CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    makeEvents();
  }
  explicit Timer(CUstream stream) : stream(stream) { makeEvents(); }
  Timer(const Timer &) = delete;
  ~Timer() {
    cuEventDestroy(begin);
    cuEventDestroy(end);
  }

  /// What `record` launches on the stream; the caller destroys it.
  CUgraphExec capture(const std::function<void()> &record) const {
    CUgraph graph;
    CUgraphExec exec;
    CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    record();
    CHECK_CUDA(cuStreamEndCapture(stream, &graph));
    CHECK_CUDA(cuGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cuGraphDestroy(graph));
    return exec;
  }

  double replay(CUgraphExec exec) const {
    float milliseconds;
    CHECK_CUDA(cuEventRecord(begin, stream));
    CHECK_CUDA(cuGraphLaunch(exec, stream));
    CHECK_CUDA(cuEventRecord(end, stream));
    CHECK_CUDA(cuEventSynchronize(end));
    CHECK_CUDA(cuEventElapsedTime(&milliseconds, begin, end));
    return milliseconds * 1000.0;
  }

  /// The median replay of each way, one after the other `repeats` times, so
  /// that clocks that change meet all of them; those of the first `warmups`
  /// rounds do not count.
  std::vector<double>
  mediansInTurns(const std::vector<std::function<void()>> &ways, int warmups,
                 int repeats) const {
    std::vector<CUgraphExec> graphs;
    for (const auto &record : ways)
      graphs.push_back(capture(record));
    std::vector<std::vector<double>> times(ways.size());
    for (int i = -warmups; i < repeats; ++i)
      for (size_t way = 0; way < graphs.size(); ++way) {
        double time = replay(graphs[way]);
        if (i >= 0)
          times[way].push_back(time);
      }
    std::vector<double> medians;
    for (size_t way = 0; way < graphs.size(); ++way) {
      medians.push_back(medianOf(times[way]));
      CHECK_CUDA(cuGraphExecDestroy(graphs[way]));
    }
    return medians;
  }
  double median(const std::function<void()> &record, int warmups,
                int repeats) const {
    return mediansInTurns({record}, warmups, repeats).front();
  }

  CUstream stream;

private:
  void makeEvents() {
    CHECK_CUDA(cuEventCreate(&begin, 0));
    CHECK_CUDA(cuEventCreate(&end, 0));
  }
  CUevent begin, end;
};

} // namespace harness

#endif // MOEC_TEST_TEMPLATES_TIMING_H
