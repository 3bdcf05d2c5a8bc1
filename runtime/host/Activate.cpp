//===- Activate.cpp - stage activate on the host -------------------------------
//===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// result = act(gate) * (up + beta), or act(x) where the function is not gated,
// in f32, rounded once to the result's type. alpha scales the argument of
// silu's sigmoid; limit bounds the gate from above and up on both sides, that
// of swiglustep what silu leaves. situ bounds both by tanh.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <cmath>
#include <fmt/format.h>
#include <optional>

using namespace moec;
using namespace moec::host;

namespace {

enum class Function { Silu, Gelu, GeluTanh, Relu2, SwigluStep, Situ };

float apply(Function function, float x, float alpha) {
  switch (function) {
  case Function::Silu:
  case Function::SwigluStep:
    return x / (1.0f + std::exp(-alpha * x));
  case Function::Relu2:
    return x > 0 ? x * x : x <= 0 ? 0.0f : x;
  case Function::Situ:
    return 1.0f / (1.0f + std::exp(-x));
  case Function::Gelu:
    // 1/sqrt(2); erfc keeps the relative accuracy of the left tail.
    return 0.5f * x * std::erfc(-x * 0.70710678118654752f);
  case Function::GeluTanh: {
    // sqrt(2/pi) and the cubic term of the usual approximation. tanh as a
    // sigmoid, 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2u)), for the same reason.
    float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return x / (1.0f + std::exp(-2.0f * inner));
  }
  }
  return x;
}

} // namespace

Result<void> moec::host::runActivate(KernelRun &run, const Stage &stage) {
  std::string name = run.word(stage, "function");
  Function function;
  if (name == "silu")
    function = Function::Silu;
  else if (name == "gelu")
    function = Function::Gelu;
  else if (name == "gelu_tanh")
    function = Function::GeluTanh;
  else if (name == "relu2")
    function = Function::Relu2;
  else if (name == "swiglustep")
    function = Function::SwigluStep;
  else if (name == "situ")
    function = Function::Situ;
  else
    return run.fail(stage, fmt::format("expected function silu, gelu, "
                                       "gelu_tanh, relu2, swiglustep or situ, "
                                       "got '{}'",
                                       name));
  bool gated = stage.attributes.value("gated", true);
  int64_t interleave = run.integer(stage, "interleave");
  auto number = [&](const char *attribute) -> std::optional<float> {
    auto found = stage.attributes.find(attribute);
    if (found == stage.attributes.end() || !found->is_number())
      return std::nullopt;
    return found->get<float>();
  };
  std::optional<float> alpha = number("alpha"), beta = number("beta"),
                       limit = number("limit"),
                       linearBeta = number("linear_beta");
  const bool isSitu = function == Function::Situ;
  if (isSitu && (!beta || alpha || limit))
    return run.fail(stage, "expected a beta, and no alpha or limit, with "
                           "function situ");
  if (function != Function::Silu && function != Function::SwigluStep &&
      !isSitu && (alpha || beta || limit))
    return run.fail(stage, fmt::format("expected no alpha, beta or limit with "
                                       "function {}",
                                       name));
  if (!gated && (beta || limit))
    return run.fail(stage, "expected no beta or limit without a gate");
  const bool limitsAfter = function == Function::SwigluStep;

  Result<int64_t> columns = run.columnsOf(stage, "input");
  if (!columns)
    return columns.takeError();
  if (*columns < 1 || (gated && *columns % 2) ||
      (gated && interleave && *columns % (2 * interleave)))
    return run.fail(stage, fmt::format("expected gate and up in blocks of {}, "
                                       "got {} columns",
                                       interleave, *columns));
  int64_t rows = 0;
  if (stage.operands.count("offsets")) {
    Result<int64_t> entries = run.columnsOf(stage, "offsets");
    if (!entries)
      return entries.takeError();
    Result<View> offsets = run.operand(stage, "offsets", 1, *entries);
    if (!offsets)
      return offsets.takeError();
    if (!*offsets || *entries < 1)
      return run.fail(stage, "expected memory for offsets");
    rows = offsets->integer(0, *entries - 1);
    if (rows < 0)
      return run.fail(stage, fmt::format("expected rows >= 0, offsets end with "
                                         "{}",
                                         rows));
    // One CTA a row in a kernel of its own.
    rows = std::min(rows, run.ctas());
  } else {
    Result<int64_t> local = run.rowsOf(stage, "input");
    if (!local)
      return local.takeError();
    rows = *local;
  }
  int64_t outColumns = gated ? *columns / 2 : *columns;
  Result<View> input = run.operand(stage, "input", rows, *columns);
  if (!input)
    return input.takeError();
  // Rows of the addend are those of pairs.
  Result<View> pairs = run.operand(stage, "rows", 1, rows);
  if (!pairs)
    return pairs.takeError();
  int64_t pairCount = 0;
  for (int64_t r = 0; *pairs && r < rows; ++r)
    pairCount = std::max(pairCount, pairs->integer(0, r) + 1);
  Result<View> addend = run.operand(stage, "addend", pairCount, *columns);
  if (!addend)
    return addend.takeError();
  if (rows > 0 && *addend && !*pairs)
    return run.fail(stage, "expected memory for rows with an addend");
  Result<View> result = run.result(stage, "result", rows, outColumns);
  if (!result)
    return result.takeError();
  if (rows == 0)
    return {};
  if (!*input || !*result)
    return run.fail(stage, "expected memory for input and result");

  parallelFor(run.threads, rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(*columns), out(outColumns), more(*columns);
    for (int64_t r = begin; r < end; ++r) {
      loadFloats(input->storage, input->at(r), *columns, row.data());
      std::fill(more.begin(), more.end(), 0.0f);
      if (*addend)
        loadFloats(addend->storage, addend->at(pairs->integer(0, r)), *columns,
                   more.data());
      for (int64_t c = 0; c < outColumns; ++c) {
        if (!gated) {
          out[c] = apply(function, row[c] + more[c], alpha.value_or(1.0f));
          continue;
        }
        int64_t gateColumn = c, upColumn = outColumns + c;
        if (interleave) {
          gateColumn = c / interleave * 2 * interleave + c % interleave;
          upColumn = gateColumn + interleave;
        }
        float gate = row[gateColumn] + more[c];
        float up = row[upColumn] + more[outColumns + c];
        if (isSitu) {
          if (linearBeta && *linearBeta > 0)
            up = *linearBeta * std::tanh(up / *linearBeta);
          out[c] = *beta * std::tanh(gate / *beta) *
                   apply(function, gate, 1.0f) * up;
          continue;
        }
        if (limit) {
          // Comparisons that let NaN pass.
          gate = gate > *limit && !limitsAfter ? *limit : gate;
          up = up > *limit ? *limit : up < -*limit ? -*limit : up;
        }
        if (limitsAfter) {
          const float value = apply(function, gate, 1.0f);
          out[c] = (limit && value > *limit ? *limit : value) * up;
          continue;
        }
        out[c] = apply(function, gate, alpha.value_or(1.0f)) *
                 (up + beta.value_or(0.0f));
      }
      storeFloats(result->storage, out.data(), outColumns, result->at(r));
    }
  });
  return {};
}
