//===- GivenTensors.h - tensors from the user's files -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --input provides values of the package from .npy files, and --output writes
// values. NumPy has no bf16 and no floats of 8 bits or fewer, so these are
// stored as raw bits in uint16 and uint8.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_GIVENTENSORS_H
#define MOEC_TOOLS_MOECRUN_GIVENTENSORS_H

#include "tools/moec-run/Npy.h"
#include "tools/moec-run/RunBuffers.h"

#include <map>

namespace moec::run {

/// Checks that the package has the values that --input and --output name.
Result<void> checkNames(const Options &options, const LoadedLayer &layer);

/// The arrays of --input.
class GivenTensors {
public:
  /// Reads the files of --input and checks their types. checkNames() must have
  /// succeeded.
  static Result<GivenTensors> read(const Options &options,
                                   const LoadedLayer &layer);

  bool has(const std::string &name) const { return arrays.contains(name); }
  /// Returns the token count that the arrays' shapes imply, or `otherwise` if
  /// the shapes do not depend on the token count.
  Result<std::vector<int64_t>> tokensOf(const LoadedLayer &layer,
                                        std::vector<int64_t> otherwise) const;
  /// Moves the stored weights to `weights`, replacing weights of the same
  /// names.
  Result<void> replaceWeights(const LoadedLayer &layer, HostWeights &weights);
  /// Replaces inputs of a run by the arrays of --input.
  Result<void> replaceInputs(const LoadedLayer &layer, int64_t tokens,
                             HostInputs &inputs) const;

private:
  struct Given {
    const Value *value;
    std::string path;
    std::string elementType; ///< one of the value's element types
    NpyArray array;
  };
  static Result<void> checkShape(const Given &given, const LoadedLayer &layer,
                                 int64_t tokens);
  std::map<std::string, Given> arrays;
};

/// Writes the files of --output.
Result<void> writeOutputs(const Options &options, const LoadedLayer &layer,
                          int64_t tokens, const HostOutputs &outputs);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_GIVENTENSORS_H
