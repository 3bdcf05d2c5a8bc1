//===- LedgerTest.cpp - what each test of the driver leaves ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each test of this program fails if the fake driver was called wrongly or if
// anything of it still lives at the end. The tests of this file let each call
// of the driver fail once.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/CudaTesting.h"

#include "runtime/cuda/CudaCode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

class Ledger : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo &) override {
    // Threads that tests abandon end a little later.
    for (int wait = 0; wait < 500 && *fakeGpuAlive() != '\0'; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_STREQ(fakeGpuMistakes(), "");
    EXPECT_STREQ(fakeGpuAlive(), "");
  }
};

const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Ledger);
  return true;
}();

} // namespace

TEST(LedgerOfTests, Listens) { EXPECT_TRUE(kListens); }

namespace {

/// A package whose kernels read a map of x and one of w2, with biases in GPU
/// memory and a state.
PackageFiles richPackage() {
  PackageFiles package = loadablePackage();
  package.manifest.values.push_back(
      value("b2", ValueRole::StoredWeight, {"f32"}, {4, 16}));
  Target &target = package.manifest.targets[0];
  target.values.push_back(value("flags", ValueRole::State, {"i32"}, {75}));
  target.stateRegions = {{"flags", 0}};
  target.stateBytes = 300;
  TensorMap map;
  map.name = "x_map";
  map.value = "x";
  map.elementType = "bf16";
  map.extents = {Expression(16), Expression::symbol("tokens")};
  map.strides = {Expression(32)};
  map.box = {16, 8};
  map.elementStrides = {1, 1};
  map.interleave = map.l2Promotion = "none";
  map.swizzle = "32b";
  map.outOfBoundsFill = "zeros";
  TensorMap weight = map;
  weight.name = "w2_map", weight.value = "w2";
  weight.extents[1] = Expression(64);
  target.tensorMaps = {map, weight};
  const auto setBlock = [&](const char *name, BlockBuilder block) {
    for (Kernel &each : target.kernels)
      if (each.name == name)
        each.arguments = block.build();
  };
  BlockBuilder gateUp, down;
  gateUp.add("x", ArgumentField::Kind::TensorMap).tensorMap = map.name;
  gateUp.pointer("lhs", "x").rowStride("lhs_row_stride", "x").pointer("rows");
  gateUp.pointer("tiles").pointer("tile_count").pointer("rhs", "w13_packed");
  setBlock("gate_up", gateUp.pointer("result", "t"));
  down.add("rhs", ArgumentField::Kind::TensorMap).tensorMap = weight.name;
  down.pointer("lhs", "t").rowStride("lhs_row_stride", "t").pointer("tiles");
  down.pointer("tile_count").pointer("flags");
  setBlock("down", down.pointer("result", "y_f32"));
  return package;
}

/// The life of a package, a layer and a context, whose steps may fail.
class Failures : public testing::Test {
protected:
  Failures() {
    EXPECT_EQ(kDriverIsSet, 0);
    *fakeGpu() = {};
    fakeGpu()->onLaunch = [](const char *, bool) {};
    std::fill_n(bias.as<float>(), 4 * 16, 1.0f);
    tensors.push_back(tensor("b2", bias.data(), {4, 16}));
  }
  ~Failures() override {
    moec_context_destroy(context);
    moec_layer_destroy(layer);
    moec_package_destroy(package);
    *fakeGpu() = {};
  }
  Failures(const Failures &) = delete;
  Failures &operator=(const Failures &) = delete;

