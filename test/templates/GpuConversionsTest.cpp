//===- GpuConversionsTest.cpp - the templates' conversions on a GPU -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every half and every bfloat16 to each format, and every code back, by the
// instructions of the GPU that is there, against the reference. On the host
// ConversionsTest.cpp does the same.
//
//===----------------------------------------------------------------------===//

#include "test/reference/FirstHalf.h"
#include "test/templates/GpuKernel.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

using namespace moec;
using namespace moec::gpu_test;
using namespace moec::runtime;

namespace {

constexpr int kNumbers = 2 << 16; // halves, then bfloat16s
constexpr const char *kCodes[] = {"f8E4M3FN", "f8E5M2",   "f6E3M2FN",
                                  "f6E2M3FN", "f4E2M1FN", "i8"};
int failures = 0;

void expect(const char *what, const char *name, int number, unsigned got,
            unsigned expected) {
  if (got == expected)
    return;
  constexpr int kShown = 50;
  if (++failures <= kShown)
    ADD_FAILURE() << fmt::format("{} {} of {} {:#x}: {:#x}, expected {:#x}",
                                 what, name,
                                 number < kNumbers / 2 ? "half" : "bfloat16",
                                 number & 0xffff, got, expected);
}

unsigned codeOf(const reference::Element &element, double value) {
  if (element.isFloat) {
    const double most = reference::largestNumber(element);
    value = std::clamp(value, -most, most);
  }
  unsigned code = 0;
  reference::store(element, &code, 0, value);
  return code & ((1u << element.bits()) - 1);
}

unsigned bitsOf(double value) {
  return std::bit_cast<unsigned>(static_cast<float>(value));
}

/// The results of one number; a NaN only has to stay a NaN.
void checkNumber(int number, const unsigned *words) {
  const reference::Element &f16 = *reference::findElement("f16");
  const reference::Element &bf16 = *reference::findElement("bf16");
  const auto stored = uint16_t(number & 0xffff);
  const double value =
      reference::load(number < kNumbers / 2 ? f16 : bf16, &stored, 0);
  const bool isNumber = !std::isnan(value);
  const unsigned *word = words;
  if (isNumber) {
    expect("number", "f32", number, word[0], bitsOf(value));
    unsigned half = 0, bfloat = 0;
    reference::store(f16, &half, 0, value);
    reference::store(bf16, &bfloat, 0, value);
    expect("to", "f16", number, word[1], half);
    expect("to", "bf16", number, word[2], bfloat);
  } else if (!std::isnan(std::bit_cast<float>(word[0]))) {
    expect("number", "NaN", number, word[0], 0x7fffffff);
  }
  word += 3;
  for (const char *name : kCodes) {
    if (isNumber)
      expect("code", name, number, *word,
             codeOf(*reference::findElement(name), value));
    ++word;
  }
  for (const char *name : kCodes) {
    const reference::Element &element = *reference::findElement(name);
    if (!element.isFloat)
      continue;
    for (const char *rule : {"even", "ceil", "floor"}) {
      if (std::isfinite(value)) {
        const float power = reference::powerFor(
            element, rule, float(std::fabs(value)), /*count=*/32);
        expect(rule, name, number, word[0], unsigned(std::ilogb(power) + 127));
        expect(rule, name, number, word[1], bitsOf(power));
      }
      word += 2;
    }
  }
}

/// Codes stand in the lowest bits of the number; the kernel ignores the others.
void checkCode(int code, const unsigned *decoded) {
  for (const char *name : {"f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN",
                           "f4E2M1FN", "i8", "f8E8M0FNU"}) {
    const reference::Element &element = *reference::findElement(name);
    const auto byte = uint8_t(unsigned(code) & ((1u << element.bits()) - 1));
    const double value = reference::load(element, &byte, 0);
    if (std::isnan(value) ? !std::isnan(std::bit_cast<float>(*decoded))
                          : *decoded != bitsOf(value))
      expect("from", name, code, *decoded, bitsOf(value));
    ++decoded;
  }
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

constexpr const char *kTemplateCodes[] = {"e4m3", "e5m2", "e3m2",
                                          "e2m3", "e2m1", "i8"};
constexpr const char *kRules[] = {"Even", "Ceil", "Floor"};
constexpr size_t kCodeCount = std::size(kTemplateCodes);
/// The words of a number: checkNumber() reads the first, checkCode() the rest.
constexpr size_t kWords =
    3 + kCodeCount + 2 * std::size(kRules) * (kCodeCount - 1) + kCodeCount + 1;
constexpr unsigned kThreads = 256;

std::string kernelText() {
  std::string codes, scales, decodes;
  for (const std::string code : kTemplateCodes) {
    codes +=
        fmt::format("  *to++ = moe::quant::codeOf<moe::{}>(value);\n", code);
    decodes += fmt::format(
        "  *to++ = __float_as_uint(moe::decode<moe::{}>(bits));\n", code);
    if (code != "i8")
      for (const char *rule : kRules)
        scales += fmt::format(
            "  scales<moe::{}, moe::quant::{}>(fabsf(value), to);\n", code,
            rule);
  }
  return fmt::format(R"(#include "moe/math/weight_scaling.cuh"
struct Args {{ unsigned *out; }};
template <class T, class Rule> __device__ void scales(float largest, unsigned *&to) {{
  moe::quant::Range range;
  range.least = 0.0f, range.most = largest;
  *to++ = moe::quant::WeightScaling<T, moe::ue8m0, Rule, moe::quant::Shares::Group, false>::scale(range, 1.0f).bits;
  *to++ = __float_as_uint(moe::quant::PowerGroups<T, Rule, 32>::scale(largest, 1.0f));
}}
extern "C" __global__ void moec_conversions(const __grid_constant__ Args args) {{
  int i = int(blockIdx.x) * {} + int(threadIdx.x);
  unsigned *to = args.out + (long long)i * {};
  unsigned bits = unsigned(i) & 0xffffu;
  float value = i < 65536 ? moe::toFloat(moe::f16{{(unsigned short)bits}}) : moe::toFloat(moe::bf16{{(unsigned short)bits}});
  *to++ = __float_as_uint(value);
  *to++ = moe::fromFloat<moe::f16>(value).bits;
  *to++ = moe::fromFloat<moe::bf16>(value).bits;
{}{}{}  *to++ = __float_as_uint(moe::toFloat(moe::ue8m0{{(unsigned char)bits}}));
}}
)",
                     kThreads, kWords, codes, scales, decodes);
}

/// The words of all numbers, by the kernel on the device.
Result<std::vector<unsigned>> runOn(const tools::Device &device,
                                    const std::string &cubin) {
  std::vector<unsigned> words(kNumbers * kWords);
  const auto bytes = static_cast<int64_t>(words.size() * sizeof(unsigned));
  Result<tools::Buffer> out = device.allocate(bytes);
  if (!out)
    return out.takeError();
  Result<GpuKernel> kernel = GpuKernel::load(device, cubin);
  if (!kernel)
    return kernel.takeError();
  void *address = out->data();
  void *parameters[] = {&address};
  if (auto ok = kernel->run(kNumbers / kThreads, kThreads, parameters); !ok)
    return ok.takeError();
  if (auto ok = device.download(words.data(), out->data(), bytes); !ok)
    return ok.takeError();
  return words;
}

} // namespace

