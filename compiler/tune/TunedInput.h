//===- TunedInput.h - a layer whose schedules are tuned ------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a layer again for each candidate. The candidate's schedules are
// passed as rows in a file of measured schedules. The measured package is
// therefore what a later compilation makes from these rows.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TUNEDINPUT_H
#define MOEC_COMPILER_TUNE_TUNEDINPUT_H

#include "compiler/Compiler.h"
#include "compiler/plan/Tuned.h"
#include "compiler/tune/Candidates.h"
#include "compiler/tune/Tune.h"

namespace moec::compiler {

/// The compiler's choice for a token count without the user's measured
/// schedules.
struct DefaultChoice {
  std::string variant;
  int64_t tileRows = 0;
  /// Absent if kernels other than grouped matmuls are used.
  std::optional<SchedulePair> schedules;
};

/// The layer that is tuned. Thread-safe.
class TunedInput {
public:
  /// Reads the layer, and for a package also the options with which it was
  /// compiled. Returns an error if measured rows cannot apply to the layer.
  static Result<TunedInput> open(const TuneSource &source,
                                 const ImportOptions &import,
                                 const CompileOptions &compile);

  const std::string &name() const { return layerName; }
  /// Returns a hash of the layer and of everything that changes its kernels,
  /// except schedules.
  const std::string &digest() const { return itsDigest; }
  const std::string &commit() const { return itsCommit; }
  /// Returns the date as yyyy-mm-dd.
  static std::string today();
  const std::string &arch() const { return options.archs.front(); }
  const Hardware &hardware() const { return itsHardware; }
  int64_t maxTokens() const { return options.maxTokens; }
  const Choices &choices() const { return options; }

  Result<DefaultChoice> defaultFor(int64_t tokens) const;
  /// Returns the matmul problems with tiles of `tileRows` rows.
  Result<TunedLayer> problemsFor(const TokenRange &range,
                                 int64_t tileRows) const;
  /// Returns the rows of a candidate, one for each matmul.
  std::vector<TunedRow> rowsFor(const TokenRange &range,
                                const TunedLayer &layer,
                                const SchedulePair &candidate) const;
  /// Writes a package that contains only the variant for `tokens` to a folder
  /// that must not exist. Without rows, the package has the default schedules.
  Result<void> build(int64_t tokens, const std::vector<TunedRow> &rows,
                     const std::string &folder) const;

private:
  TunedInput() = default;
  Result<void> read(class Input &input) const;
  TuneSource source;
  ImportOptions import;
  CompileOptions options;
  bool cubins = true; ///< if false, packages have no cubins
  std::string layerName, itsDigest, itsCommit;
  Hardware itsHardware;
};

/// The files of rows and of the log, which are next to each other in the store
/// unless the caller names them.
struct TuneFiles {
  std::string rows, log;
};

/// Returns the files that the options specify. Returns an error if both are one
/// file, or if no rows can be added to the file.
Result<TuneFiles> filesOf(const TuneOptions &options, const TunedInput &input);

/// Returns true if the path is the folder of a package.
bool isPackage(const std::string &path);

/// Returns the layer of a package, as a source with the path of the layer's
/// file in the package. Sets `options` to those with which the package was
/// compiled. Options that contradict them are errors.
Result<TuneSource> layerOfPackage(const std::string &path,
                                  CompileOptions &options);

/// Reduces a package with one target to one variant and what this variant
/// needs. The variant then runs for all token counts up to its last one.
Result<void> keepVariant(PackageFiles &files, size_t variant);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNEDINPUT_H
