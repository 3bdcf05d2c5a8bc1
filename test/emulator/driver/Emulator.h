//===- Emulator.h - the emulated machine behind the driver's functions -*- C++
//-*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One for a process. The variable MOEC_EMULATOR has its settings, words
// with blanks or commas between them:
//
//   arch=sm_90a              the device (default sm_90a)
//   timing=late              at_once (default), late, random
//   seed=3                   of random timing
//   devices=2                GPUs that reach each other (default 1)
//   sms=8                    streaming multiprocessors of each
//   checks=all               all (default), none, races, undefined
//   sums=card                of tensor cores: exact (default), card (sm_90)
//   log=1                    a line for each launch
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_DRIVER_EMULATOR_H
#define MOEC_TEST_EMULATOR_DRIVER_EMULATOR_H

#include "runtime/cuda/CudaDriver.h"
#include "test/emulator/machine/Machine.h"

#include <condition_variable>
#include <mutex>

namespace moec::emulator {

// Numbers of cuda.h that only a driver returns.
inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101,
                     kInvalidImage = 200, kInvalidContext = 201,
                     kNoBinary = 209, kInvalidPtx = 218, kNotFound = 500,
                     kOutOfResources = 701, kLaunchFailed = 719,
                     kNotSupported = 801;

struct DriverSettings {
  Settings device;
  std::string arch = "sm_90a";
  int major = 9, minor = 0;
  bool logs = false;
};

/// Replaces the words of MOEC_EMULATOR; before the first use.
void setWords(const std::string &words);

/// Reads the words of MOEC_EMULATOR; the sentence says what is wrong.
std::string parseSettings(const std::string &words, DriverSettings &settings);

/// An allocation of device memory or of mapped host memory.
struct Allocation {
  std::unique_ptr<uint8_t, decltype(&std::free)> bytes{nullptr, &std::free};
  size_t size = 0;
};

/// Threads get it in the order in which they came: one that runs kernels would
/// else keep all others from launching.
class FairMutex {
public:
  void lock();
  void unlock();

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t next = 0, serving = 0;
};
using Lock = std::unique_lock<FairMutex>;

/// Work of a stream: a launch or an action, which is asked again until it
/// returns true.
struct Record {
  std::optional<Launch> launch;
  std::function<bool()> action;
};

struct StreamState {
  uint64_t id = 0; ///< its GPU modulo kMaxGpus
  bool captures = false;
  std::vector<Record> records;
};

struct FunctionState {
  std::shared_ptr<const Module> module;
  std::shared_ptr<const Kernel> kernel;
};

struct Emulator {
  static Emulator &get();

  /// Puts work into a stream, or into the graph that the stream captures.
  void enqueue(runtime::cuda::CUstream stream, Record record);
  /// Waits until a stream, or all those of a GPU, are idle. Returns a status.
  int synchronize(Lock &lock, unsigned gpu,
                  std::optional<uint64_t> stream = {});
  /// gpu: -1 is memory of the host.
  int allocate(size_t bytes, bool isDefined, int gpu, uint64_t &address);
  int release(uint64_t address);

  FairMutex mutex;
  std::condition_variable_any launched;
  DriverSettings settings;
  std::unique_ptr<Device> device;
  std::map<uint64_t, Allocation> allocations;
  /// How often memory of the host is registered, by its begin.
  std::map<uint64_t, unsigned> registered;
  std::array<size_t, kMaxGpus> allocated = {};
  /// Findings since the last status of a GPU.
  std::array<bool, kMaxGpus> hasFailed = {};
  std::string settingsError;

private:
  Emulator();
};

/// The GPU whose context is current for the calling thread, or -1.
int currentGpu();

inline StreamState *stateOf(runtime::cuda::CUstream stream) {
  // 0 and 1 are the null stream, which captures nothing.
  return reinterpret_cast<uint64_t>(stream) > 2
             ? reinterpret_cast<StreamState *>(stream)
             : nullptr;
}

inline uint64_t idOf(runtime::cuda::CUstream stream) {
  return stateOf(stream) ? stateOf(stream)->id
                         : uint64_t(std::max(currentGpu(), 0));
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_DRIVER_EMULATOR_H
