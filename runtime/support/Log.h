//===- Log.h - log messages -------------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The process has one log sink: a callback and a maximum level. By default,
// warnings and errors are written to stderr; the environment variable MOEC_LOG
// changes the level. An inference engine may install its own sink. The library
// prints nothing in any other way.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_LOG_H
#define MOEC_RUNTIME_SUPPORT_LOG_H

#include <fmt/core.h>

#include <functional>
#include <string_view>
#include <utility>

namespace moec {

enum class LogLevel : int { None = 0, Error, Warning, Info, Debug };

/// Returns the name of a level: "error", "warning", "info", "debug" or "none".
std::string_view logLevelName(LogLevel level);

/// Receives each message. It is called from one thread at a time. An empty
/// function restores stderr.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs a sink for messages up to and including `level`.
void setLogSink(LogSink sink, LogLevel level);

/// Returns true if messages of this level are logged.
bool logs(LogLevel level);

/// Passes a message (without newline) to the sink.
void logMessage(LogLevel level, std::string_view message);

/// Logs a message, formatted like fmt::format. Messages that are not logged are
/// not formatted.
template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args &&...args) {
  if (logs(level))
    logMessage(level, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_LOG_H
