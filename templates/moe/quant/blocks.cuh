//===- blocks.cuh - operands with scales of blocks --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of operands that the tensor core multiplies with the
// scales of their blocks along k (matmul/feed/block_scales.cuh): nothing is
// left for the sums.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

struct Blocks : None {};

} // namespace moe::quant
