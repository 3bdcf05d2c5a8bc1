//===- blocks.cuh - policy of block-scaled operands -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of operands with block scales along k, which the
// tensor core applies (moe/matmul/feed/block_scales.cuh). No scales are left
// for the epilogue.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

struct Blocks : None {};

} // namespace moe::quant
