//===- Measure.h - checks and times packages --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tuner compiles packages of one layer that differ in schedules. Each package
// is compared with the reference on random inputs, and then timed in
// alternation with another package (the baseline). A timing replays a CUDA
// graph of whole layers that read more weights than the L2 cache holds. All
// packages share the weights of the first package.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECMEASURE_MEASURE_H
#define MOEC_TOOLS_MOECMEASURE_MEASURE_H

#include "tools/moec-run/CompareWithReference.h"
#include "tools/moec-run/LoadedLayer.h"
#include "tools/moec-run/RunBuffers.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace moec::measure {

/// A measurement that the tuner requests, one JSON line.
struct Job {
  std::string package, baseline; ///< package folders; equal: the baseline
                                 ///< itself is measured
  int64_t tokens = 1;
  uint64_t seed = 1;   ///< seed of the inputs for the check
  int64_t sample = 16; ///< number of tokens that are compared
  int rounds = 5;      ///< timings of each package, in alternation
  /// If the ratio of the first round (package time over baseline time) is above
  /// this value, no further round follows; 0: never.
  double worse = 0;

  static Result<Job> parse(const std::string &line);
};

/// The result: the times, or a kind of failure and its message.
struct Answer {
  bool ok = false;
  double us = 0, baselineUs = 0;
  /// The median of |r / m - 1| over the rounds: r is a round's time / baseline
  /// time, and m is the median of r.
  double noise = 0;
  int rounds = 0;
  std::string check; ///< the message of the reference's check
  std::string kind;  ///< "wrong", "refused", "fault", "transient" or "baseline"
  std::string text;

  /// Returns the answer as one JSON line.
  std::string print() const;
};

/// Returns the kind of failure for a job that ended with `error`. Out of memory
/// and an unreadable file do not depend on the schedule: "transient". A driver
/// failure is "fault". All other errors are `otherwise`.
std::string kindOf(const Error &error, const std::string &otherwise);

/// Times a package and its baseline in alternation [microseconds] and writes
/// the times, the noise and the number of rounds to `answer`. The baseline is
/// first in even rounds.
Result<void> timeRounds(const Job &job,
                        const std::function<Result<double>()> &timeBaseline,
                        const std::function<Result<double>()> &timePackage,
                        Answer &answer);

/// Returns the number of layers that a graph of a GPU times, each with its own
/// inputs, so that they read more weights than any L2 cache holds.
int numTimedLayers(const reference::Layer &layer, int64_t tokens);

/// Measures packages on one device.
class Measurer {
public:
  Measurer(const tools::Device &device, runtime::DeviceKind kind)
      : device(device) {
    options.device = kind;
    options.program = "moec-measure";
  }

  Answer measure(const Job &job);

private:
  /// A package with its buffers for one token count.
  struct Loaded {
    std::unique_ptr<run::LoadedLayer> layer;
    run::RunBuffers buffers;
    int64_t tokens = 0;
  };

  Result<std::unique_ptr<run::LoadedLayer>> load(const std::string &folder);
  Result<void> prepareInputs(int64_t tokens);
  Result<void> check(const Job &job, run::LoadedLayer &layer, Answer &answer);
  Result<double> once(Loaded &loaded);

  const tools::Device &device;
  run::Options options;
  run::HostWeights weights;
  /// The layer that owns the weights of all packages.
  std::unique_ptr<run::LoadedLayer> owner;
  std::string baselineFolder;
  std::optional<Loaded> baseline;
  /// The inputs of the timed layers; each layer of a graph has its own.
  std::vector<run::DeviceInputs> inputs;
  int64_t inputsTokens = 0;
  /// The reference's rows by tokens and seed. They are kept because computing
  /// them takes longer than everything else.
  std::map<std::pair<int64_t, uint64_t>, run::KeptRows> keptRows;
};

} // namespace moec::measure

#endif // MOEC_TOOLS_MOECMEASURE_MEASURE_H