TEST(GpuConversions, AreTheReferences) {
  if (auto driver = cuda::CudaDriver::get(); !driver)
    GTEST_SKIP() << driver.error().message;
  Result<tools::Device> device = tools::Device::open(DeviceKind::Cuda);
  ASSERT_TRUE(device) << device.error().message;
  Result<Cubin> cubin = compileFor(archOf(*device), kernelText());
  ASSERT_TRUE(cubin) << cubin.error().message;
  Result<std::vector<unsigned>> words = runOn(*device, cubin->bytes);
  ASSERT_TRUE(words) << words.error().message;
  for (int number = 0; number < kNumbers; ++number) {
    const unsigned *of = &(*words)[size_t(number) * kWords];
    checkNumber(number, of);
    checkCode(number, of + kWords - kCodeCount - 1);
  }
  EXPECT_EQ(failures, 0);
}

/// A machine without a GPU compiles the kernel, too.
TEST(GpuConversions, Compile) {
  if (Result<NvrtcLocation> found = findNvrtc(); !found)
    GTEST_SKIP() << found.error().message;
  for (const char *arch : {"sm_75", "sm_80", "sm_90a", "sm_120a"}) {
    Result<Cubin> cubin = compileFor(arch, kernelText());
    EXPECT_TRUE(cubin) << cubin.error().message;
  }
}
