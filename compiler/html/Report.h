//===- Report.h - the report that a page shows ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The output of `moec explain --json` as structs. They have the fields that the
// page shows. A page depends only on this output.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_REPORT_H
#define MOEC_COMPILER_HTML_REPORT_H

#include "runtime/support/Json.h"
#include "runtime/support/Result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler::html {

struct Refusal {
  std::string backend, engine, code, reason;
};

/// A candidate of the resolver. `state` is "chosen", "refused" or
/// "would_serve".
struct Realization {
  std::string realization, computed, backend, engine, state, code, reason;
};

/// An option with which the user forced or excluded candidates. `by` is
/// "option" or the name of an environment variable.
struct Choice {
  std::string option, value, by;
};

struct Weight {
  std::string name, role, mayAlias;
  std::optional<int64_t> bytes;
};

/// A workspace value. Its offset and size are those in the variant's largest
/// run.
struct Buffer {
  std::string name;
  int64_t offset = 0, bytes = 0;
  /// First and last launch that use the value, inclusive.
  int64_t first = 0, last = 0;
};

/// The main work of a kernel. It determines the kernel's color; classOf()
/// returns the class in page.css.
enum class Work { Route, Quantize, GateUp, Down, Combine, Other };
std::string_view classOf(Work work);

struct Kernel {
  std::string name, entry, kind, engine, grid, apart;
  std::string source; ///< source of the schedule: tuned, modelled or default
  /// The texts of kMeasuredBy and kMeasuredBeside
  /// (compiler/plan/MatmulProblems.h).
  std::string measuredBy, measuredBeside;
  std::vector<std::string> stages, reads, writes;
  std::vector<int64_t> tile, cluster;
  int64_t columns = 0, pipelineStages = 0, blockTokens = 0;
  int64_t threads = 0, ctasPerSm = 0, sharedBytes = 0;
  /// Warp layout: "4x2" for a grid of warps, "4+8" for producer and consumer
  /// warps.
  std::string warps;
  bool swap = false, persistent = false, early = false, counts = false;
  int64_t awaits = 0, splitTiles = 0;
  Work work = Work::Other;
};

struct KernelPrediction {
  std::string kernel, bound;
  double microseconds = 0, bytes = 0, flops = 0;
};

/// A group of experts with equal probability. Row counts are means per expert.
struct ExpertGroup {
  double experts = 0, rows = 0;
  /// Rows, including padding, in the expert's tiles in the first matmul.
  double tileRows = 0;
};

struct Prediction {
  int64_t tokens = 0;
  double microseconds = 0;
  double touchedExperts = 0, mostRows = 0, padding = 0;
  /// Most frequent experts first; may be empty.
  std::vector<ExpertGroup> experts;
  std::vector<KernelPrediction> kernels;
};

struct Variant {
  std::string name, workspace;
  int64_t firstTokens = 0, lastTokens = 0, minSms = 0;
  std::optional<int64_t> workspaceBytes;
  std::vector<Kernel> kernels;
  std::vector<Buffer> buffers;
  std::vector<Prediction> predictions; ///< ascending by tokens
};

struct Hardware {
  std::string gpu;
  double bandwidth = 0; ///< in GB/s
  /// TFLOP/s by operand type, such as "16_bit".
  std::map<std::string, double> rates;
  int64_t sms = 0;
};

struct Target {
  std::string arch, gpu, backend, engine, degraded, realization, part, since;
  std::string evidence, histogram;
  std::optional<Hardware> hardware;
  std::vector<Refusal> refused;
  /// Candidates in order of preference; may be empty.
  std::vector<Realization> realizations;
  std::vector<Choice> choices;
  std::vector<Weight> weights;
  std::vector<Variant> variants;
  std::string scheme;
  int64_t weightBytes = 0;
  /// Workspace sizes as pairs of token count and bytes.
  std::vector<std::pair<int64_t, int64_t>> workspaces;
};

/// Another report whose times the page shows next to this report's times.
struct Compared {
  std::string name; ///< name that the caller specified
  BoxedJson layer;
  std::vector<Target> targets;
};

struct Report {
  std::string name, scheme, message;
  bool served = false;
  int64_t maxTokens = 0;
  std::vector<int64_t> ranks; ///< ranks that the package is for
  BoxedJson layer;            ///< JSON object; empty if the layer was rejected
  std::vector<Target> targets;
  std::vector<Compared> compared;
};

/// Reads a report. Errors name the field, the expected value and the actual
/// value.
Result<Report> readReport(std::string_view text);

/// Returns a kernel's name without the prefix that is the name of a variant,
/// such as "gate_up". A kernel that several variants share has one of their
/// names as its prefix.
std::string shortName(std::string_view kernel, const Target &target);

/// Returns the TFLOP/s of the tensor cores for the layer's matmul operands, or
/// 0 if unknown.
double matmulRate(const nlohmann::json &layer, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_REPORT_H
