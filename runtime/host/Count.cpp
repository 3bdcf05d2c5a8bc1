//===- Count.cpp - stage count on the host --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the pairs per token block and expert, including the experts of other
// ranks. Pairs whose id is not an expert's id are not counted.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"

using namespace moec;
using namespace moec::host;

Result<void> stages::count(KernelRun &run) {
  int64_t experts = run.integer("experts");
  int64_t size = TRY(run.size("tokens"));
  int64_t blockTokens = KernelRun::blockTokens(*run.stage, size);
  int64_t pairs = TRY(run.columnsOf("topk_ids"));
  if (experts < 1 || blockTokens < 1)
    return run.fail(
        "expected experts and block_tokens of at least 1, got {} and {}",
        experts, blockTokens);
  int64_t tokens = run.coveredTokens(size, blockTokens);
  int64_t blocks = (tokens + blockTokens - 1) / blockTokens;
  View ids = TRY(run.needed("topk_ids", tokens, pairs));
  View counts =
      TRY(run.neededResult("block_counts", blocks, experts, Storage::I32));
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<int64_t> count(experts);
    int64_t end = std::min(tokens, (block + 1) * blockTokens);
    for (int64_t token = block * blockTokens; token < end; ++token)
      for (int64_t k = 0; k < pairs; ++k)
        if (int64_t id = ids.integer(token, k); id >= 0 && id < experts)
          ++count[id];
    for (int64_t expert = 0; expert < experts; ++expert)
      counts.setInteger(block, expert, count[expert]);
  }
  return {};
}
