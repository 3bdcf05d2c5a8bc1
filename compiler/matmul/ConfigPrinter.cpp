//===- ConfigPrinter.cpp - prints a kernel's Config -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text depends only on the kernel and contains no paths, dates or versions.
// Equal kernels therefore have equal cache keys.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/ConfigPrinter.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::compiler;

ConfigPrinter::ConfigPrinter() { type("Args", "::Args"); }

void ConfigPrinter::line(const std::string &text) {
  lines += std::string(2 * depth, ' ') + text + "\n";
}

void ConfigPrinter::type(std::string_view name, std::string_view cppType) {
  line(fmt::format("using {} = {};", name, cppType));
}

void ConfigPrinter::choice(std::string_view name, std::string_view cppEnum,
                           std::string_view member) {
  line(fmt::format("static constexpr {} {} = {}::{};", cppEnum, name, cppEnum,
                   member));
}

void ConfigPrinter::number(std::string_view name, int64_t value) {
  line(fmt::format("static constexpr int {} = {};", name, value));
}

void ConfigPrinter::flag(std::string_view name, bool value) {
  line(fmt::format("static constexpr bool {} = {};", name, value));
}

void ConfigPrinter::real(std::string_view name, double value) {
  // The hexadecimal form is exact and independent of the locale.
  line(fmt::format("static constexpr float {} = {:a}f;", name,
                   double(float(value))));
}

void ConfigPrinter::open(std::string_view nested) {
  line(fmt::format("struct {} {{", nested));
  ++depth;
}

void ConfigPrinter::close() {
  --depth;
  line("};");
}

std::string ConfigPrinter::text() const {
  return "struct Config {\n" + lines + "};\n";
}
