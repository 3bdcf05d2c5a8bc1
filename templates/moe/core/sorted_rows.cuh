//===- sorted_rows.cuh - the expert of a sorted row -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// Returns the expert of a sorted row by binary search. Rows offsets[expert] to
/// offsets[expert + 1] - 1 belong to `expert`.
template <int kExperts>
__device__ __forceinline__ int expertOfRow(const int *offsets, int row) {
  int first = 0, last = kExperts - 1;
  while (first < last) {
    int middle = (first + last) / 2;
    if (row < offsets[middle + 1])
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

} // namespace moe
