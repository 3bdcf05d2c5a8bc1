//===- CompareWithReference.h - outputs against the reference ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the routing and the rows of a run with test/reference. If the
// rounding of an intermediate value depends on the accumulators of the engine,
// the rounding of the output is accepted.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_COMPAREWITHREFERENCE_H
#define MOEC_TOOLS_MOECRUN_COMPAREWITHREFERENCE_H

#include "test/reference/Check.h"
#include "test/reference/Rounding.h"
#include "tools/moec-run/RunBuffers.h"

#include <optional>

namespace moec::run {

/// The result of one token count and routing pattern.
struct CaseResult {
  int64_t tokens = 0;
  std::string variant, routing, inputs;
  bool passed = true;
  double bound = 0, error = 0, worstRow = 0, worstElement = 0;
  /// `roundings`: number of intermediate values that may round either way.
  /// `roundingsTaken`: number of those values that take the output's rounding
  /// instead of the reference's. Both are computed only if a rule fails.
  int64_t roundings = 0, roundingsTaken = 0;
  std::string text;  ///< the message of the check; "" without a check
  std::string twice; ///< "identical", the difference, or "" if not run
  std::optional<double> medianMicroseconds;

  /// Marks the case as failed, with the reason.
  void fail(const std::string &why);
};

/// The precision of the sums that a variant accumulates.
struct Precision {
  /// The results of the second matmul are rounded to the output type before
  /// they are combined.
  bool roundsPartials = false;
  /// Relative error of the first matmul's accumulators (see
  /// test/reference/Rounding.h); 0 if fast accumulation has its own bound.
  double errorOfSums = 0;

  static Precision of(const LoadedLayer &layer, const Variant &variant);
};

/// Appends the result of adoptRoundings() to the report and to `result`.
void noteRoundings(const reference::Adopted &adopted, reference::Report &report,
                   CaseResult &result);

/// If the router weights multiply x, replaces the reference's weights in
/// `routing` by the device's weights. Both are equally correct, but their last
/// bit decides to which of two neighboring quantized values a product is
/// rounded.
void adoptWeights(const reference::Layer &layer, const HostOutputs &outputs,
                  reference::Routing &routing);

/// Checks after a run of 0 tokens that no output was written.
void checkUntouched(const HostOutputs &outputs, CaseResult &result);

/// Checks for rows in batched format that unused slots were not written, unless
/// `poison` is false. Fills these slots of `outputs` with zeros.
void settleRows(const reference::Layer &layer, const reference::Inputs &inputs,
                bool poison, HostOutputs &outputs, CaseResult &result);

/// The reference's rows for one layer, its weights and inputs. Packages that
/// are compared on the same inputs share them.
struct KeptRows {
  std::vector<int32_t> ids; ///< expert ids of the routing
  std::vector<float> weights;
  std::vector<int64_t> list; ///< indices of the sampled tokens
  std::vector<double> rows;
};

/// Compares the outputs with the reference; on a GPU, only `sample` tokens are
/// compared. `inputs` also holds the weights. `kept` may be null. If the
/// routing and tokens in `kept` match, `kept` provides the reference's rows.
/// Otherwise the computed rows are stored in `kept`.
Result<void> compareWithReference(const LoadedLayer &layer,
                                  const reference::Inputs &inputs,
                                  const HostOutputs &outputs,
                                  const Precision &precision,
                                  const Options &options, KeptRows *kept,
                                  CaseResult &result);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_COMPAREWITHREFERENCE_H
