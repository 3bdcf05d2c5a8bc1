//===- moec-measure.cpp - the measuring process of `moec tune` ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tuner starts this program ("compiler/tune/MeasuringProcess.h"), writes
// one job per line and reads one answer per line. A kernel that hangs or faults
// ends only this process.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Guard.h"
#include "tools/moec-measure/Measure.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <new>
#include <string>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

using namespace moec;
using namespace moec::measure;

/// Reserves standard output for answers. The output of libraries is redirected
/// to standard error.
static std::FILE *takeOutput() {
  const int answers = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return ::fdopen(answers, "w");
}

static void say(std::FILE *to, const std::string &line) {
  fmt::print(to, "{}\n", line);
  std::fflush(to);
}

static Answer measured(Measurer &measurer, const Job &job) {
  try {
    return measurer.measure(job);
  } catch (const std::bad_alloc &) {
    Answer answer;
    answer.kind = "transient";
    answer.text = "the host is out of memory";
    return answer;
  }
}

static int serve(std::FILE *answers, runtime::DeviceKind kind) {
  auto device = tools::Device::open(kind);
  if (!device) {
    say(answers,
        nlohmann::json{{"moec_measure", 1}, {"error", device.error().message}}
            .dump());
    return 1;
  }
  say(answers,
      nlohmann::json{{"moec_measure", 1}, {"device", device->name()}}.dump());
  Measurer measurer(*device, kind);
  std::string line;
  while (std::getline(std::cin, line)) {
    auto job = Job::parse(line);
    Answer answer;
    if (job) {
      answer = measured(measurer, *job);
    } else {
      answer.kind = "refused";
      answer.text = job.error().message;
    }
    say(answers, answer.print());
    // A failed CUDA context cannot be used again, and memory that is short here
    // may be available to a new process.
    if (answer.kind == "fault" || answer.kind == "transient")
      return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  // Ends this process with the tuner, however the tuner ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string_view device = argc == 2 ? argv[1] : "";
  if (device != "cuda" && device != "host") {
    std::fputs("moec-measure: expected cuda or host; moec tune starts this "
               "program and gives it jobs\n",
               stderr);
    return 2;
  }
  std::FILE *answers = takeOutput();
  const int status = guarded("moec-measure", [&] {
    return serve(answers, device == "cuda" ? runtime::DeviceKind::Cuda
                                           : runtime::DeviceKind::Host);
  });
  std::fflush(answers);
  ::_exit(status);
}
