//===- Programs.h - commands that other programs serve ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `moec run` starts moec-run and `moec opt` starts moec-opt, which lie next to
// moec or libmoec.so. `moec bench`, `moec warmup` and `moec doctor --gpu` are
// modules of the Python package. The source build, an installed tree and the
// wheel have the same commands.
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
  std::string_view program; ///< its file; "" if Python serves the command
  std::string_view option;  ///< a word that the program gets first, or ""
  std::string_view summary;
};

/// The commands of other programs, in the order of `moec --help`.
std::span<const ProgramCommand> programCommands();

/// Runs such a command with the words that follow its name, and waits for its
/// end. Returns its exit status, 128 plus the signal that ended it, or 1 after
/// a message that says what is missing; nullopt if `name` is none of them.
std::optional<int> runProgram(std::string_view name,
                              const std::vector<std::string> &words);

/// Runs a command of the Python package with the words that follow its name.
/// Returns as runProgram() does.
int runPython(std::string_view name, const std::vector<std::string> &words);

/// Returns what a program prints to standard output if it ends with status 0.
/// Its standard error is dropped.
std::optional<std::string> outputOf(const std::string &file,
                                    std::vector<std::string> words);

/// The interpreter that serves the commands of Python: MOEC_PYTHON, or the
/// python3 of PATH.
std::string pythonName();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_PROGRAMS_H
