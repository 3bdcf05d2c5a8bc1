//===- SumManifest.h - a manifest of ranks that sum -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiny manifest as that of one of two ranks: a collective sums what the
// last kernel leaves.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_SUMMANIFEST_H
#define MOEC_TEST_RUNTIME_SUMMANIFEST_H

#include "test/runtime/TinyManifest.h"

namespace moec::test {

/// Lets kernels write `partial` in place of `out`, and adds its sum over two
/// ranks behind the last launch of each variant. Returns the first variant's.
inline Collective &addSum(Manifest &m) {
  Target &t = m.targets[0];
  const Value &out = *findValue(m, t, "out");
  const Expression bytes = Expression::symbol("tokens") * out.shape[1] * 2;
  Value partial = out;
  partial.name = "partial";
  partial.role = ValueRole::Workspace;
  partial.alignment = 256;
  t.values.push_back(partial);
  for (Kernel &kernel : t.kernels)
    for (ArgumentField &field : kernel.arguments.fields)
      if (field.value == "out")
        field.value = "partial";
  for (Variant &variant : t.variants) {
    const auto last = static_cast<int64_t>(variant.launches.size());
    variant.regions.push_back(
        {"partial", variant.workspaceBytes, bytes, last - 1, last});
    variant.workspaceBytes = variant.workspaceBytes + ceilDiv(bytes, 256) * 256;
    Collective sum;
    sum.kind = Collective::Kind::AllReduce;
    sum.ranks = 2;
    sum.operands = {"partial"}, sum.results = {"out"};
    variant.launches.emplace_back().collective = sum;
  }
  return *t.variants[0].launches.back().collective;
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_SUMMANIFEST_H
