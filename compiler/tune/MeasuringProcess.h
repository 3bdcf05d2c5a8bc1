//===- MeasuringProcess.h - a process that measures packages -- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program moec-measure, which owns the device. It reads one job per line
// and writes one answer per line. A process that hangs or ends costs only one
// job: it is killed, and the next job starts another process.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_MEASURINGPROCESS_H
#define MOEC_COMPILER_TUNE_MEASURINGPROCESS_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Json.h"
#include "runtime/support/Result.h"

#include <optional>
#include <string>

#include <sys/types.h>

namespace moec::compiler {

/// Returns the path of moec-measure: the environment variable MOEC_MEASURE, or
/// else the program next to this binary, in the same folders as moec-nvrtc.
Result<std::string> findMeasure();

/// The result of a job.
struct JobResult {
  std::optional<BoxedJson> answer; ///< a JSON object, if the process answered
  bool hung = false;               ///< it did not answer in time and was killed
  std::string ended;               ///< reason, if the process has ended
};

class MeasuringProcess {
public:
  /// Starts the process. It belongs to the calling thread and ends with that
  /// thread.
  static Result<MeasuringProcess> start(const std::string &program,
                                        const std::string &device,
                                        const std::string &errorFile);
  ~MeasuringProcess();
  MeasuringProcess(MeasuringProcess &&other) noexcept;
  MeasuringProcess &operator=(MeasuringProcess &&) = delete;

  const std::string &deviceName() const { return device; }
  /// Sends a job and waits at most `seconds` for the answer. If there is no
  /// answer, the process is ended.
  JobResult run(const nlohmann::ordered_json &job, double seconds);

private:
  MeasuringProcess(pid_t process, Descriptor socket)
      : process(process), socket(std::move(socket)) {}
  /// Reads the next line, "" if none arrives in time. Returns false if the
  /// process closed the connection.
  bool readLine(double seconds, std::string &line);
  std::string end(bool kill);

  pid_t process;
  Descriptor socket;
  std::string device, pending;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_MEASURINGPROCESS_H
