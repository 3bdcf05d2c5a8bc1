//===- FuzzExpression.cpp - the manifest's expressions --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The canonical text is read again as the same expression, and both give the
// same values.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Expression.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<Expression> read = Expression::parse(fuzz::textOf(data, size));
  if (!read) {
    fuzz::requireRefusal(read.error());
    return 0;
  }
  Result<Expression> again = Expression::parse(read->text());
  fuzz::require(static_cast<bool>(again), "canonical text is an expression");
  fuzz::require(*again == *read, "canonical text stays as it is");
  constexpr int64_t kPoints[][5] = {
      {0, 1, 1, 1, 1},
      {1, 8, 64, 132, 4},
      {7, 56, 64, 1, 0},
      {-1, -5, 3, 2, 2},
      {65536, 1 << 19, 65536, 132, 256},
      {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
      {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}};
  for (const auto &point : kPoints) {
    Symbols symbols;
    symbols.tokens = point[0], symbols.rows = point[1];
    symbols.maxTokens = point[2], symbols.smCount = point[3];
    symbols.experts = point[4];
    Result<int64_t> one = read->evaluate(symbols);
    Result<int64_t> two = again->evaluate(symbols);
    fuzz::require(static_cast<bool>(one) == static_cast<bool>(two) &&
                      (!one || *one == *two),
                  "equal expressions have equal values");
    if (auto constant = read->constant())
      fuzz::require(one && *one == *constant, "a constant is its value");
  }
  return 0;
}
