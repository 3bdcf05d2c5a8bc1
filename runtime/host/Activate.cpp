//===- Activate.cpp - stage activate on the host --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses the activation functions of the kernels
// (templates/moe/math/activation.cuh), selected by the stage's attribute
// `function`. Results are rounded once to the result's element type. Each
// expert may have its own activation parameters.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"
#include "runtime/support/WordList.h"
#include "templates/moe/math/host.h"

#include <algorithm>
#include <array>

using namespace moec;
using namespace moec::host;
namespace activation = moe::activation;

namespace {

constexpr std::array<const char *, 4> kNumbers = {"alpha", "beta",
                                                  "linear_beta", "limit"};

/// Default values of the parameters that a layer does not specify. A limit of 0
/// disables the limit.
struct Defaults {
  static constexpr float kAlpha = 1, kBeta = 0, kLinearBeta = 0, kLimit = 0;
};

/// The parameters of one activation function: alpha, beta, linear beta and
/// limit.
using Numbers = activation::OfExpert<Defaults>;

constexpr float Numbers::*kNumberFields[] = {
    &Numbers::ofAlpha, &Numbers::ofBeta, &Numbers::ofLinearBeta,
    &Numbers::ofLimit};

template <class Function> float plain(float value, const Numbers &) {
  return Function::value(value);
}
template <class Function> float gated(float gate, float up, const Numbers &) {
  return activation::Gated<Function>::apply(gate, up);
}
template <class Activation>
float withNumbers(float gate, float up, const Numbers &numbers) {
  return Activation{numbers}.apply(gate, up);
}
template <class Activation>
float plainWithNumbers(float value, const Numbers &numbers) {
  return Activation{numbers}.apply(value);
}

struct Function {
  std::string_view name;
  WordList takes; ///< the parameters of kNumbers that the function accepts
  /// Null if the activation has no gated form.
  float (*gated)(float gate, float up, const Numbers &numbers);
  /// Null if the activation has no ungated form.
  float (*plain)(float value, const Numbers &numbers);
};

constexpr Function kFunctions[] = {
#define MOEC_ACTIVATION(name, takes, gated, plain) {name, takes, gated, plain},
#include "runtime/host/Policies.inc"
#undef MOEC_ACTIVATION
};

Result<const Function *> functionOf(KernelRun &run) {
  std::string name = run.word("function"), known;
  for (const Function &function : kFunctions) {
    if (function.name == name)
      return &function;
    known += (known.empty() ? "" : ", ") + std::string(function.name);
  }
  return run.fail("expected a function of {}, got '{}'", known, name);
}

/// The layer's activation parameters, and the per-expert parameters that
/// override them.
struct AllNumbers {
  Numbers ofLayer;
  std::array<View, 4> ofExperts;

  bool areOfExperts() const {
    return std::ranges::any_of(ofExperts,
                               [](const View &view) { return bool(view); });
  }
  Numbers of(int64_t expert) const {
    Numbers numbers = ofLayer;
    for (size_t i = 0; i < kNumbers.size(); ++i)
      if (ofExperts[i])
        numbers.*kNumberFields[i] = ofExperts[i].number(0, expert);
    return numbers;
  }
};

Result<AllNumbers> numbersOf(KernelRun &run, const Function &function,
                             bool gated) {
  AllNumbers all;
  for (size_t i = 0; i < kNumbers.size(); ++i) {
    std::string weight = std::string("activation_") + kNumbers[i];
    const std::optional<float> number = run.number(kNumbers[i]);
    const bool ofExperts = run.has(weight);
    if ((number || ofExperts) &&
        ((!gated && function.gated) || !function.takes.contains(kNumbers[i])))
      return run.fail("expected no {} with function {}{}", kNumbers[i],
                      function.name, gated ? "" : " without a gate");
    if (number)
      all.ofLayer.*kNumberFields[i] = *number;
    if (!ofExperts)
      continue;
    int64_t experts = TRY(run.columnsOf(weight));
    all.ofExperts[i] = TRY(run.needed(weight, 1, experts));
  }
  return all;
}

/// Returns the expert of each of the first `count` sorted rows. The experts
/// come from the end offsets of the experts if the stage has `offsets`,
/// otherwise from the tiles.
Result<std::vector<int64_t>> expertsOf(KernelRun &run, const View &offsets,
                                       int64_t count) {
  std::vector<int64_t> experts(count, 0);
  if (offsets) {
    for (int64_t row = 0, expert = 0; row < count; ++row) {
      while (expert + 1 < offsets.columns &&
             row >= offsets.integer(0, expert + 1))
        ++expert;
      experts[row] = expert;
    }
    return experts;
  }
  for (const Tile &tile : TRY(readTiles(run)))
    for (int64_t row = tile.begin; row < std::min(tile.end, count); ++row)
      experts[row] = tile.expert;
  return experts;
}

} // namespace

