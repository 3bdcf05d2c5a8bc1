//===- HostWeights.h - the stored weights of a layer ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Host copies, made by the counter-based generator of the reference (hence the
// same on every machine) or read out of a checkpoint; the reference reads them.
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

/// The stored weights of a layer by value name; made once for all runs.
struct HostWeights {
  std::map<std::string, HostArray> arrays; ///< as the reference reads them
  /// The weights that the layer stores in another way, as it stores them.
  std::map<std::string, HostArray> stored;
  /// Weights that follow from others which are stored as floats: no values of
  /// a package.
  std::set<std::string> derived;
  /// The array that a device is given.
  const HostArray &given(const std::string &name) const {
    const auto found = stored.find(name);
    return found == stored.end() ? arrays.at(name) : found->second;
  }
  static HostWeights make(const reference::Layer &layer, uint64_t seed);
  /// The size of `arrays`.
  static int64_t bytesOf(const reference::Layer &layer);
  /// The size of each weight as it is given [bytes], by name.
  static Result<std::map<std::string, int64_t>>
  sizesOf(const reference::Layer &layer);
  /// The weights that the package names, out of a checkpoint.
  static Result<HostWeights> load(const runtime::Package &package,
                                  weights::WeightLoader &loader);
  /// Puts arrays, as they are given, in place of those of the same names.
  void replace(const reference::Layer &layer,
               std::map<std::string, HostArray> others);
  /// One as unpacking gives it back: as it is given, but for padding, which is
  /// zero.
  HostArray unpacked(const reference::Layer &layer,
                     const std::string &name) const;
  /// SHA-256 of each.
  std::map<std::string, std::string> digests() const;
  /// These, with all that is one local expert's made anew.
  HostWeights withExpert(const reference::Layer &layer, uint64_t seed,
                         int64_t expert) const;
  /// Points the weights of `inputs` here.
  void describe(const reference::Layer &layer, reference::Inputs &inputs) const;

private:
  /// `arrays` as they are given become those that the reference reads.
  void read(const reference::Layer &layer);
};

/// The weights that each local expert has its own of.
std::vector<std::string> weightsOfExperts(const reference::Layer &layer);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_HOSTWEIGHTS_H
