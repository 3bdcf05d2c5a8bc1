//===- Routing.h - what a routing must give ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of routing and of the sorted order in plain loops.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_ROUTING_H
#define MOEC_TEST_TEMPLATES_ROUTING_H

#include "test/templates/Layer.h"

#include <numeric>

namespace harness {

/// Ids and weights of one token by the rules of routing.
inline void routeToken(const float *logits, const Shape &s, const Line &route,
                       int *ids, double *weights) {
  std::vector<int> order(s.experts);
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int e) {
    return std::isnan(logits[e]) ? -INFINITY : logits[e];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return key(a) > key(b); });
  double maximum = -INFINITY, sum = 0;
  for (int e = 0; e < s.experts; ++e)
    if (std::isfinite(logits[e]))
      maximum = std::max(maximum, double(logits[e]));
  for (int e = 0; e < s.experts; ++e)
    if (std::isfinite(logits[e]))
      sum += std::exp(double(logits[e]) - maximum);
  bool softmax = route.text("score") == "Softmax";
  double best = -INFINITY, total = 0;
  for (int k = 0; k < s.topK; ++k) {
    double logit = logits[ids[k] = order[k]];
    double score = softmax ? std::exp(logit - maximum) / sum : logit;
    weights[k] = std::isfinite(logit) ? score : NAN;
    if (std::isfinite(weights[k]))
      best = std::max(best, weights[k]);
  }
  const std::string &normalize = route.text("normalize");
  for (int k = 0; k < s.topK; ++k) {
    if (!std::isfinite(weights[k]))
      weights[k] = 0;
    else if (normalize == "SoftmaxSelected")
      weights[k] = std::exp(weights[k] - best);
    total += weights[k];
  }
  if (normalize != "None")
    for (int k = 0; k < s.topK; ++k)
      weights[k] = total != 0 ? weights[k] / total : 1.0 / s.topK;
}

/// What is wrong in the sorted order of these ids; nothing if all is right.
inline std::string wrongOrder(const Shape &s, const Workspace &w,
                              const std::vector<int> &ids, int tileRows,
                              int rowStep) {
  std::vector<int> counts(s.local), offsets(s.local + 1), rows(ids.size(), -1),
      positions(ids.size(), -1), tiles;
  for (int id : ids)
    if (id >= s.begin && id < s.begin + s.local)
      ++counts[id - s.begin];
  for (int e = 0; e < s.local; ++e) {
    offsets[e + 1] = offsets[e] + counts[e];
    int each = rowsOfTile(counts[e], tileRows, rowStep);
    for (int first = offsets[e]; first < offsets[e + 1]; first += each)
      for (int word : {e, first, std::min(first + each, offsets[e + 1]), 0})
        tiles.push_back(word);
  }
  int tileCount = int(tiles.size() / 4);
  tiles.resize(size_t(w.capacity) * 4);
  std::vector<int> next = offsets;
  for (size_t pair = 0; pair < ids.size(); ++pair)
    if (ids[pair] >= s.begin && ids[pair] < s.begin + s.local) {
      positions[pair] = next[ids[pair] - s.begin]++;
      rows[positions[pair]] = int(pair);
    }
  std::string wrong;
  auto same = [&](const char *what, const Buffer &buffer,
                  const std::vector<int> &expected, size_t count) {
    std::vector<int> got = buffer.read<int>();
    for (size_t i = 0; i < count; ++i)
      if (got[i] != expected[i] && wrong.empty())
        wrong = std::string(what) + "[" + std::to_string(i) +
                "] = " + std::to_string(got[i]) + ", not " +
                std::to_string(expected[i]);
  };
  same("counts", w.counts, counts, counts.size());
  same("offsets", w.offsets, offsets, offsets.size());
  same("rows", w.rows, rows, size_t(offsets[s.local]));
  same("positions", w.positions, positions, positions.size());
  same("tiles", w.tiles, tiles, tiles.size());
  same("tile_count", w.tileCount, {tileCount}, 1);
  std::vector<int> cursors = w.tileCount.read<int>();
  if (wrong.empty() && (cursors[1] < 0 || cursors[2] < 0))
    wrong = "cursors are " + std::to_string(cursors[1]) + " and " +
            std::to_string(cursors[2]);
  return wrong;
}

} // namespace harness

#endif // MOEC_TEST_TEMPLATES_ROUTING_H
