//===- Permute.cpp - stage permute on the host ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sorts the (token, k) pairs of this rank's experts by expert, then by pair
// index. As on the GPU, positions are computed from block_counts. The position
// of a pair is the number of pairs of all earlier experts, plus its expert's
// pairs in earlier token blocks, plus its expert's earlier pairs in its own
// block.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"

using namespace moec;
using namespace moec::host;

Result<void> stages::permute(KernelRun &run) {
  int64_t experts = run.integer("experts");
  int64_t localBegin = TRY(run.ofRank("local_begin", 0));
  int64_t local = run.integer("local_experts");
  int64_t pairs = run.integer("pairs");
  int64_t size = TRY(run.size("tokens"));
  int64_t blockTokens = KernelRun::blockTokens(*run.stage, size);
  if (local < 1 || localBegin < 0 || localBegin + local > experts ||
      pairs < 1 || blockTokens < 1)
    return run.fail("expected local experts within {} and pairs and "
                    "block_tokens of at least 1, got {}+{}, {}, {}",
                    experts, localBegin, local, pairs, blockTokens);
  int64_t tokens = run.coveredTokens(size, blockTokens);
  int64_t allBlocks = (size + blockTokens - 1) / blockTokens;
  int64_t blocks = (tokens + blockTokens - 1) / blockTokens;

  View ids = TRY(run.needed("topk_ids", tokens, pairs));
  View blockCounts = TRY(run.needed("block_counts", allBlocks, experts));
  View offsets = TRY(run.neededResult("offsets", 1, local + 1, Storage::I32));
  View positions =
      TRY(run.neededResult("positions", tokens, pairs, Storage::I32));
  View counts = TRY(run.result("counts", 1, local, Storage::I32));

  // next[e]: position of the next pair of local expert e.
  std::vector<int64_t> offset(local + 1), next(local);
  for (int64_t e = 0; e < local; ++e) {
    int64_t count = 0;
    for (int64_t block = 0; block < allBlocks; ++block) {
      int64_t here = blockCounts.integer(block, localBegin + e);
      if (here < 0 || here > blockTokens * pairs)
        return run.fail("expected 0 to {} pairs in a block, block_counts has "
                        "{} for expert {} in block {}",
                        blockTokens * pairs, here, localBegin + e, block);
      count += here;
    }
    next[e] = offset[e];
    offset[e + 1] = offset[e] + count;
  }
  int64_t rowTotal = offset[local];
  View rows = TRY(run.neededResult("rows", 1, rowTotal, Storage::I32));

  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<int64_t> first = next;
    int64_t end = std::min(tokens, (block + 1) * blockTokens);
    for (int64_t token = block * blockTokens; token < end; ++token)
      for (int64_t k = 0; k < pairs; ++k) {
        int64_t e = ids.integer(token, k) - localBegin;
        if (e < 0 || e >= local) {
          positions.setInteger(token, k, -1);
          continue;
        }
        int64_t position = next[e]++;
        if (position >= offset[e + 1])
          return run.fail("expected block_counts to hold every pair, expert {} "
                          "has more than {}",
                          localBegin + e, offset[e + 1] - offset[e]);
        positions.setInteger(token, k, position);
        rows.setInteger(0, position, token * pairs + k);
      }
    for (int64_t e = 0; e < local; ++e)
      next[e] = first[e] + blockCounts.integer(block, localBegin + e);
  }
  for (int64_t e = 0; e <= local; ++e)
    offsets.setInteger(0, e, offset[e]);
  std::vector<int64_t> own(local);
  for (int64_t e = 0; e < local; ++e)
    own[e] = offset[e + 1] - offset[e];
  if (counts)
    for (int64_t e = 0; e < local; ++e)
      counts.setInteger(0, e, own[e]);
  return writeTiles(run, {offset.data(), own.size()}, own);
}

Result<void> stages::pair_rows(KernelRun &run) {
  const int64_t experts = run.integer("experts");
  const int64_t local = run.integer("local_experts");
  const int64_t pairs = run.integer("pairs");
  const int64_t localBegin = TRY(run.ofRank("local_begin", 0));
  if (local < 0 || localBegin < 0 || localBegin + local > experts || pairs < 1)
    return run.fail("expected local experts within {} and pairs of at least 1, "
                    "got {}+{} and {}",
                    experts, localBegin, local, pairs);
  const int64_t tokens = TRY(tokensOfBlocks(run));
  View ids = TRY(run.needed("topk_ids", tokens, pairs));
  View positions =
      TRY(run.neededResult("positions", tokens, pairs, Storage::I32));
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t k = 0; k < pairs; ++k) {
      const int64_t expert = ids.integer(token, k) - localBegin;
      positions.setInteger(
          token, k, expert >= 0 && expert < local ? token * pairs + k : -1);
    }
  return {};
}
