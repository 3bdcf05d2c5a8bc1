//===- Measure.h - checks and times packages for a tuner --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tuner compiles packages of one layer that differ in schedules. Each is
// compared with the reference on random inputs, then timed in turns with
// another package, whole layers in a graph on weights that are not in the L2
// cache. All share the weights of the first.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECMEASURE_MEASURE_H
#define MOEC_TOOLS_MOECMEASURE_MEASURE_H

#include "tools/moec-run/CompareWithReference.h"
#include "tools/moec-run/LoadedLayer.h"
#include "tools/moec-run/RunBuffers.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <optional>

namespace moec::measure {

/// One line of the tuner.
struct Job {
  std::string package, baseline; ///< folders; the same: nothing to compare with
  int64_t tokens = 1;
  uint64_t seed = 1;   ///< of the inputs that are checked
  int64_t sample = 16; ///< tokens that are compared
  int rounds = 5;      ///< timings of each, in turns
  double worse = 0;    ///< one round suffices for what is so much slower; 0: no

  static Result<Job> parse(const std::string &line);
};

/// The result: `us` and the rest, or a kind of failure and its words.
struct Answer {
  bool ok = false;
  double us = 0, baselineUs = 0;
  double noise = 0; ///< relative, of the turns' ratios
  int rounds = 0;
  std::string check; ///< the reference's words
  std::string kind;  ///< wrong, refused, fault, transient or baseline
  std::string text;

  std::string print() const;
};

/// Returns the kind of an answer for a job that ended with `error`. A lack of
/// memory and a file that cannot be read say nothing of a schedule: transient.
/// A failure of the driver is a fault, and all else is `otherwise`.
std::string kindOf(const Error &error, const std::string &otherwise);

class Measurer {
public:
  Measurer(const tools::Device &device, runtime::DeviceKind kind)
      : device(device) {
    options.device = kind;
    options.program = "moec-measure";
  }

  Answer measure(const Job &job);

private:
  /// A package with its memory for one token count.
  struct Loaded {
    std::unique_ptr<run::LoadedLayer> layer;
    run::RunBuffers buffers;
    int64_t tokens = 0;
  };

  Result<std::unique_ptr<run::LoadedLayer>> load(const std::string &folder);
  Result<void> prepareInputs(int64_t tokens);
  Result<void> check(const Job &job, run::LoadedLayer &layer, Answer &answer);
  Result<void> time(const Job &job, Loaded &candidate, Answer &answer);
  Result<double> once(Loaded &loaded);

  const tools::Device &device;
  run::Options options;
  run::HostWeights weights;
  /// Holds the weights of all others.
  std::unique_ptr<run::LoadedLayer> owner;
  std::string baselineFolder;
  std::optional<Loaded> baseline;
  /// Each layer of a graph has its own.
  std::vector<run::DeviceInputs> inputs;
  int64_t inputsTokens = 0;
  /// By tokens and seed; the reference takes longer than all else.
  std::map<std::pair<int64_t, uint64_t>, run::KeptRows> keptRows;
};

} // namespace moec::measure

#endif // MOEC_TOOLS_MOECMEASURE_MEASURE_H
