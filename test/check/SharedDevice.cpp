//===- SharedDevice.cpp - a device that several lines share ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mutex that can be watched, and a count of bytes.
//
//===----------------------------------------------------------------------===//

#include "test/check/SharedDevice.h"

using namespace moec::check;

static int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void DeviceTurn::take() {
  if (device)
    device->lock();
  since = now();
}

void DeviceTurn::give() {
  total += seconds();
  since = 0;
  if (device)
    device->unlock();
}

double DeviceTurn::seconds() const {
  const int64_t start = since.load();
  if (start == 0)
    return 0;
  return std::chrono::duration<double>(
             std::chrono::steady_clock::duration(now() - start))
      .count();
}

void WeightBudget::enter(int64_t bytes) {
  std::unique_lock<std::mutex> lock(mutex);
  const uint64_t ticket = arrived++;
  changed.wait(lock, [&] {
    return ticket == served && (used == 0 || used + bytes <= limit);
  });
  ++served;
  used += bytes;
  // The next may fit beside this one.
  changed.notify_all();
}

void WeightBudget::leave(int64_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    used -= bytes;
  }
  changed.notify_all();
}
