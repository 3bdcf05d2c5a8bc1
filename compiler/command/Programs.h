//===- Programs.h - commands that run other programs ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `moec run` starts moec-run and `moec opt` starts moec-opt. These programs are
// in the folder of moec or libmoec.so, or in the bin/ folder of the same
// installation. `moec bench`, `moec warmup` and `moec doctor --gpu` are modules
// of the Python package. The source build, an installed tree and the wheel have
// the same commands.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_COMMAND_PROGRAMS_H
#define MOEC_COMPILER_COMMAND_PROGRAMS_H

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler {

struct ProgramCommand {
  std::string_view name;
  /// Name of the executable; "" if Python implements the command.
  std::string_view program;
  std::string_view option; ///< first argument of the program, or ""
  std::string_view summary;
};

/// Returns the commands that other programs implement, in the order of `moec
/// --help`.
std::span<const ProgramCommand> programCommands();

/// Runs the program command `name` and waits until it ends. `words` are its
/// arguments. Returns its exit status, 128 plus the signal that terminated it,
/// or 1 after printing what is missing. Returns nullopt if `name` is no program
/// command.
std::optional<int> runProgram(std::string_view name,
                              const std::vector<std::string> &words);

/// Runs a command of the Python package. `words` are its arguments. Returns the
/// same status as runProgram().
int runPython(std::string_view name, const std::vector<std::string> &words);

/// Returns the standard output of a program if it exits with status 0,
/// otherwise nullopt. Discards the program's standard error.
std::optional<std::string> outputOf(const std::string &file,
                                    std::vector<std::string> words);

/// Returns the Python interpreter for the Python commands: MOEC_PYTHON or, if
/// it is unset, python3 in PATH.
std::string pythonName();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_PROGRAMS_H
