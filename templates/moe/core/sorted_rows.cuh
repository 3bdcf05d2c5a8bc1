//===- sorted_rows.cuh - whose a sorted row is ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// The expert whose rows, from offsets[expert] to offsets[expert + 1], a sorted
/// row is among.
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
