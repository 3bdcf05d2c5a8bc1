//===- CommandLine.h - parsing of a program's command line ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All programs that use CLI11 call this function, so that they report the same
// mistakes with the same messages: a flag with a value, an option without a
// value, or an unknown option or command. The library is moec_command_line.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_COMMANDLINE_H
#define MOEC_RUNTIME_SUPPORT_COMMANDLINE_H

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace moec {

/// The exit status after an invalid command line.
inline constexpr int kUsageStatus = 2;

/// Parses a command line; argv[0] is the program. If the program must end,
/// returns the exit status: 0 after --help or --version, kUsageStatus after an
/// error message on standard error.
std::optional<int> parseCommandLine(CLI::App &app, int argc, char **argv);

/// Returns a check that accepts the given words. Its error message contains the
/// most similar word.
std::function<std::string(const std::string &)>
oneOf(std::vector<std::string> words);

/// Returns a check that accepts integers from `least` to `most`.
inline auto countFrom(int64_t least,
                      int64_t most = std::numeric_limits<int32_t>::max()) {
  return [least, most](const std::string &text) -> std::string {
    int64_t count = 0;
    const char *end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, count);
    if (error == std::errc() && last == end && count >= least && count <= most)
      return "";
    return fmt::format("expected an integer from {} to {}, got '{}'", least,
                       most, text);
  };
}

/// Accepts a finite number above 0; returns an error message for any other
/// text.
inline std::string checkPositive(const std::string &text) {
  double number = 0;
  const char *end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && last == end && number > 0 &&
      number <= std::numeric_limits<double>::max())
    return "";
  return fmt::format("expected a number above 0, got '{}'", text);
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_COMMANDLINE_H
