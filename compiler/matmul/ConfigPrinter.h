//===- ConfigPrinter.h - members of a kernel's Config -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines and emitters say what a Config holds; this alone knows how it is
// written.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_CONFIGPRINTER_H
#define MOEC_COMPILER_MATMUL_CONFIGPRINTER_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moec::compiler {

/// Collects the members of struct Config.
class ConfigPrinter {
public:
  ConfigPrinter();
  void type(std::string_view name, std::string_view cppType);
  /// A member of an enum.
  void choice(std::string_view name, std::string_view cppEnum,
              std::string_view member);
  void number(std::string_view name, int64_t value);
  void flag(std::string_view name, bool value);
  /// An f32, with all its digits.
  void real(std::string_view name, double value);
  /// Members that follow are those of a nested struct.
  void open(std::string_view nested);
  void close();
  /// "struct Config {...};", complete.
  std::string text() const;

private:
  void line(const std::string &text);
  std::string lines;
  int depth = 1;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_CONFIGPRINTER_H
