//===- HostPolicies.cpp - the catalog's policies for the host -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program of the build that prints a line with the types in
// templates/moe/math for each activation function, score and normalization, and
// one for each order of gate and up rows. Files of runtime/host build their
// tables from its output, so a new policy needs only a row and a type.
//
//===----------------------------------------------------------------------===//

#include "dialect/catalog/Activations.h"
#include "dialect/catalog/GateUpOrders.h"
#include "dialect/catalog/RoutingMethods.h"

#include <cstdio>
#include <map>
#include <string>

using namespace moec;
using namespace moec::catalog;

/// Returns the parameters of all activations that apply a function, each name
/// once.
static std::string parametersOf(const ActivationFunction &function) {
  std::string parameters;
  for (const Activation &row : kActivations) {
    if (row.function != function.name)
      continue;
    for (std::string_view parameter : row.parameters) {
      if (WordList(parameters).contains(parameter))
        continue;
      parameters.append(parameters.empty() ? "" : " ").append(parameter);
    }
  }
  return parameters;
}

/// Returns the rows of a table sorted by name, the order in which messages list
/// them.
template <typename Row, size_t N>
static std::map<std::string_view, Row> sorted(const Row (&table)[N]) {
  std::map<std::string_view, Row> rows;
  for (const Row &row : table)
    rows[row.name] = row;
  return rows;
}

static void printActivations() {
  std::puts("#ifdef MOEC_ACTIVATION");
  for (const auto &[name, function] : sorted(kActivationFunctions)) {
    const auto named = [](std::string with, std::string_view policy,
                          std::string_view numbers) {
      return with.append("<").append(policy).append(numbers).append(">");
    };
    std::string gated = "nullptr", plain = "nullptr";
    if (!function.numbersPolicy.empty())
      gated = named("withNumbers", function.numbersPolicy, "<Numbers>");
    else if (!function.policy.empty())
      gated = named("gated", function.policy, "");
    if (!function.plainNumbersPolicy.empty())
      plain =
          named("plainWithNumbers", function.plainNumbersPolicy, "<Numbers>");
    else if (!function.policy.empty())
      plain = named("plain", function.policy, "");
    std::printf("MOEC_ACTIVATION(\"%s\", \"%s\", %s, %s)\n",
                std::string(name).c_str(), parametersOf(function).c_str(),
                gated.c_str(), plain.c_str());
  }
  std::puts("#endif");
}

template <size_t N>
static void printRouting(const char *macro, const RoutingStep (&table)[N]) {
  std::printf("#ifdef %s\n", macro);
  for (const auto &[name, row] : sorted(table))
    std::printf("%s(\"%s\", %s)\n", macro, std::string(name).c_str(),
                std::string(row.policy).c_str());
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
  printRouting("MOEC_SCORE", kScores);
  printRouting("MOEC_NORMALIZE", kNormalizations);
}
