//===- GivenTensors.h - the user's own tensors ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --input gives values of the package .npy files, --output writes some. NumPy
// has no bf16 and no floats of 8 bits or fewer: such values are raw bits,
// uint16 and uint8.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_GIVENTENSORS_H
#define MOEC_TOOLS_MOECRUN_GIVENTENSORS_H

#include "tools/moec-run/Npy.h"
#include "tools/moec-run/RunBuffers.h"

#include <map>

namespace moec::run {

/// Whether the package has what --input and --output name.
Result<void> checkNames(const Options &options, const LoadedLayer &layer);

class GivenTensors {
public:
  /// Reads the files of --input and holds them against the types of their
  /// values, which checkNames has found.
  static Result<GivenTensors> read(const Options &options,
                                   const LoadedLayer &layer);

  bool has(const std::string &name) const { return arrays.contains(name); }
  /// How many tokens the shapes speak of; `otherwise` where they speak of none.
  Result<std::vector<int64_t>> tokensOf(const LoadedLayer &layer,
                                        std::vector<int64_t> otherwise) const;
  /// Moves the stored weights to `weights`, in place of those there.
  Result<void> replaceWeights(const LoadedLayer &layer, HostWeights &weights);
  /// Puts the inputs of a run in place of those in `inputs`.
  Result<void> replaceInputs(const LoadedLayer &layer, int64_t tokens,
                             HostInputs &inputs) const;

private:
  struct Given {
    const Value *value;
    std::string path;
    std::string elementType; ///< one of the value's
    NpyArray array;
  };
  static Result<void> checkShape(const Given &given, const LoadedLayer &layer,
                                 int64_t tokens);
  std::map<std::string, Given> arrays;
};

/// Writes what --output asks for.
Result<void> writeOutputs(const Options &options, const LoadedLayer &layer,
                          int64_t tokens, const HostOutputs &outputs);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_GIVENTENSORS_H
