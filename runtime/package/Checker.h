//===- Checker.h - checks shared by the validator's files -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/package. Every check returns the first error that it
// finds; the message contains the JSON path.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_CHECKER_H
#define MOEC_RUNTIME_PACKAGE_CHECKER_H

#include "runtime/package/Arguments.h"
#include "runtime/package/Manifest.h"
#include "runtime/package/Stages.h"

#include <fmt/core.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace moec {

class Checker {
public:
  explicit Checker(const Manifest &manifest) : manifest(manifest) {}

  const Manifest &manifest;

  template <typename... Args>
  static Error fail(const std::string &path, fmt::format_string<Args...> format,
                    Args &&...args) {
    return invalidManifest("{}: {}", path,
                           fmt::format(format, std::forward<Args>(args)...));
  }

  /// Checks that `name` is an identifier that is not yet in `seen`, and adds
  /// it.
  Result<void> checkName(const std::string &path, const std::string &name,
                         std::set<std::string> &seen);
  /// Evaluates an expression and checks that least <= result <= most.
  Result<int64_t> evaluate(const std::string &path,
                           const Expression &expression, const Symbols &symbols,
                           int64_t least, int64_t most);
  Result<void> checkInteger(const std::string &path, int64_t value,
                            int64_t least, int64_t most);
  /// Checks that `value` is contained in `words`.
  Result<void> checkWord(const std::string &path, const std::string &value,
                         std::initializer_list<std::string_view> words);

  // Validate.cpp
  Result<void> checkManifest();
  Result<void> checkRanks();
  Result<void> checkRealization();
  Result<void> checkValue(const std::string &path, const Value &value,
                          bool ofTarget);
  Result<void> checkTarget(const std::string &path, const Target &target,
                           std::set<std::string> &entries);
  // ValidateKernels.cpp
  Result<void> checkKernel(const std::string &path, const Target &target,
                           const Kernel &kernel);
  Result<void> checkArgument(const std::string &path, const std::string &where,
                             const Target &target, const ArgumentBlock &block,
                             const ArgumentField &field);
  Result<void> checkArguments(const std::string &path, const Target &target,
                              const Kernel &kernel);
  Result<void> checkIntegers(const std::string &path, std::string_view op,
                             std::string_view name, const Value &value);
  Result<void> checkOperands(const std::string &where, const Target &target,
                             const Kernel &kernel, const Stage &stage,
                             const StageKind &kind,
                             std::set<std::string> &locals);
  Result<void> checkAttributes(const std::string &where, const Stage &stage,
                               const StageKind &kind);
  Result<void> checkStages(const std::string &path, const Target &target,
                           const Kernel &kernel);
  Result<void> checkRankOperand(const std::string &path,
                                std::string_view operand,
                                std::string_view field, const Kernel &kernel);
  Result<void> checkLocalExperts(const std::string &path, const Stage &stage);
  Result<void> checkTensorMap(const std::string &path, const Target &target,
                              const TensorMap &map);
  // ValidateVariants.cpp
  Result<void> checkVariants(const std::string &path, const Target &target);
  Result<void> checkVariant(const std::string &path, const Target &target,
                            const Variant &variant);
  Result<void> checkRegions(const std::string &path, const Target &target,
                            const Variant &variant, const Symbols &symbols);
  Result<void> checkLaunch(const std::string &path, const Target &target,
                           const Launch &launch,
                           const std::vector<Symbols> &samples);
  // ValidateCollectives.cpp
  Result<void> checkCollective(const std::string &path, const Target &target,
                               const Collective &collective);
  Result<void> checkPackSteps(const std::string &path, const Target &target,
                              const Pack &pack, std::vector<Symbols> &samples);
  Result<void> checkPackLaunches(const std::string &path, const Target &target,
                                 const Pack &pack,
                                 const std::vector<Symbols> &samples);
  Result<void> checkPack(const std::string &path, const Target &target,
                         const Pack &pack, const std::set<std::string> &made);
  Result<void> checkPacks(const std::string &path, const Target &target);
  Result<void> checkState(const std::string &path, const Target &target);
  // ValidateWindow.cpp
  Result<void> checkWindow(const std::string &path, const Target &target);
  Result<void> checkExchangeWords(const std::string &path,
                                  const Target &target);
  Result<int64_t> mostBytes(const std::string &path, const Value &value);
};

/// Returns the names of the values that a kernel's pointers and tensor maps
/// refer to.
std::vector<std::string> touchedValues(const Target &target,
                                       const Kernel &kernel);

/// Returns symbols for sampled token counts of a range: both ends, their
/// neighbors and a few counts between. There are two sets of symbols per token
/// count, with a small and a large SM count.
std::vector<Symbols> sampleSymbols(const Manifest &manifest, int64_t minTokens,
                                   int64_t maxTokens);

/// The largest total size that the validator accepts, 2^62.
inline constexpr int64_t kMaxBytes = int64_t(1) << 62;

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_CHECKER_H
