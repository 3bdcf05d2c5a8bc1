//===- Terminal.cpp - colors of a terminal --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Terminal.h"

#include "runtime/support/Env.h"

#include <fmt/core.h>

#include <unistd.h>

using namespace moec;

static std::string_view codeOf(Color color) {
  switch (color) {
  case Color::Bold:
    return "1";
  case Color::Red:
    return "1;31";
  case Color::Green:
    return "32";
  case Color::Yellow:
    return "33";
  }
  return "0";
}

bool moec::hasColors(std::FILE *file) {
  return envString("NO_COLOR").empty() && envString("TERM") != "dumb" &&
         ::isatty(::fileno(file)) != 0;
}

std::string moec::colored(std::string_view text, Color color, std::FILE *file) {
  return hasColors(file) ? fmt::format("\x1b[{}m{}\x1b[0m", codeOf(color), text)
                         : std::string(text);
}

void moec::printError(std::string_view program, std::string_view text) {
  fmt::print(stderr, "{} {}\n",
             colored(fmt::format("{}:", program), Color::Red, stderr), text);
}
