//===- ConfigPrinter.h - prints a kernel's Config ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines and emitters specify a Config's members. This class alone determines
// how the members are written as C++.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_CONFIGPRINTER_H
#define MOEC_COMPILER_MATMUL_CONFIGPRINTER_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moec::compiler {

/// Collects the members of a kernel's `struct Config` and prints them as C++.
class ConfigPrinter {
public:
  ConfigPrinter();
  void type(std::string_view name, std::string_view cppType);
  /// Adds an enumerator: `name` = cppEnum::member.
  void choice(std::string_view name, std::string_view cppEnum,
              std::string_view member);
  void number(std::string_view name, int64_t value);
  void flag(std::string_view name, bool value);
  /// Adds a float constant with its exact value.
  void real(std::string_view name, double value);
  /// Opens a nested struct. Members are added to it until close() is called.
  void open(std::string_view nested);
  void close();
  /// Returns the complete text "struct Config {...};".
  std::string text() const;

private:
  void line(const std::string &text);
  std::string lines;
  int depth = 1;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_CONFIGPRINTER_H
