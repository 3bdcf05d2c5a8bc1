//===- read.cu - how fast the card reads ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The xor of all 32-bit words of `data`, `count` chunks of 16 bytes. Nothing is
// written but one word a warp, so the time is that of reading. Eight loads of a
// thread are in flight at a time, which with full SMs covers the latency of the
// memory several times over.
//
//===----------------------------------------------------------------------===//

extern "C" __global__ void __launch_bounds__(256)
    moec_bench_read(const uint4 *__restrict__ data, unsigned long long count,
                    unsigned *result) {
  constexpr int kLoads = 8;
  const unsigned long long stride =
      static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long at =
      static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; at + (kLoads - 1) * stride < count; at += kLoads * stride) {
    uint4 chunks[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      chunks[i] = __ldcs(data + at + i * stride);
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      sum ^= chunks[i].x ^ chunks[i].y ^ chunks[i].z ^ chunks[i].w;
  }
  for (; at < count; at += stride) {
    const uint4 chunk = __ldcs(data + at);
    sum ^= chunk.x ^ chunk.y ^ chunk.z ^ chunk.w;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2)
    sum ^= __shfl_xor_sync(0xFFFFFFFF, sum, lanes);
  if (threadIdx.x % 32 == 0)
    atomicXor(result, sum);
}
