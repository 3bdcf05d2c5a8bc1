//===- HostWeights.h - stored weights on the host ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights are created by the counter-based generator of the reference, and
// hence equal on every machine, or read from a checkpoint. The reference reads
// them too.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_HOSTWEIGHTS_H
#define MOEC_TOOLS_MOECRUN_HOSTWEIGHTS_H

#include "runtime/api/Package.h"
#include "runtime/weights/LoadWeights.h"
#include "test/reference/Reference.h"
#include "tools/moec-run/HostArray.h"

#include <map>
#include <set>
#include <string>

namespace moec::run {

/// The stored weights of a layer by value name, created once for all runs.
struct HostWeights {
  std::map<std::string, HostArray> arrays; ///< in the reference's layout
  /// The weights whose layout in the layer differs from the reference's layout,
  /// stored here in the layer's layout.
  std::map<std::string, HostArray> stored;
  /// Names of the scales and zero points that result from quantizing weights
  /// stored as floats. They are not values of the package.
  std::set<std::string> derived;
  /// Returns the array to pass to a device.
  const HostArray &given(const std::string &name) const {
    const auto found = stored.find(name);
    return found == stored.end() ? arrays.at(name) : found->second;
  }
  static HostWeights make(const reference::Layer &layer, uint64_t seed);
  /// Returns the size of `arrays` in bytes.
  static int64_t bytesOf(const reference::Layer &layer);
  /// Returns the size in bytes of each weight as it is passed to a device, by
  /// name.
  static Result<std::map<std::string, int64_t>>
  sizesOf(const reference::Layer &layer);
  /// Loads the weights that the package names from a checkpoint.
  static Result<HostWeights> load(const runtime::Package &package,
                                  weights::WeightLoader &loader);
  /// Replaces the weights of the given names by arrays in the layer's layout.
  void replace(const reference::Layer &layer,
               std::map<std::string, HostArray> others);
  /// Returns a weight as unpacking reconstructs it: as it was passed, except
  /// that padding is zero.
  HostArray unpacked(const reference::Layer &layer,
                     const std::string &name) const;
  /// Returns the SHA-256 hash of each weight.
  std::map<std::string, std::string> digests() const;
  /// Returns a copy in which the weights of one local expert are created from
  /// `seed`.
  HostWeights withExpert(const reference::Layer &layer, uint64_t seed,
                         int64_t expert) const;
  /// Points the weights of `inputs` to these arrays.
  void describe(const reference::Layer &layer, reference::Inputs &inputs) const;

private:
  /// Converts `arrays` from the layer's layout to the reference's layout, and
  /// quantizes weights stored as floats.
  void read(const reference::Layer &layer);
};

/// Returns the names of the weights that each local expert has.
std::vector<std::string> weightsOfExperts(const reference::Layer &layer);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_HOSTWEIGHTS_H
