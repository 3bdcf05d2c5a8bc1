//===- Log.h - messages that are no errors --------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One sink for the process: a callback with a level. By default warnings and
// errors go to stderr (environment variable MOEC_LOG changes the level). An
// engine installs its own sink; nothing else in moec prints.
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

/// "error", "warning", "info", "debug" or "none".
std::string_view logLevelName(LogLevel level);

/// Called for each message, by one thread at a time; an empty function
/// restores stderr.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs a sink that receives messages up to and with `level`.
void setLogSink(LogSink sink, LogLevel level);

/// Whether a message of this level would be seen.
bool logs(LogLevel level);

/// Hands a message (no newline) to the sink.
void logMessage(LogLevel level, std::string_view message);

/// As fmt::format; formats only what will be seen.
template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args &&...args) {
  if (logs(level))
    logMessage(level, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_LOG_H
