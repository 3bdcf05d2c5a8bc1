//===- GpuSlabConversionsTest.cpp - slabs' conversions on a GPU -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The converters of quant/slab_codes.cuh by the instructions of the GPU that is
// there, bit for bit. On the host SlabConversionsTest.cpp does the same.
//
//===----------------------------------------------------------------------===//

#include "test/templates/GpuKernel.h"
#include "test/templates/SlabConversions.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::gpu_test;
using namespace moe::conversions;

namespace {

constexpr unsigned kThreads = 64;

#define MOEC_CASE(INPUT, WEIGHT, SCALE, ZEROS) {#INPUT, #WEIGHT, #SCALE, ZEROS},
std::vector<Case> allCases() { return {MOEC_SLAB_CONVERSIONS(MOEC_CASE)}; }

std::string kernelText(const Case &of) {
  return fmt::format(R"(#include "test/templates/slab_conversions.cuh"
using f32 = float;
using namespace moe;
extern "C" __global__ void {}(unsigned *out, int first, conversions::Rows rows) {{
  int i = int(blockIdx.x) * {} + int(threadIdx.x);
  conversions::convert<conversions::Config<{}, {}, {}, {}>>(first + i, rows, out + i * {});
}}
)",
                     kEntry, kThreads, of.input, of.weight, of.scale,
                     of.zeroPoint, wordsOf(of.weightBits()));
}

void checkOn(const tools::Device &device, const Case &of) {
  Result<runtime::Cubin> cubin = compileFor(archOf(device), kernelText(of));
  ASSERT_TRUE(cubin) << cubin.error().message;
  Result<GpuKernel> kernel = GpuKernel::load(device, cubin->bytes);
  ASSERT_TRUE(kernel) << kernel.error().message;
  const int64_t bytes =
      int64_t(kAtOnce) * wordsOf(of.weightBits()) * int64_t(sizeof(unsigned));
  Result<tools::Buffer> out = device.allocate(bytes);
  ASSERT_TRUE(out) << out.error().message;
  check(of, [&](int first, const Rows &rows, unsigned *to) {
    void *address = out->data();
    Rows given = rows;
    void *parameters[] = {&address, &first, &given};
    auto done = kernel->run(kAtOnce / kThreads, kThreads, parameters);
    ASSERT_TRUE(done) << done.error().message;
    auto copied = device.download(to, out->data(), bytes);
    ASSERT_TRUE(copied) << copied.error().message;
  });
}

} // namespace

TEST(GpuSlabConversions, AreTheReferences) {
  if (auto driver = runtime::cuda::CudaDriver::get(); !driver)
    GTEST_SKIP() << driver.error().message;
  Result<tools::Device> device = tools::Device::open(runtime::DeviceKind::Cuda);
  ASSERT_TRUE(device) << device.error().message;
  if (device->info().computeMajor < 8)
    GTEST_SKIP() << "no engine takes slabs";
  for (const Case &of : allCases())
    checkOn(*device, of);
}

/// A machine without a GPU compiles the kernels, too.
TEST(GpuSlabConversions, Compile) {
  if (Result<runtime::NvrtcLocation> found = runtime::findNvrtc(); !found)
    GTEST_SKIP() << found.error().message;
  for (const char *arch : {"sm_80", "sm_90a"})
    for (const Case &of : allCases()) {
      Result<runtime::Cubin> cubin = compileFor(arch, kernelText(of));
      EXPECT_TRUE(cubin) << cubin.error().message;
    }
}
