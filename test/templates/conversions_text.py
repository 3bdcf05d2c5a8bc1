# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel of templates-conversions: each conversion of the templates, by the instructions that the arch has."""

CODES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "i8")
RULES = ("Even", "Ceil", "Floor")
# Words that a number gives: what conversions.cpp reads, in this order.
WORDS = 3 + len(CODES) + 2 * len(RULES) * (len(CODES) - 1) + len(CODES) + 1

TEXT = """#include "moe/math/weight_scaling.cuh"
struct Args {{ unsigned *out; }};
template <class T, class Rule> __device__ void scales(float largest, unsigned *&to) {{
  moe::quant::Range range;
  range.least = 0.0f, range.most = largest;
  *to++ = moe::quant::WeightScaling<T, moe::ue8m0, Rule, moe::quant::Shares::Group, false>::scale(range, 1.0f).bits;
  *to++ = __float_as_uint(moe::quant::PowerGroups<T, Rule, 32>::scale(largest, 1.0f));
}}
extern "C" __global__ void __launch_bounds__(256) moec_conversions(const __grid_constant__ Args args) {{
  int i = int(blockIdx.x) * 256 + int(threadIdx.x);
  unsigned *to = args.out + (long long)i * {words};
  unsigned bits = unsigned(i) & 0xffffu;
  float value = i < 65536 ? moe::toFloat(moe::f16{{(unsigned short)bits}}) : moe::toFloat(moe::bf16{{(unsigned short)bits}});
  *to++ = __float_as_uint(value);
  *to++ = moe::fromFloat<moe::f16>(value).bits;
  *to++ = moe::fromFloat<moe::bf16>(value).bits;
{codes}
{scales}
{decodes}
  *to++ = __float_as_uint(moe::toFloat(moe::ue8m0{{(unsigned char)bits}}));
}}
"""


def text():
    """Entry and source."""
    codes = "\n".join(f"  *to++ = moe::quant::codeOf<moe::{code}>(value);" for code in CODES)
    scales = "\n".join(f"  scales<moe::{code}, moe::quant::{rule}>(fabsf(value), to);" for code in CODES[:-1] for rule in RULES)
    decodes = "\n".join(f"  *to++ = __float_as_uint(moe::decode<moe::{code}>(bits));" for code in CODES)
    return "moec_conversions", TEXT.format(words=WORDS, codes=codes, scales=scales, decodes=decodes)
