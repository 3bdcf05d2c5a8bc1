//===- FakeCudaAbsent.cpp - driver functions that nobody calls ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A driver must have all functions that the runtime looks up: each fails here,
// unless FakeCuda.cpp defines it.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaDriver.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

using namespace moec::runtime::cuda;

static constexpr CUresult kNotSupported = 801; // CUDA_ERROR_NOT_SUPPORTED

// The macro declares: `symbol` is a name and takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define MOEC_CUDA(member, symbol, parameters)                                  \
  extern "C" __attribute__((weak)) CUresult symbol parameters {                \
    return kNotSupported;                                                      \
  }
#include "runtime/cuda/CudaSymbols.def"
// NOLINTEND(bugprone-macro-parentheses)
