//===- Commands.h - the commands of `moec` ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands that Command.cpp runs after it has parsed the arguments. If a
// command returns an error, the exit status is 1. A command that fails has
// written no output, except the page of a rejected layer.
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
  /// Print the input's layer JSON; replaces `emit`.
  bool emitsLayerJson = false;
  std::string output; ///< -o; "": standard output, or <layer>.moec
  bool json = false;  ///< write machine-readable output
  bool brief = false; ///< true if explain omits details
  std::string html;   ///< page that explain writes; "": no page
  std::string bench; ///< file with measured times that the page shows; "": none
  /// Files written by `moec explain --json` whose times the page also shows.
  std::vector<std::string> compared;
  std::string cases; ///< a file with one case per line; "": one input
  /// If not null, receives the text for standard output.
  std::string *printed = nullptr;
};

/// A line in a file of cases.
struct Case {
  int64_t line = 0; ///< line number, starting at 1
  CommandOptions options;
};

/// Runs the whole command line. words[0] is the program. Returns the exit
/// status. May be called repeatedly.
int runCommand(int argc, char **words);

/// Runs `moec compile`: writes a package, or the output that --emit selects.
Result<void> runCompile(const CommandOptions &options,
                        mlir::MLIRContext &context);

/// Runs `moec explain`.
Result<void> runExplain(const CommandOptions &options,
                        mlir::MLIRContext &context);

/// Runs `moec compile --cases` or `moec explain --cases`: calls `run` for each
/// case with a shared MLIR context, and prints one JSON line per case. Returns
/// the exit status.
using RunCase = Result<void> (*)(const CommandOptions &, mlir::MLIRContext &);
int runCases(std::vector<Case> cases, RunCase run);

/// Runs `moec tune`.
Result<void> runTune(const TuneOptions &options);

/// Runs `moec list [table]`. If `table` is "", prints every table.
Result<void> runList(const std::string &table, bool json);

/// Returns the names of the tables that `moec list` can print.
std::vector<std::string> listTables();

struct CacheCommand {
  std::string action = "show"; ///< one of cacheActions()
  std::string folder;          ///< cache folder; "": the runtime's default
  std::string arch;            ///< only entries for this arch; "": all
  std::optional<uint64_t> maxBytes;
  /// Only entries that were not used for this number of days; negative: all.
  double olderThanDays = -1;
  bool dryRun = false, json = false;
};

/// Runs `moec cache`: prints the kernel cache or removes entries from it.
Result<void> runCache(const CacheCommand &command);
std::vector<std::string> cacheActions();

/// Runs `moec doctor`. Returns the exit status, which is 1 if this machine
/// cannot compile or store kernels. If `compiles`, also compiles a small layer.
Result<int> runDoctor(bool json, bool compiles);

/// Returns the script that `moec completion` prints, for bash or zsh.
std::string completionText(std::string_view shell,
                           const std::vector<std::string> &commands);

/// Writes the text to standard output and flushes it, so that a full disk is
/// reported as an error of the command.
Result<void> writeStandardOutput(std::string_view text);

// The tables of dialect/catalog and of model families as JSON.
// docs/reference/c-api.md lists the fields.

/// Returns one table per kind of name that users can specify.
nlohmann::ordered_json catalogJson();

/// Returns the model families whose config.json moec can read.
nlohmann::ordered_json familiesJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_COMMANDS_H