  moec_status load() {
    moec_package_destroy(std::exchange(package, nullptr));
    moec_load_options options = {};
    options.struct_size = sizeof(options);
    options.cache_dir = "";
    return moec_package_load_files(&files, &options, &package);
  }
  moec_status create() {
    moec_layer_destroy(std::exchange(layer, nullptr));
    return moec_layer_create(package, tensors.data(), tensors.size(), nullptr,
                             nullptr, &layer);
  }
  moec_status createContext() {
    moec_context_destroy(std::exchange(context, nullptr));
    return moec_context_create(package, workspace.data(), workspace.bytes(),
                               nullptr, &context);
  }
  moec_status run() {
    // Other tokens than before, so that the map of x is encoded again.
    const RunData data({}, ++tokens);
    const auto list = data.tensors();
    return moec_run(layer, context, nullptr, list.data(), list.size(), tokens,
                    nullptr);
  }
  moec_status repack() {
    return moec_layer_repack(layer, tensors.data(), 1, 0, 4, nullptr, 0,
                             nullptr);
  }
  moec_status unpack(bool toHost) {
    moec_unpack_options options = {};
    options.struct_size = sizeof(options);
    options.to_host = toHost;
    const moec_tensor to[] = {tensor("w13", other.w13.data(), other.w13Shape),
                              tensor("w2", other.w2.data(), other.w2Shape)};
    return moec_layer_unpack(layer, to, 2, &options, nullptr);
  }

  /// Lets each call of the driver in `step` fail once. Each failure reaches the
  /// caller with the driver's error and leaves nothing behind; without one the
  /// step is right.
  template <typename Step>
  void failEach(const char *name, int minCalls,
                const std::set<std::string> &tolerated, const Step &step) {
    const std::string before = fakeGpuAlive();
    int call = 1;
    for (;; ++call) {
      ASSERT_LT(call, 500);
      fakeGpuFail(call);
      const moec_status status = step();
      const char *failed = fakeGpuFailed();
      fakeGpuFail(0);
      if (!failed) {
        EXPECT_EQ(status, MOEC_OK) << name << ": " << moec_last_error();
        break;
      }
      if (tolerated.contains(failed))
        continue;
      EXPECT_NE(status, MOEC_OK) << name << ": " << failed << " failed";
      EXPECT_THAT(moec_last_error(), HasSubstr("FAKE_ERROR (2)"))
          << name << ": " << failed;
    }
    EXPECT_GE(call, minCalls) << name;
  }

  moec_package_files files{{richPackage()}};
  const Weights weights{{}, 1}, other{{}, 2};
  const Buffer bias{4 * 16 * 4}, workspace{1 << 16};
  std::vector<moec_tensor> tensors = weights.tensors();
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  moec_context *context = nullptr;
  int64_t tokens = 3;
};

} // namespace

TEST_F(Failures, ReachTheCaller) {
  failEach("load", 60, {"cuStreamIsCapturing"}, [&] { return load(); });
  failEach("create", 9, {}, [&] { return create(); });
  failEach("context", 4, {}, [&] { return createContext(); });
  failEach("run", 6, {}, [&] { return run(); });
  failEach("repack", 6, {}, [&] { return repack(); });
  failEach("unpack", 9, {}, [&] { return unpack(/*toHost=*/false); });
  failEach("unpack to host", 6, {}, [&] { return unpack(/*toHost=*/true); });
}

/// A call that cannot make the package's context current does nothing.
TEST_F(Failures, OfTheContext) {
  ASSERT_EQ(load(), MOEC_OK) << moec_last_error();
  ASSERT_EQ(create(), MOEC_OK) << moec_last_error();
  ASSERT_EQ(createContext(), MOEC_OK) << moec_last_error();
  moec_layer *noLayer = nullptr;
  moec_context *noContext = nullptr;
  const std::pair<const char *, std::function<moec_status()>> steps[] = {
      {"create",
       [&] {
         return moec_layer_create(package, tensors.data(), tensors.size(),
                                  nullptr, nullptr, &noLayer);
       }},
      {"context",
       [&] {
         return moec_context_create(package, workspace.data(),
                                    workspace.bytes(), nullptr, &noContext);
       }},
      {"run", [&] { return run(); }},
      {"repack", [&] { return repack(); }},
      {"unpack", [&] { return unpack(/*toHost=*/false); }}};
  for (const auto &[name, step] : steps) {
    fakeGpu()->pushesFail = true;
    fakeGpu()->worked.clear();
    EXPECT_EQ(step(), MOEC_DRIVER_FAILED) << name;
    EXPECT_THAT(moec_last_error(),
                HasSubstr("making the package's CUDA context current"))
        << name;
    EXPECT_TRUE(fakeGpu()->worked.empty()) << name;
    fakeGpu()->pushesFail = false;
  }
  moec_package *none = nullptr;
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.cache_dir = "";
  fakeGpu()->pushesFail = true;
  EXPECT_EQ(moec_package_load_files(&files, &options, &none),
            MOEC_DRIVER_FAILED);
  fakeGpu()->pushesFail = false;
}

