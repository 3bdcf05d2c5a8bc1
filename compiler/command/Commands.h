//===- Commands.h - what `moec` can be told to do ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands behind Command.cpp, which only reads arguments. An error is the
// reason for exit status 1; until a command succeeds it has written nothing but
// the page of a layer that is refused.
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
  bool emitsLayerJson = false; ///< in place of `emit`
  std::string output;          ///< -o; "" = standard output, or <layer>.moec
  bool json = false;           ///< for programs
  bool brief = false;          ///< explain leaves details out
  std::string html;            ///< explain writes a page here; "" = none
  std::string bench;           ///< measured times for the page; "" = none
  /// Reports of `moec explain --json` whose times the page shows, too.
  std::vector<std::string> compared;
  std::string cases; ///< a file whose lines are cases; "" = one input
  /// Receives what would go to standard output, unless null.
  std::string *printed = nullptr;
};

/// A line of a file of cases.
struct Case {
  int64_t line = 0; ///< from 1
  CommandOptions options;
};

/// The whole command line: words[0] is the program. Returns the exit status
/// and may be called any number of times.
int runCommand(int argc, char **words);

/// `moec compile`: a package, or what --emit names.
Result<void> runCompile(const CommandOptions &options,
                        mlir::MLIRContext &context);

/// `moec explain`.
Result<void> runExplain(const CommandOptions &options,
                        mlir::MLIRContext &context);

/// `moec compile --cases` or `moec explain --cases`: calls `run` with each case
/// and a context that they share, and answers with a line of JSON. Returns the
/// exit status.
using RunCase = Result<void> (*)(const CommandOptions &, mlir::MLIRContext &);
int runCases(std::vector<Case> cases, RunCase run);

/// `moec tune`
Result<void> runTune(const TuneOptions &options);

/// `moec list [table]`; "" prints every table.
Result<void> runList(const std::string &table, bool json);

/// The tables that `moec list` knows.
std::vector<std::string> listTables();

struct CacheCommand {
  std::string action = "show"; ///< one of cacheActions()
  std::string folder;          ///< "" takes the runtime's default
  std::string arch;            ///< entries of this arch only; "" takes all
  std::optional<uint64_t> maxBytes;
  double olderThanDays = -1; ///< days since the last use; negative takes all
  bool dryRun = false, json = false;
};

/// `moec cache`: prints the kernel cache or removes entries.
Result<void> runCache(const CacheCommand &command);
std::vector<std::string> cacheActions();

/// `moec doctor`. Returns the exit status: 1 if kernels cannot be compiled or
/// stored here. `compiles` also compiles a small layer.
Result<int> runDoctor(bool json, bool compiles);

/// `moec completion`: a script for bash or zsh.
std::string completionText(std::string_view shell,
                           const std::vector<std::string> &commands);

/// Writes a text at once, so that a full disk is an error of the command.
Result<void> writeStandardOutput(std::string_view text);

// The tables of dialect/catalog and of families of models as JSON.
// docs/reference/c-api.md lists the fields.

/// A table for each thing that a user names.
nlohmann::ordered_json catalogJson();

/// The families of models whose config.json is read.
nlohmann::ordered_json familiesJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_COMMANDS_H
