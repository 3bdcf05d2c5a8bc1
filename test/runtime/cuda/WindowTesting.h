//===- WindowTesting.h - ranks of windows on fake GPUs ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_CUDA_WINDOWTESTING_H
#define MOEC_TEST_RUNTIME_CUDA_WINDOWTESTING_H

#include "test/runtime/WindowManifest.h"
#include "test/runtime/api/ApiTesting.h"
#include "test/runtime/cuda/CudaTesting.h"
#include "test/runtime/cuda/FakeNccl.h"

#include <barrier>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace moec::test {

/// A last kernel's block of this thread.
inline thread_local std::string lastBlock;

/// Bytes that both ranks bring and see, by a function of the C interface.
struct Meeting {
  std::barrier<> both{2};
  std::vector<char> all;
  struct End {
    Meeting *meeting;
    int32_t rank;
    /// Changes what this rank sees of the other.
    std::function<void(char *its, uint64_t bytes)> change;
    bool fails = false;
    std::vector<uint64_t> memory; ///< addresses of both
  };

  static int32_t gather(void *user, const void *mine, uint64_t bytes,
                        void *all) {
    End &end = *static_cast<End *>(user);
    if (end.fails)
      return 1;
    Meeting &meeting = *end.meeting;
    if (end.rank == 0)
      meeting.all.resize(2 * bytes);
    meeting.both.arrive_and_wait();
    std::memcpy(meeting.all.data() + end.rank * bytes, mine, bytes);
    meeting.both.arrive_and_wait();
    std::memcpy(all, meeting.all.data(), 2 * bytes);
    meeting.both.arrive_and_wait();
    if (end.change)
      end.change(static_cast<char *>(all) + (1 - end.rank) * bytes, bytes);
    return 0;
  }

  static int32_t window(void *user, uint64_t bytes, uint64_t *addresses) {
    const End &end = *static_cast<const End *>(user);
    if (end.memory.empty() || bytes != 256 + 64 * 32)
      return 1;
    std::ranges::copy(end.memory, addresses);
    return 0;
  }
};

/// A package, a layer and memory for a context of one of two ranks.
struct RankOfWindow {
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  Weights weights{TinyShape(), 3};
  Buffer workspace{1 << 20};

  explicit RankOfWindow(int64_t rank, int32_t ordinalPlusOne = 0,
                        int64_t moreBytes = 0) {
    PackageFiles files = loadablePackage();
    addWindow(files.manifest);
    Target &target = files.manifest.targets[0];
    if (moreBytes > 0) {
      Value more = value("more", ValueRole::Window, {"i8"}, {moreBytes});
      more.alignment = kWindowAlignment;
      target.values.push_back(more);
      target.windowRegions.push_back({"more", target.windowBytes});
    }
    target.windowBytes += moreBytes;
    files.manifest.ranks.front().rank = rank;
    loadPacked(std::move(files), weights.tensors(), package, layer,
               ordinalPlusOne);
  }
  ~RankOfWindow() {
    moec_layer_destroy(layer);
    moec_package_destroy(package);
  }

  moec_status createContext(moec_comm *comm, moec_context **context) {
    moec_context_options options = {};
    options.struct_size = sizeof(options);
    options.comm = comm;
    return moec_context_create(package, workspace.data(), workspace.bytes(),
                               &options, context);
  }
};

class Windows : public testing::Test {
protected:
  Windows() {
    *fakeGpu() = {};
    FakeNccl &nccl = *fakeNccl();
    nccl.version = 22907;
    nccl.initStatus = nccl.asyncStatus = nccl.callStatus = 0;
    nccl.windows = 0;
    nccl.noWindow = false;
    nccl.onCall = nullptr;
    fakeGpu()->onLaunch = [](const char *, bool) {};
    fakeGpu()->onBlock = [](const char *entry, const char *block) {
      if (std::string_view(entry).starts_with("moec_combine"))
        lastBlock.assign(block, 128);
    };
  }
  ~Windows() override {
    EXPECT_EQ(fakeNccl()->alive, 0);
    EXPECT_EQ(fakeGpu()->opened, 0);
  }

  static void onRanks(const std::function<void(int32_t)> &what) {
    std::thread other([&] { what(1); });
    what(0);
    other.join();
  }
  static moec_comm_options optionsOf(int32_t rank) {
    moec_comm_options options = {};
    options.struct_size = sizeof(options);
    options.ranks = 2, options.rank = rank;
    return options;
  }
  /// The same, of ranks that meet.
  static moec_comm_options optionsOf(int32_t rank, Meeting::End &end) {
    moec_comm_options options = optionsOf(rank);
    options.all_gather = Meeting::gather, options.user = &end;
    return options;
  }
  /// The status, and the message of another one than MOEC_OK.
  static std::pair<moec_status, std::string> said(moec_status status) {
    return {status, status == MOEC_OK ? "" : moec_last_error()};
  }
  static moec_status run(const RankOfWindow &mine, moec_context *context,
                         const RunData &data) {
    const auto tensors = data.tensors();
    return moec_run(mine.layer, context, nullptr, tensors.data(),
                    tensors.size(), 3, nullptr);
  }
  /// A field of the last block.
  template <typename T>
  static T field(const RankOfWindow &mine, const char *name) {
    const Target &target = mine.package->package->target();
    T found = {};
    for (const Kernel &kernel : target.kernels)
      if (kernel.name == "combine")
        for (const ArgumentField &one : kernel.arguments.fields)
          if (one.name == name)
            std::memcpy(&found, lastBlock.data() + one.offset, sizeof(T));
    return found;
  }
};

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_CUDA_WINDOWTESTING_H
