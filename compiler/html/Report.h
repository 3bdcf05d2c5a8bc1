//===- Report.h - the report that a page is drawn from ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The JSON of `moec explain --json` as structs: the fields that the page
// shows. A page is a function of that text, wherever it comes from.
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

/// A candidate in its place: chosen, refused, or one that would serve.
struct Realization {
  std::string realization, computed, backend, engine, state, code, reason;
};

/// An option that forced or excluded something, its value, and who gave it.
struct Choice {
  std::string option, value, by;
};

struct Weight {
  std::string name, role, mayAlias;
  std::optional<int64_t> bytes;
};

/// A value of the workspace, in the largest run of its variant.
struct Buffer {
  std::string name;
  int64_t offset = 0, bytes = 0;
  int64_t first = 0, last = 0; ///< launches, inclusive
};

/// The larger part of a kernel's work; a class of page.css colors it.
enum class Work { Route, Quantize, GateUp, Down, Combine, Other };
std::string_view classOf(Work work);

struct Kernel {
  std::string name, entry, kind, engine, grid, apart;
  std::string source;                     ///< of the schedule
  std::string measuredBy, measuredBeside; ///< rows that serve, and do not
  std::vector<std::string> stages, reads, writes;
  std::vector<int64_t> tile, cluster;
  int64_t columns = 0, pipelineStages = 0, blockTokens = 0;
  int64_t threads = 0, ctasPerSm = 0, sharedBytes = 0;
  std::string warps; ///< "4x2", or "4+8" of producers and consumers
  bool swap = false, persistent = false, early = false, counts = false;
  int64_t awaits = 0, splitTiles = 0;
  Work work = Work::Other;
};

struct KernelPrediction {
  std::string kernel, bound;
  double microseconds = 0, bytes = 0, flops = 0;
};

/// Experts that are chosen equally often; rows of one of them, on average.
struct ExpertGroup {
  double experts = 0, rows = 0;
  double tileRows = 0; ///< that tiles of the first matmul have for these
};

struct Prediction {
  int64_t tokens = 0;
  double microseconds = 0;
  double touchedExperts = 0, mostRows = 0, padding = 0;
  std::vector<ExpertGroup> experts; ///< the most chosen first; may be absent
  std::vector<KernelPrediction> kernels;
};

struct Variant {
  std::string name, workspace;
  int64_t firstTokens = 0, lastTokens = 0, minSms = 0;
  std::optional<int64_t> workspaceBytes;
  std::vector<Kernel> kernels;
  std::vector<Buffer> buffers;
  std::vector<Prediction> predictions; ///< ascending in tokens
};

struct Hardware {
  std::string gpu;
  double bandwidth = 0;                ///< GB/s
  std::map<std::string, double> rates; ///< TFLOP/s by operand
  int64_t sms = 0;
};

struct Target {
  std::string arch, gpu, backend, engine, degraded, realization, part, since;
  std::string evidence, histogram;
  std::optional<Hardware> hardware;
  std::vector<Refusal> refused;
  std::vector<Realization> realizations; ///< in their order; may be absent
  std::vector<Choice> choices;
  std::vector<Weight> weights;
  std::vector<Variant> variants;
  std::string scheme;
  int64_t weightBytes = 0;
  std::vector<std::pair<int64_t, int64_t>> workspaces; ///< tokens, bytes
};

/// A second report, whose times the page compares with this one's.
struct Compared {
  std::string name; ///< that the caller gave
  BoxedJson layer;
  std::vector<Target> targets;
};

struct Report {
  std::string name, scheme, message;
  bool served = false;
  int64_t maxTokens = 0;
  std::vector<int64_t> ranks; ///< that the package is for
  BoxedJson layer;            ///< an object; empty of a layer that is refused
  std::vector<Target> targets;
  std::vector<Compared> compared;
};

/// Errors name the field: what was expected, and what came.
Result<Report> readReport(std::string_view text);

/// A kernel's name without its variant's, "gate_up" say. A kernel that several
/// variants share has the name of one of them.
std::string shortName(std::string_view kernel, const Target &target);

/// The TFLOP/s that bound the layer's matmuls; 0 where none is known.
double matmulRate(const nlohmann::json &layer, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_REPORT_H
