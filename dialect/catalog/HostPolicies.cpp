//===- HostPolicies.cpp - the policies of the catalog for the host --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program of the build. It prints a line for each function of an activation,
// each score and each normalization that a row of the catalog names, with the
// types of templates/moe/math that compute them, and for each order of gate and
// up rows. Files of runtime/host make their tables of it, so a new policy needs
// its row and its type alone.
//
//===----------------------------------------------------------------------===//

#include "dialect/catalog/Activations.h"
#include "dialect/catalog/GateUpOrders.h"
#include "dialect/catalog/RoutingMethods.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

using namespace moec::catalog;

namespace {
/// A function, of all rows that name it.
struct Function {
  std::string policy, numbersPolicy, parameters;
};
} // namespace

/// The policy of `word`, which rows that name it agree on.
static void setPolicy(std::string_view word, std::string_view policy,
                      std::string &to) {
  if (policy.empty())
    return;
  if (!to.empty() && to != policy) {
    std::fprintf(stderr, "'%s' has two policies: %s, %s\n",
                 std::string(word).c_str(), to.c_str(),
                 std::string(policy).c_str());
    std::exit(1);
  }
  to = policy;
}

static void addWords(std::string &to, std::string_view words) {
  for (size_t i = 0; i < countWords(words); ++i) {
    if (hasWord(to, wordAt(words, i)))
      continue;
    if (!to.empty())
      to += ' ';
    to += wordAt(words, i);
  }
}

static void printActivations() {
  std::map<std::string_view, Function> functions;
  for (const Activation &row : kActivations) {
    Function &function = functions[row.function];
    setPolicy(row.function, row.policy, function.policy);
    setPolicy(row.function, row.numbersPolicy, function.numbersPolicy);
    addWords(function.parameters, row.parameters);
  }
  std::puts("#ifdef MOEC_ACTIVATION");
  for (const auto &[name, function] : functions) {
    const std::string gated =
        function.numbersPolicy.empty()
            ? "gated<" + function.policy + ">"
            : "withNumbers<" + function.numbersPolicy + "<Numbers>>";
    const std::string plain =
        function.policy.empty() ? "nullptr" : "plain<" + function.policy + ">";
    std::printf("MOEC_ACTIVATION(\"%s\", \"%s\", %s, %s)\n",
                std::string(name).c_str(), function.parameters.c_str(),
                gated.c_str(), plain.c_str());
  }
  std::puts("#endif");
}

/// Policies by the words of a member of the rows of routing methods.
static void printRouting(const char *macro,
                         std::string_view RoutingMethod::*word,
                         std::string_view RoutingMethod::*policy) {
  std::map<std::string_view, std::string> policies;
  for (const RoutingMethod &row : kRoutingMethods)
    setPolicy(row.*word, row.*policy, policies[row.*word]);
  std::printf("#ifdef %s\n", macro);
  for (const auto &[name, type] : policies)
    std::printf("%s(\"%s\", %s)\n", macro, std::string(name).c_str(),
                type.c_str());
  std::puts("#endif");
}

static void printGateUpOrders() {
  std::puts("#ifdef MOEC_GATE_UP_ORDER");
  for (const GateUpOrder &row : kGateUpOrders)
    std::printf("MOEC_GATE_UP_ORDER(\"%s\", %d, %s)\n",
                std::string(row.name).c_str(), row.run,
                row.upFirst ? "true" : "false");
  std::puts("#endif");
}

int main() {
  printActivations();
  printGateUpOrders();
  printRouting("MOEC_SCORE", &RoutingMethod::score,
               &RoutingMethod::scorePolicy);
  printRouting("MOEC_NORMALIZE", &RoutingMethod::normalize,
               &RoutingMethod::normalizePolicy);
}
