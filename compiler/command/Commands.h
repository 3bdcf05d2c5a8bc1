//===- Commands.h - the commands of `moec` ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands that Command.cpp runs after it has parsed the arguments. An
// error is the reason for exit status 1. A command that fails has written no
// output, except the page of a layer that is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_COMMAND_COMMANDS_H
#define MOEC_COMPILER_COMMAND_COMMANDS_H

#include "compiler/Compiler.h"
#include "compiler/import/ImportOptions.h"
#include "compiler/tune/Tune.h"

namespace moec::compiler {

struct CommandOptions {
  std::string input; ///< a path, or "-" for standard input
  ImportOptions import;
  CompileOptions compile;
  ExplainOptions explain;
  Phase emit = Phase::Package;
  bool emitsLayerJson = false; ///< instead of `emit`
  std::string output;          ///< -o; "": standard output, or <layer>.moec
  bool json = false;           ///< machine-readable output
  bool brief = false;          ///< explain omits details
  std::string html;            ///< explain writes a page to this file; "": none
  std::string bench; ///< file with measured times for the page; "": none
  /// Reports of `moec explain --json` whose times the page also shows.
  std::vector<std::string> compared;
  std::string cases; ///< a file with one case per line; "": one input
  /// Receives the text for standard output, unless null.
  std::string *printed = nullptr;
};

/// A line of a file of cases.
struct Case {
  int64_t line = 0; ///< line number, starting at 1
  CommandOptions options;
};

/// Runs the whole command line; words[0] is the program. Returns the exit
/// status. May be called repeatedly.
int runCommand(int argc, char **words);

/// Runs `moec compile`: writes a package, or the output that --emit names.
Result<void> runCompile(const CommandOptions &options,
                        mlir::MLIRContext &context);

/// Runs `moec explain`.
Result<void> runExplain(const CommandOptions &options,
                        mlir::MLIRContext &context);

/// Runs `moec compile --cases` or `moec explain --cases`: calls `run` for each
/// case with a shared context, and prints one line of JSON per case. Returns
/// the exit status.
using RunCase = Result<void> (*)(const CommandOptions &, mlir::MLIRContext &);
int runCases(std::vector<Case> cases, RunCase run);

/// Runs `moec tune`.
Result<void> runTune(const TuneOptions &options);

/// Runs `moec list [table]`; "" prints every table.
Result<void> runList(const std::string &table, bool json);

/// Returns the names of the tables that `moec list` prints.
std::vector<std::string> listTables();

struct CacheCommand {
  std::string action = "show"; ///< one of cacheActions()
  std::string folder;          ///< cache folder; "": the runtime's default
  std::string arch;            ///< only entries of this arch; "": all
  std::optional<uint64_t> maxBytes;
  /// Only entries unused for this time; negative: all.
  double olderThanDays = -1;
  bool dryRun = false, json = false;
};

/// Runs `moec cache`: prints the kernel cache or removes entries.
Result<void> runCache(const CacheCommand &command);
std::vector<std::string> cacheActions();

/// Runs `moec doctor`. Returns the exit status: 1 if this machine cannot
/// compile or store kernels. `compiles` also compiles a small layer.
Result<int> runDoctor(bool json, bool compiles);

/// Runs `moec completion`: returns the completion script for bash or zsh.
std::string completionText(std::string_view shell,
                           const std::vector<std::string> &commands);

/// Writes the text and flushes it, so that a full disk is reported as an error
/// of the command.
Result<void> writeStandardOutput(std::string_view text);

// The tables of dialect/catalog and of model families as JSON.
// docs/reference/c-api.md lists the fields.

/// Returns one table for each kind of name that users can specify.
nlohmann::ordered_json catalogJson();

/// Returns the model families whose config.json can be read.
nlohmann::ordered_json familiesJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_COMMANDS_H
