//===- Choices.h - what the caller asks of the resolver ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_CHOICES_H
#define MOEC_COMPILER_PLAN_CHOICES_H

#include "runtime/support/Env.h"
#include "runtime/support/Result.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moec::compiler {

struct Choices {
  std::string backend; ///< forces a row of Backends.h; "" chooses
  std::string engine;  ///< forces a row of Engines.h; "" chooses
  /// Backends, engines and realizations that are not taken.
  std::vector<std::string> exclude;
  /// Realizations that are another layer, and may be taken.
  std::vector<std::string> allow;
  /// The options of these that an environment variable says.
  std::vector<std::string> variables;

  bool isExcluded(std::string_view word) const;
  bool isAllowed(std::string_view realization) const;
  /// "option", or the name of the variable that says it.
  std::string saidBy(std::string_view option) const;
  /// " by MOEC_ENGINE", say; "" of an option.
  std::string byVariable(std::string_view option) const;
  /// Only choices that options say.
  Choices withoutVariables() const;
  /// Option and value of what is asked, in a fixed order.
  std::vector<std::pair<std::string, std::string>> asked() const;
};

/// Calls see(name, member, variable, help) for each choice, in a fixed order.
/// `variable` is the environment variable that stands in for the option, or
/// null.
template <typename Options, typename See>
void forEachChoice(Options &options, See see) {
  const EnvVariable *none = nullptr;
  see("backend", options.backend, &EnvName("MOEC_BACKEND").variable(),
      "force a backend (moec list backends)");
  see("engine", options.engine, &EnvName("MOEC_ENGINE").variable(),
      "force an engine (moec list engines)");
  see("exclude", options.exclude, &EnvName("MOEC_EXCLUDE").variable(),
      "backends, engines and realizations that are not taken (moec list)");
  see("allow", options.allow, none,
      "realizations that compute another layer and may be taken: weight_only, "
      "which quantizes no activations");
}

/// InvalidArgument: an unknown word, with the known ones, or choices that
/// contradict each other.
Result<void> checkChoices(const Choices &choices);

/// Takes each choice that is empty from its environment variable.
void addVariables(Choices &choices);

/// "a,b" of {"a", "b"}, and back; no empty words.
std::string joinWords(const std::vector<std::string> &words);
std::vector<std::string> splitWords(std::string_view text);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_CHOICES_H
