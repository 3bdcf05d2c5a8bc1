//===- CompileOrder.cpp - order of compilations ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements orderByTime(): kernels with the longest compile time are compiled
// first.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CompilePool.h"

#include <algorithm>
#include <functional>

using namespace moec::runtime;

void moec::runtime::orderByTime(std::vector<size_t> &kernels,
                                const Target &target) {
  std::ranges::reverse(kernels);
  std::ranges::stable_sort(kernels, std::greater(), [&](size_t i) {
    return target.kernels[i].headers.size();
  });
}
