//===- TunedInput.h - a layer whose schedules are tuned ------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a layer anew for each candidate, with rows as a user's file has
// them: what is measured is what a compilation makes of the rows.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TUNEDINPUT_H
#define MOEC_COMPILER_TUNE_TUNEDINPUT_H

#include "compiler/Compiler.h"
#include "compiler/plan/Tuned.h"
#include "compiler/tune/Candidates.h"
#include "compiler/tune/Tune.h"

namespace moec::compiler {

/// The compiler's choice for some tokens without the user's measured
/// schedules.
struct DefaultChoice {
  std::string variant;
  int64_t tileRows = 0;
  /// Absent where other kernels than grouped matmuls serve.
  std::optional<SchedulePair> schedules;
};

/// May be used by several threads at a time.
class TunedInput {
public:
  /// Reads the layer; of a package also the options that it was compiled with.
  /// Refuses one that measured rows cannot serve.
  static Result<TunedInput> open(const TuneSource &source,
                                 const ImportOptions &import,
                                 const CompileOptions &compile);

  const std::string &name() const { return layerName; }
  /// A hash of the layer and all that changes its kernels but schedules.
  const std::string &digest() const { return itsDigest; }
  const std::string &commit() const { return itsCommit; }
  /// yyyy-mm-dd
  static std::string today();
  const std::string &arch() const { return options.archs.front(); }
  const Hardware &hardware() const { return itsHardware; }
  int64_t maxTokens() const { return options.maxTokens; }
  const Choices &choices() const { return options; }

  Result<DefaultChoice> defaultFor(int64_t tokens) const;
  /// The problems with tiles of so many rows.
  Result<TunedLayer> problemsFor(const TokenRange &range,
                                 int64_t tileRows) const;
  /// Rows of a candidate: one for each matmul.
  std::vector<TunedRow> rowsFor(const TokenRange &range,
                                const TunedLayer &layer,
                                const SchedulePair &candidate) const;
  /// Writes a package of the variant that serves `tokens` alone to a folder
  /// that does not exist. No rows: the default's.
  Result<void> build(int64_t tokens, const std::vector<TunedRow> &rows,
                     const std::string &folder) const;

private:
  TunedInput() = default;
  Result<void> read(class Input &input) const;
  TuneSource source;
  ImportOptions import;
  CompileOptions options;
  bool cubins = true; ///< else packages have none
  std::string layerName, itsDigest, itsCommit;
  Hardware itsHardware;
};

/// Rows and log are next to each other in the store, unless the caller names
/// them.
struct TuneFiles {
  std::string rows, log;
};

/// The files that the options ask for. Refuses those that are one file, and a
/// file that takes no rows.
Result<TuneFiles> filesOf(const TuneOptions &options, const TunedInput &input);

/// Whether the path is a package's folder.
bool isPackage(const std::string &path);

/// The layer of a package, as a source whose path is that of the file in the
/// package. `options` become those that the package was compiled with. Options
/// that contradict it are refused.
Result<TuneSource> layerOfPackage(const std::string &path,
                                  CompileOptions &options);

/// Leaves one variant of a package of one target, for all tokens up to its
/// last, and what it needs.
Result<void> keepVariant(PackageFiles &files, size_t variant);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNEDINPUT_H
