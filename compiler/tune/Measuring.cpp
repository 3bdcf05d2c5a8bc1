//===- Measuring.cpp - jobs of the measuring process ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If the measuring process ends by signal 9 and this process did not send it,
// the system sent it because memory was exhausted.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Measuring.h"

#include "runtime/support/Files.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

bool compiler::isTransient(const Error &error) {
  return error.code == ErrorCode::FileSystem ||
         error.code == ErrorCode::NoCompiler ||
         error.code == ErrorCode::DriverFailed ||
         error.message.find("(signal 9,") != std::string::npos;
}

Measuring::Measuring(const TuneOptions &options, std::string program,
                     const std::string &folder)
    : options(options), program(std::move(program)),
      errorFile(joinPath(folder, "errors.txt")) {}

Result<void> Measuring::start() {
  if (process)
    return {};
  process.emplace(
      TRY(MeasuringProcess::start(program, options.device, errorFile)));
  warm = false;
  return {};
}

void Measuring::end() {
  process.reset();
  warm = false;
}

/// Returns the number of bytes that the processes have written to standard
/// error so far.
size_t Measuring::printed() const {
  const Result<std::string> text = readFile(errorFile);
  return text ? text->size() : 0;
}

std::string Measuring::errorsSince(size_t offset) const {
  const Result<std::string> text = readFile(errorFile);
  if (!text || text->size() <= offset)
    return "";
  constexpr size_t kMost = 600;
  std::string last = text->substr(offset);
  if (last.size() > kMost)
    last = "..." + last.substr(last.size() - kMost);
  return "; it printed: " + last;
}

ordered_json Measuring::jobOf(const std::string &package, int64_t tokens,
                              int rounds, double worse) const {
  return {
      {"package", package},   {"baseline", baseline},     {"tokens", tokens},
      {"seed", options.seed}, {"sample", options.sample}, {"rounds", rounds},
      {"worse", worse}};
}

static Error cannotMeasure(int64_t tokens, const std::string &why) {
  return {ErrorCode::DriverFailed,
          "the compiler's own choice for {} tokens cannot be measured: {}",
          tokens, why};
}

/// Lets the measuring process create the layer's weights, once per process,
/// because this takes long.
Result<void> Measuring::warmUp(int64_t tokens) {
  constexpr double kWeights = 600;
  for (int attempt = 0; !warm; ++attempt) {
    TRY(start());
    const size_t before = printed();
    const JobResult first = process->run(jobOf(baseline, tokens, 1, 0),
                                         kWeights + options.deadline);
    if (first.answer && (*first.answer)->value("ok", false)) {
      warm = true;
      break;
    }
    const std::string why = first.answer
                                ? (*first.answer)->value("text", std::string())
                            : first.hung ? std::string("it does not end")
                                         : first.ended;
    end();
    if (attempt > 0)
      return cannotMeasure(tokens, why + errorsSince(before));
  }
  return {};
}

Result<JobOutcome> Measuring::once(const std::string &folder, int64_t tokens,
                                   int rounds, double worse) {
  TRY(warmUp(tokens));
  const size_t before = printed();
  const JobResult result =
      process->run(jobOf(folder, tokens, rounds, worse), options.deadline);
  JobOutcome made;
  if (result.answer && (*result.answer)->value("ok", false)) {
    made.ok = true;
    for (const char *name : {"us", "baseline_us", "noise", "rounds", "check"})
      made.answer[name] = (*result.answer)->value(name, nlohmann::json());
    return made;
  }
  std::string kind = "ended", text;
  if (result.answer) {
    kind = (*result.answer)->value("kind", "refused");
    text = (*result.answer)->value("text", std::string());
    made.transient = kind == "transient" || kind == "baseline";
  } else if (result.hung) {
    kind = "hang";
    text = fmt::format("it did not end within {} s", options.deadline);
  } else {
    text = fmt::format("no answer came of the process that measured it ({})",
                       result.ended);
    made.transient = result.ended.starts_with("signal 9,");
  }
  if (!result.answer || kind == "fault" || made.transient) {
    text += errorsSince(before);
    end();
  }
  *made.answer = {{"kind", kind}, {"text", text}};
  return made;
}

Result<JobOutcome> Measuring::measure(const std::string &folder, int64_t tokens,
                                      int rounds, double worse) {
  JobOutcome made = TRY(once(folder, tokens, rounds, worse));
  if (made.transient)
    made = TRY(once(folder, tokens, rounds, worse));
  if (made.answer->value("kind", "") == "baseline")
    return cannotMeasure(tokens, made.answer->value("text", ""));
  return made;
}
