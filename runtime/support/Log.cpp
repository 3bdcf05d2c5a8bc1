//===- Log.cpp - the sink of log messages ---------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The level is an atomic, so a message that is not logged costs only one load.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Log.h"

#include "runtime/support/Env.h"
#include "runtime/support/PerProcess.h"
#include "runtime/support/Result.h"

#include <atomic>
#include <cstdio>
#include <mutex>

using namespace moec;

namespace {

constexpr std::pair<LogLevel, std::string_view> kLevels[] = {
    {LogLevel::None, "none"},       {LogLevel::Error, "error"},
    {LogLevel::Warning, "warning"}, {LogLevel::Info, "info"},
    {LogLevel::Debug, "debug"},
};

/// Returns the log level in MOEC_LOG. An unknown word is reported once and has
/// the meaning of "warning".
LogLevel levelOfEnvironment() {
  std::string word = envString("MOEC_LOG");
  for (auto [level, name] : kLevels)
    if (word == name)
      return level;
  std::fprintf(stderr,
               "moec: warning: environment variable MOEC_LOG: expected none, "
               "error, warning, info or debug, got '%s'\n",
               printable(word).c_str());
  return LogLevel::Warning;
}

/// The mutex is per process, because another thread may hold it during a fork.
struct LogMutex {
  std::mutex mutex;
};

struct Log {
  LogSink sink;
  std::atomic<LogLevel> level{levelOfEnvironment()};
};

Log &theLog() {
  // The object is never destroyed, because threads may still log while the
  // process exits.
  static Log *log = new Log;
  return *log;
}

} // namespace

std::string_view moec::logLevelName(LogLevel level) {
  for (auto [candidate, name] : kLevels)
    if (candidate == level)
      return name;
  return "unknown";
}

void moec::setLogSink(LogSink sink, LogLevel level) {
  Log &log = theLog();
  std::lock_guard lock(perProcess<LogMutex>().mutex);
  log.sink = std::move(sink);
  log.level = level;
}

bool moec::logs(LogLevel level) {
  return level != LogLevel::None && level <= theLog().level.load();
}

void moec::logMessage(LogLevel level, std::string_view message) {
  if (!logs(level))
    return;
  Log &log = theLog();
  const std::string shown = printable(message);
  std::lock_guard lock(perProcess<LogMutex>().mutex);
  if (log.sink)
    return log.sink(level, shown);
  std::string line = fmt::format("moec: {}: {}\n", logLevelName(level), shown);
  std::fputs(line.c_str(), stderr);
}