Result<void> stages::activate(KernelRun &run) {
  const Function *function = TRY(functionOf(run));
  bool gated = run.flag("gated", true);
  int64_t interleave = run.integer("interleave");
  if (!gated && !function->plain)
    return run.fail("expected function {} with a gate", function->name);
  if (gated && !function->gated)
    return run.fail("expected function {} without a gate", function->name);
  AllNumbers numbers = TRY(numbersOf(run, *function, gated));

  int64_t columns = TRY(run.columnsOf("input"));
  if (columns < 1 || (gated && columns % 2) ||
      (gated && interleave && columns % (2 * interleave)))
    return run.fail("expected gate and up in blocks of {}, got {} columns",
                    interleave, columns);
  int64_t rows = 0;
  View ends;
  if (run.has("offsets")) {
    int64_t entries = TRY(run.columnsOf("offsets"));
    if (entries < 1)
      return run.fail("expected offsets of one or more experts");
    ends = TRY(run.needed("offsets", 1, entries));
    rows = ends.integer(0, entries - 1);
    if (rows < 0)
      return run.fail("expected rows >= 0, offsets end with {}", rows);
    // A separate activation kernel has one CTA per row.
    rows = std::min(rows, run.ctas());
  } else {
    rows = TRY(run.rowsOf("input"));
  }
  int64_t outColumns = gated ? columns / 2 : columns;
  View input = TRY(run.needed("input", rows, columns));
  // The addend has one row per pair. Row r of the input uses row rows[r] of the
  // addend.
  View pairs = TRY(run.operand("rows", 1, rows));
  int64_t pairCount = 0;
  for (int64_t r = 0; pairs && r < rows; ++r)
    pairCount = std::max(pairCount, pairs.integer(0, r) + 1);
  View addend = TRY(run.operand("addend", pairCount, columns));
  if (rows > 0 && addend && !pairs)
    return run.fail("expected memory for rows with an addend");
  View result = TRY(run.neededResult("result", rows, outColumns));
  if (rows == 0)
    return {};

  std::vector<int64_t> experts(rows, 0);
  if (numbers.areOfExperts())
    experts = TRY(expertsOf(run, ends, rows));
  parallelFor(run.threads, rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(columns), out(outColumns), more(columns);
    for (int64_t r = begin; r < end; ++r) {
      const Numbers ofRow = numbers.of(experts[r]);
      loadFloats(input.storage, input.at(r), columns, row.data());
      std::ranges::fill(more, 0.0f);
      if (addend)
        loadFloats(addend.storage, addend.at(pairs.integer(0, r)), columns,
                   more.data());
      for (int64_t c = 0; c < outColumns; ++c) {
        if (!gated) {
          out[c] = function->plain(row[c] + more[c], ofRow);
          continue;
        }
        int64_t gateColumn = c, upColumn = outColumns + c;
        if (interleave) {
          gateColumn = c / interleave * 2 * interleave + c % interleave;
          upColumn = gateColumn + interleave;
        }
        out[c] = function->gated(row[gateColumn] + more[c],
                                 row[upColumn] + more[outColumns + c], ofRow);
      }
      storeFloats(result.storage, out.data(), outColumns, result.at(r));
    }
  });
  return {};
}
