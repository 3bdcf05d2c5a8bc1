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
  bool json = false;           ///< explain prints JSON
  std::string html;            ///< explain writes a page here; "" = none
  std::string bench;           ///< measured times for the page; "" = none
  std::string cases;           ///< a file whose lines are cases; "" = one input
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
Result<void> runList(const std::string &table);

/// The tables that `moec list` knows.
std::vector<std::string> listTables();

// The tables of dialect/catalog and of families of models as JSON.
// docs/reference/c-api.md lists the fields.

/// A table for each thing that a user names.
nlohmann::ordered_json catalogJson();

/// The families of models whose config.json is read.
nlohmann::ordered_json familiesJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_COMMANDS_H