/// A thread's own current context serves a load that names no device; a device
/// that is named has its primary one.
TEST_F(Failures, TheCurrentContextIsTaken) {
  fakeGpu()->devices = 3;
  const runtime::cuda::CudaDriver &driver = **runtime::cuda::CudaDriver::get();
  const auto own =
      static_cast<runtime::cuda::CUcontext>(fakeGpuContextOfCaller(2));
  driver.ctxPushCurrent(own);
  ASSERT_EQ(load(), MOEC_OK) << moec_last_error();
  const runtime::CudaPlace &place = package->package->cuda()->place();
  EXPECT_EQ(place.context, own);
  EXPECT_EQ(place.device, 2);
  EXPECT_FALSE(place.retained);
  EXPECT_EQ(fakeGpu()->contexts, 0);
  ASSERT_EQ(create(), MOEC_OK) << moec_last_error();
  ASSERT_EQ(createContext(), MOEC_OK) << moec_last_error();
  runtime::cuda::CUcontext popped = nullptr;
  driver.ctxPopCurrent(&popped);
  // The package's serves if another one is current, or none.
  EXPECT_EQ(run(), MOEC_OK) << moec_last_error();
  driver.ctxPushCurrent(
      static_cast<runtime::cuda::CUcontext>(fakeGpuContextOfCaller(1)));
  EXPECT_EQ(run(), MOEC_OK) << moec_last_error();
  EXPECT_EQ(unpack(/*toHost=*/false), MOEC_OK) << moec_last_error();
  moec_package *first = nullptr;
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.cache_dir = "";
  options.ordinal_plus_one = 1;
  ASSERT_EQ(moec_package_load_files(&files, &options, &first), MOEC_OK);
  EXPECT_EQ(first->package->cuda()->place().device, 0);
  EXPECT_TRUE(first->package->cuda()->place().retained);
  EXPECT_EQ(fakeGpu()->contexts, 1);
  moec_package_destroy(first);
  EXPECT_EQ(fakeGpu()->contexts, 0);
  // The border of the devices.
  first = nullptr;
  options.ordinal_plus_one = 3;
  EXPECT_EQ(moec_package_load_files(&files, &options, &first), MOEC_OK);
  EXPECT_EQ(first->package->cuda()->place().device, 2);
  moec_package_destroy(std::exchange(first, nullptr));
  options.ordinal_plus_one = 4;
  EXPECT_EQ(moec_package_load_files(&files, &options, &first),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "device 3 was asked for; this machine has 3");
  driver.ctxPopCurrent(&popped);
}

/// Handles free their memory in its context, whichever is current.
TEST_F(Failures, DestroyedInAnotherContext) {
  fakeGpu()->devices = 2;
  ASSERT_EQ(load(), MOEC_OK) << moec_last_error();
  ASSERT_EQ(create(), MOEC_OK) << moec_last_error();
  ASSERT_EQ(createContext(), MOEC_OK) << moec_last_error();
  const runtime::cuda::CudaDriver &driver = **runtime::cuda::CudaDriver::get();
  driver.ctxPushCurrent(
      static_cast<runtime::cuda::CUcontext>(fakeGpuContextOfCaller(1)));
  moec_context_destroy(std::exchange(context, nullptr));
  moec_layer_destroy(std::exchange(layer, nullptr));
  moec_package_destroy(std::exchange(package, nullptr));
  runtime::cuda::CUcontext popped = nullptr;
  driver.ctxPopCurrent(&popped);
  EXPECT_EQ(popped, fakeGpuContextOfCaller(1));
}

