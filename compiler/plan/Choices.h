//===- Choices.h - the user's choices for the resolver ----------*- C++ -*-===//
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
  /// Name of the backend that the user forces (dialect/catalog/Backends.h); "":
  /// none.
  std::string backend;
  /// Name of the engine that the user forces (dialect/catalog/Engines.h); "":
  /// none.
  std::string engine;
  /// Names of backends, engines and realizations that the resolver must not
  /// choose.
  std::vector<std::string> exclude;
  /// Names of realizations that compute a different layer. The resolver may
  /// choose them only if they are listed here.
  std::vector<std::string> allow;
  /// Names of the options above whose value came from an environment variable.
  std::vector<std::string> variables;

  bool isExcluded(std::string_view word) const;
  bool isAllowed(std::string_view realization) const;
  /// Returns "option" if the command line or the caller set the option.
  /// Otherwise returns the name of the environment variable that set it.
  std::string saidBy(std::string_view option) const;
  /// Returns text for messages, such as " by MOEC_ENGINE", or "" if no
  /// environment variable set the option.
  std::string byVariable(std::string_view option) const;
  /// Returns a copy without the values that came from environment variables.
  Choices withoutVariables() const;
  /// Returns the name and value of each option that is set, in a fixed order.
  std::vector<std::pair<std::string, std::string>> asked() const;
};

/// Calls see(name, member, variable, help) for each choice, in a fixed order.
/// `variable` is the environment variable whose value is used if the option is
/// missing, or null.
template <typename Options, typename See>
void forEachChoice(Options &options, See see) {
  const EnvVariable *none = nullptr;
  see("backend", options.backend, &EnvName("MOEC_BACKEND").variable(),
      "force a backend (moec list backends)");
  see("engine", options.engine, &EnvName("MOEC_ENGINE").variable(),
      "force an engine (moec list engines)");
  see("exclude", options.exclude, &EnvName("MOEC_EXCLUDE").variable(),
      "backends, engines and realizations that are not used (moec list)");
  see("allow", options.allow, none,
      "realizations that compute another layer and may be taken: weight_only, "
      "which quantizes no activations");
}

/// Checks that all names are known and that the choices do not contradict each
/// other. Returns InvalidArgument otherwise. The message for an unknown name
/// lists the known names.
Result<void> checkChoices(const Choices &choices);

/// Sets each empty choice from its environment variable.
void addVariables(Choices &choices);

/// joinWords({"a", "b"}) returns "a,b". splitWords() is its inverse, and drops
/// empty words.
std::string joinWords(const std::vector<std::string> &words);
std::vector<std::string> splitWords(std::string_view text);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_CHOICES_H
