//===- SharedRows.cpp - stage shared_rows on the host ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates the row positions, row tiles and routing weights (`topk_weights`) of
// a shared expert. It processes every valid token, so row t is token t.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "templates/moe/math/host.h"

#include <algorithm>

using namespace moec;
using namespace moec::host;

Result<void> stages::shared_rows(KernelRun &run) {
  const int64_t tokens = TRY(run.size("tokens"));
  View valid = TRY(run.operand("valid_tokens", 1, 1));
  View gate = TRY(run.neededIfNamed("shared_gate", tokens, 1));
  View offsets = TRY(run.neededResult("offsets", 1, 2, Storage::I32));
  View positions = TRY(run.neededResult("positions", tokens, 1, Storage::I32));
  View weights = TRY(run.neededResult("topk_weights", tokens, 1));
  const int64_t rows =
      valid ? std::clamp<int64_t>(valid.integer(0), 0, tokens) : tokens;
  offsets.setInteger(0, 0, 0);
  offsets.setInteger(0, 1, rows);
  for (int64_t token = 0; token < tokens; ++token) {
    const bool isRow = token < rows;
    positions.setInteger(token, 0, isRow ? token : -1);
    float weight = isRow ? 1.0f : 0.0f;
    if (isRow && gate)
      weight = moe::routing::weightOfGate(gate.number(token));
    storeFloats(weights.storage, &weight, 1, weights.at(token));
  }
  const int64_t first = 0;
  return writeTiles(run, {&first, 1}, {&rows, 1});
}
