//===- RichManifest.h - a manifest with everything in it -*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiny manifest plus what it does not need itself: state, a tensor map, and
// a cooperative kernel with clusters.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_RICHMANIFEST_H
#define MOEC_TEST_RUNTIME_RICHMANIFEST_H

#include "test/runtime/TinyManifest.h"

namespace moec::test {

/// The tiny manifest with a state value and a kernel
/// (number 8) that uses them, a tensor map and a cluster; the last launch.
inline Manifest richManifest() {
  Manifest m = tinyManifest();
  Target &t = m.targets[0];
  t.values.push_back(value("barrier", ValueRole::State, {"i32"}, {64}));
  t.values.push_back(value("flags", ValueRole::State, {"i32"}, {4}));
  t.stateBytes = 272;
  t.stateRegions = {{"barrier", 0}, {"flags", 256}};
  TensorMap map;
  map.name = "w2_map";
  map.value = "w2";
  map.elementType = "bf16";
  map.extents = {16, 64};
  map.strides = {32};
  map.box = {16, 8};
  map.elementStrides = {1, 1};
  map.interleave = "none";
  map.swizzle = "32b";
  map.l2Promotion = "none";
  map.outOfBoundsFill = "zeros";
  t.tensorMaps = {map};
  BlockBuilder block;
  block.pointer("barrier").pointer("flags");
  block.add("w2", ArgumentField::Kind::TensorMap).tensorMap = "w2_map";
  block.pointer("partials", "y_f32").pointer("positions");
  block.pointer("topk_weights").size("tokens", Expression::symbol("tokens"));
  block.pointer("out");
  Kernel extra = kernel("extra", block, t.kernels[5].stages);
  extra.cooperative = true;
  extra.cluster = {2, 1, 1};
  extra.minCtasPerSm = 2;
  extra.sharedBytes = 1024;
  extra.cubin = "sm_90a/extra.cubin";
  t.kernels.push_back(extra);
  Launch &last = t.variants[1].launches[4];
  last.kernel = "extra";
  last.grid.persistent = true;
  last.grid.tiles = Expression::symbol("tokens") * 2;
  last.grid.ctasPerSm = 2;
  m.files["a.cu"] = std::string(64, 'a');
  return m;
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_RICHMANIFEST_H
