//===- MeasuringProcess.h - a process that measures packages -- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program moec-measure, which has the device. It gets a job a line and
// gives an answer a line. One that hangs or ends costs one job: it is killed,
// and the next job starts another.
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

/// moec-measure: MOEC_MEASURE, else what lies beside moec-nvrtc's places.
Result<std::string> findMeasure();

/// The result of a job.
struct JobResult {
  std::optional<BoxedJson> answer; ///< an object, if the process gave one
  bool hung = false;               ///< it gave none in time, and was killed
  std::string ended;               ///< or how it ended
};

class MeasuringProcess {
public:
  /// Belongs to the thread that starts it, and ends with it.
  static Result<MeasuringProcess> start(const std::string &program,
                                        const std::string &device,
                                        const std::string &errorFile);
  ~MeasuringProcess();
  MeasuringProcess(MeasuringProcess &&other) noexcept;
  MeasuringProcess &operator=(MeasuringProcess &&) = delete;

  const std::string &deviceName() const { return device; }
  /// Hands it a job and waits so many seconds at most. Without an answer the
  /// process is over.
  JobResult run(const nlohmann::ordered_json &job, double seconds);

private:
  MeasuringProcess(pid_t process, Descriptor socket)
      : process(process), socket(std::move(socket)) {}
  /// The next line, "" where none comes in time; false: the process closed it.
  bool readLine(double seconds, std::string &line);
  std::string end(bool kill);

  pid_t process;
  Descriptor socket;
  std::string device, pending;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_MEASURINGPROCESS_H
