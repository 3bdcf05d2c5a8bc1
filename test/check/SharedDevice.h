//===- SharedDevice.h - a device that several lines share -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lines of --cases that run at once have the cores in common, but a GPU is
// one's at a time: kernels whose CTAs wait for each other need all of it, and
// an error is the one's who caused it. A line has its turn from its beginning
// to its end, but where it says that it works on the host.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_SHAREDDEVICE_H
#define MOEC_TEST_CHECK_SHAREDDEVICE_H

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace moec::check {

/// One line's view of the device.
class DeviceTurn {
public:
  /// `device` is what is waited for; null where nobody needs to wait.
  explicit DeviceTurn(std::mutex *device = nullptr) : device(device) {}

  void take();
  void give();
  /// Others may have theirs now.
  void pass() {
    give();
    take();
  }
  bool has() const { return since.load() != 0; }
  /// How long it has had the device by now, without a break; from any thread.
  double seconds() const;
  /// The sum of all its turns that have ended.
  double secondsOfAll() const { return total; }

private:
  std::mutex *device;
  double total = 0;
  std::atomic<int64_t> since = 0; ///< ticks of the steady clock; 0: not held
};

/// Lets so many bytes be in use at once; one who asks for more than that waits
/// until nothing is. First come, first served, so that the large are.
class WeightBudget {
public:
  explicit WeightBudget(int64_t limit) : limit(limit) {}
  void enter(int64_t bytes);
  void leave(int64_t bytes);

private:
  std::mutex mutex;
  std::condition_variable changed;
  const int64_t limit;
  int64_t used = 0;
  uint64_t arrived = 0, served = 0;
};

} // namespace moec::check

#endif // MOEC_TEST_CHECK_SHAREDDEVICE_H