/// Each number of a device comes from its attribute.
TEST(DeviceNumbers, OfTheDriver) {
  using namespace runtime::cuda;
  ASSERT_EQ(kDriverIsSet, 0);
  *fakeGpu() = {};
  fakeGpu()->deviceAttributes = {
      {kDeviceMajor, 11},        {kDeviceMinor, 12},
      {kDeviceSmCount, 13},      {kDeviceMaxThreads, 14},
      {kDeviceThreadsPerSm, 15}, {kDeviceSharedOptin, 16},
      {kDeviceSharedPerSm, 17},  {kDeviceL2Bytes, 18},
      {kDeviceCooperative, 0}};
  const auto info = runtime::readDeviceInfo(**CudaDriver::get(), 0);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->name, "fake GPU");
  EXPECT_EQ(info->computeMajor, 11);
  EXPECT_EQ(info->computeMinor, 12);
  EXPECT_EQ(info->smCount, 13);
  EXPECT_EQ(info->maxThreadsPerBlock, 14);
  EXPECT_EQ(info->maxThreadsPerSm, 15);
  EXPECT_EQ(info->sharedBytesPerBlock, 16);
  EXPECT_EQ(info->sharedBytesPerSm, 17);
  EXPECT_EQ(info->l2Bytes, 18);
  EXPECT_FALSE(info->cooperative);
  EXPECT_EQ(info->memoryBytes, int64_t(80) << 30);
  *fakeGpu() = {};
}

/// Host memory is registered with emulated GPUs alone, and no longer than said.
TEST(Admitted, AsLongAsNeeded) {
  static std::map<void *, size_t> registered;
  runtime::cuda::CudaDriver driver;
  driver.emulated = true;
  driver.memHostRegister = [](void *host, size_t bytes, unsigned flags) {
    registered[host] = bytes;
    return flags == 0 ? 0 : 1;
  };
  driver.memHostUnregister = [](void *host) {
    return int(registered.erase(host)) - 1;
  };
  driver.getErrorName = [](int, const char **) { return 0; };
  driver.getErrorString = [](int, const char **) { return 0; };
  runtime::CudaPlace place;
  place.driver = &driver;
  char memory[64];
  const auto at = [&](int offset) {
    return reinterpret_cast<uint64_t>(memory + offset);
  };
  {
    runtime::AdmittedMemory admitted;
    EXPECT_TRUE(admitted.add(place, 0, 8));
    EXPECT_TRUE(admitted.add(place, at(0), 0));
    EXPECT_TRUE(registered.empty());
    EXPECT_TRUE(admitted.add(place, at(1), 7));
    EXPECT_TRUE(admitted.add(place, at(16), 5));
    EXPECT_EQ(registered,
              (std::map<void *, size_t>{{memory + 1, 7}, {memory + 16, 5}}));
    admitted.clear();
    EXPECT_TRUE(registered.empty());
    EXPECT_TRUE(admitted.add(place, at(32), 3));
    EXPECT_EQ(registered.size(), 1u);
  }
  EXPECT_TRUE(registered.empty());
  driver.emulated = false;
  runtime::AdmittedMemory ofGpu;
  EXPECT_TRUE(ofGpu.add(place, at(1), 7));
  EXPECT_TRUE(registered.empty());
  driver.emulated = true;
  driver.memHostRegister = [](void *, size_t, unsigned) { return 2; };
  EXPECT_FALSE(ofGpu.add(place, at(1), 7));
}
