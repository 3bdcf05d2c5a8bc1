//===- Batched.cpp - rows that come by expert -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Who sent the rows has routed: each is its expert's, with weight 1.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"

namespace moec::reference {

bool isRow(const Layer &layer, const Inputs &inputs, int64_t row) {
  if (!layer.batched)
    return true;
  const int64_t slots = inputs.tokens / layer.localExperts;
  return row % slots < inputs.expertCounts[row / slots];
}

Result<Routing> routeBatched(const Layer &layer, const Inputs &inputs) {
  if (inputs.tokens % layer.localExperts != 0 ||
      int64_t(inputs.expertCounts.size()) != layer.localExperts)
    return Error{ErrorCode::InvalidArgument,
                 "batched rows need as many slots and a count for each expert"};
  Routing routing;
  routing.tokens = inputs.tokens;
  routing.pairs = 1;
  routing.ids.assign(inputs.tokens, -1);
  routing.locals.assign(inputs.tokens, -1);
  routing.weights.assign(inputs.tokens, 0.0f);
  routing.counts.assign(layer.localExperts, 0);
  const int64_t slots = inputs.tokens / layer.localExperts;
  for (int64_t row = 0; row < inputs.tokens; ++row) {
    if (!isRow(layer, inputs, row))
      continue;
    const int64_t expert = row / slots;
    routing.ids[row] = int32_t(layer.localBegin + expert);
    routing.locals[row] = int32_t(expert);
    routing.weights[row] = 1;
    ++routing.counts[expert];
  }
  return routing;
}

} // namespace moec::reference
