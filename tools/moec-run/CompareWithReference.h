//===- CompareWithReference.h - outputs against the reference ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Routing and rows of a run are held against test/reference. Where the engine's
// sums leave the rounding of the intermediate open, the output's is taken.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_COMPAREWITHREFERENCE_H
#define MOEC_TOOLS_MOECRUN_COMPAREWITHREFERENCE_H

#include "test/reference/Check.h"
#include "test/reference/Rounding.h"
#include "tools/moec-run/RunBuffers.h"

#include <optional>

namespace moec::run {

/// The result of a token count and a routing pattern.
struct CaseResult {
  int64_t tokens = 0;
  std::string variant, routing, inputs;
  bool passed = true;
  double bound = 0, error = 0, worstRow = 0, worstElement = 0;
  /// Roundings of the intermediate that may go either way, and those that went
  /// otherwise than the reference's; looked for only where a rule fails.
  int64_t roundings = 0, roundingsTaken = 0;
  std::string text;  ///< the check's words; "" without a check
  std::string twice; ///< "identical", what differs, or "" if not run
  std::optional<double> medianMicroseconds;

  /// Notes a failed check.
  void fail(const std::string &why);
};

/// How a variant's kernels treat the sums.
struct Precision {
  /// The second matmul's results are rounded to the output type before they
  /// are summed.
  bool roundsPartials = false;
  /// How far sums of the first matmul may be off where its engine keeps fewer
  /// bits than f32 (see test/reference/Rounding.h); 0 elsewhere, on the host
  /// device too.
  double errorOfSums = 0;

  static Precision of(const LoadedLayer &layer, const Variant &variant);
};

/// Says in a report what adoptRoundings did before it.
void noteRoundings(const reference::Adopted &adopted, reference::Report &report,
                   CaseResult &result);

/// Puts the device's router weights into `routing` if they multiply x. They are
/// as right as the reference's, and their last bit decides every tie between
/// two quantized values.
void adoptWeights(const reference::Layer &layer, const HostOutputs &outputs,
                  reference::Routing &routing);

/// A run of no tokens: every output is as it was.
void checkUntouched(const HostOutputs &outputs, CaseResult &result);

/// If rows come by expert, slots that are not taken must be as they were
/// (unless `poison` is false); in `outputs` they become zeros.
void settleRows(const reference::Layer &layer, const reference::Inputs &inputs,
                bool poison, HostOutputs &outputs, CaseResult &result);

/// The reference's rows of one layer, its weights and inputs, for several
/// packages that are compared on them.
struct KeptRows {
  std::vector<int32_t> ids; ///< of the routing
  std::vector<float> weights;
  std::vector<int64_t> list; ///< of the sampled tokens
  std::vector<double> rows;
};

/// Compares with the reference, on a GPU `sample` tokens. `inputs` holds the
/// weights too. Takes the rows of `kept`, which may be null, where routing and
/// tokens are theirs, and keeps others there.
Result<void> compareWithReference(const LoadedLayer &layer,
                                  const reference::Inputs &inputs,
                                  const HostOutputs &outputs,
                                  const Precision &precision,
                                  const Options &options, KeptRows *kept,
                                  CaseResult &result);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_COMPAREWITHREFERENCE_H
