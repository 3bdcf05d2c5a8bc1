//===- Layer.h - one layer's buffers and launches ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The weights of a layer, the workspace of one run, and the launch of each kind
// of kernel with the argument blocks that the templates document.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_LAYER_H
#define MOEC_TEST_TEMPLATES_LAYER_H

#include "test/templates/Harness.h"

#include <algorithm>
#include <random>

namespace harness {

/// Sizes of a layer, from a plan line.
struct Shape {
  int experts, topK, hidden, inter, begin, local;
  Type type, logits, partial;
  bool gated, bias;
  explicit Shape(const Line &line)
      : experts(line.number("E")), topK(line.number("K")),
        hidden(line.number("H")), inter(line.number("I")),
        begin(line.number("begin", 0)), local(line.number("local", experts)),
        type(typeOf(line.text("dtype"))),
        logits(typeOf(line.words.count("logits") ? line.text("logits")
                                                 : line.text("dtype"))),
        partial(typeOf(line.words.count("partial") ? line.text("partial")
                                                   : line.text("dtype"))),
        gated(line.number("gated", 1)), bias(line.number("bias", 0)) {}
  int up() const { return gated ? 2 * inter : inter; }
};

/// Kernels by role; null where the plan has none.
struct Roles {
  const Kernel *route = nullptr, *permute = nullptr, *gateUp = nullptr,
               *activate = nullptr, *down = nullptr, *combine = nullptr;
};

/// The routing results and workspace of one run.
struct Workspace {
  Buffer ids, weights, shownIds, shownWeights, blockCounts, rows, positions,
      offsets, tiles, tileCount, counts;
  int capacity = 0, tokens = 0;
  Workspace(const Shape &s, int tokens, int blockTokens, int tileRows)
      : tokens(tokens) {
    size_t pairs = size_t(tokens) * s.topK;
    capacity =
        int(std::min<long long>(pairs, ceilDiv(pairs, tileRows) + s.local));
    for (Buffer *b :
         {&ids, &weights, &shownIds, &shownWeights, &rows, &positions})
      b->make(pairs * 4);
    blockCounts.make(size_t(ceilDiv(tokens, blockTokens)) * s.experts * 4);
    offsets.make((s.local + 1) * 4);
    counts.make(s.local * 4);
    tiles.make(size_t(capacity) * 16);
    tileCount.make(12);
  }
  void release() {
    for (Buffer *b : {&ids, &weights, &shownIds, &shownWeights, &blockCounts,
                      &rows, &positions, &offsets, &tiles, &tileCount, &counts})
      b->release();
  }
  bool guards() const {
    for (const Buffer *b :
         {&ids, &weights, &shownIds, &shownWeights, &blockCounts, &rows,
          &positions, &offsets, &tiles, &tileCount, &counts})
      if (!b->guardIntact())
        return false;
    return true;
  }
};

/// What a routing takes: device addresses, 0 where absent.
struct Given {
  CUdeviceptr logits = 0, ids = 0, weights = 0, valid = 0;
  Type logitsType = Type::F32, weightsType = Type::F32;
  int idCode = kCodeI32;
  CUdeviceptr bias = 0; ///< of the scores; of kernels that have one
};

/// show: also write the optional outputs; only: route alone, without permute.
inline void launchRouting(CUstream stream, const Roles &roles, Workspace &w,
                          const Given &given, bool pdl, bool show,
                          bool only = false) {
  const Kernel &route = *roles.route;
  bool fused = route.line.number("fused");
  Arguments a;
  a.add(given.logits).add(codeOf(given.logitsType));
  a.add(given.ids).add(given.idCode);
  a.add(given.weights).add(codeOf(given.weightsType));
  a.add(given.valid).add(w.tokens).add(w.ids.at).add(w.weights.at);
  a.add(show ? w.shownIds.at : CUdeviceptr(0));
  a.add(show ? w.shownWeights.at : CUdeviceptr(0));
  if (fused)
    a.add(w.rows.at)
        .add(w.positions.at)
        .add(w.offsets.at)
        .add(w.tiles.at)
        .add(w.tileCount.at)
        .add(show ? w.counts.at : CUdeviceptr(0));
  else
    a.add(w.blockCounts.at);
  if (route.line.number("bias", 0))
    a.add(given.bias);
  long long blocks = ceilDiv(w.tokens, route.line.number("block"));
  launch(stream, route, fused ? route.line.number("cluster", 1) : blocks, a,
         pdl);
  if (fused || only)
    return;
  Arguments p;
  p.add(w.ids.at).add(w.blockCounts.at).add(w.tokens).add(w.rows.at);
  p.add(w.positions.at).add(w.offsets.at).add(w.tiles.at).add(w.tileCount.at);
  p.add(show ? w.counts.at : CUdeviceptr(0));
  launch(stream, *roles.permute, blocks, p, pdl);
}

/// As it lies in an argument block.
struct alignas(64) TensorMap {
  char bytes[sizeof(CUtensorMap)];
};

/// The rows of all tiles but the last of an expert of `count` rows.
inline int rowsOfTile(int count, int tileRows, int rowStep) {
  int tiles = std::max(1, int(ceilDiv(count, tileRows)));
  int share = int(ceilDiv(count, tiles));
  return std::max(1, int(ceilDiv(share, rowStep))) * rowStep;
}

/// The weights of all experts as the copy engine reads them: boxes of 128 bytes
/// of kTileN rows of one expert.
inline TensorMap weightTiles(const Line &kernel, CUdeviceptr weights) {
  cuuint64_t extents[] = {cuuint64_t(kernel.number("k")),
                          cuuint64_t(kernel.number("n")),
                          cuuint64_t(kernel.number("experts"))};
  cuuint64_t strides[] = {extents[0] * 2, extents[0] * extents[1] * 2};
  cuuint32_t box[] = {64, cuuint32_t(kernel.number("tilen")), 1};
  cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  CHECK_CUDA(cuTensorMapEncodeTiled(
      &map,
      kernel.text("element") == "f16" ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                      : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      3, reinterpret_cast<void *>(weights), extents, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  TensorMap copy;
  std::memcpy(copy.bytes, &map, sizeof copy.bytes);
  return copy;
}

/// A persistent kernel has as many CTAs as fit the device, or as the plan says.
inline void launchMatmul(CUstream stream, const Kernel &k, const Workspace &w,
                         CUdeviceptr lhs, long long stride, CUdeviceptr rhs,
                         CUdeviceptr bias, CUdeviceptr result, bool pdl) {
  bool persistent = k.line.text("engine") == "Wgmma";
  Arguments a;
  a.add(lhs).add(stride);
  if (k.line.number("gather"))
    a.add(w.rows.at);
  a.add(w.tiles.at).add(w.tileCount.at);
  if (persistent)
    a.add(weightTiles(k.line, rhs));
  else
    a.add(rhs);
  if (k.line.number("bias", 0))
    a.add(bias);
  a.add(result);
  long long grid =
      ceilDiv(k.line.number("n"), k.line.number("tilen")) * w.capacity;
  if (persistent) {
    static const int processors = [] {
      int count = 0;
      CHECK_CUDA(cuDeviceGetAttribute(
          &count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
      return count;
    }();
    long long fit = (long long)processors * k.line.number("ctas");
    grid = std::min<long long>(grid, k.line.number("grid", int(fit)));
  }
  launch(stream, k, grid, a, pdl);
}

inline void launchCombine(CUstream stream, const Kernel &k, const Workspace &w,
                          CUdeviceptr partials, CUdeviceptr out, bool pdl) {
  Arguments a;
  a.add(partials).add(w.positions.at).add(w.weights.at).add(w.tokens).add(out);
  launch(stream, k, (long long)w.tokens * k.line.number("cblocks"), a, pdl);
}

/// Fills device memory with normal numbers, roughly, times scale.
inline void fill(const Kernel &kernel, CUdeviceptr at, size_t count, Type type,
                 float scale, unsigned seed) {
  Arguments a;
  a.add(at).add((long long)count).add(seed).add(scale).add(int(type));
  launch(nullptr, kernel, 4096, a, false);
  CHECK_CUDA(cuCtxSynchronize());
}

} // namespace harness

#endif // MOEC_TEST_TEMPLATES_LAYER_H
