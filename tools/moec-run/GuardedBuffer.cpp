//===- GuardedBuffer.cpp - memory that a run writes -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/GuardedBuffer.h"

#include "test/reference/Check.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::run;

Result<GuardedBuffer> GuardedBuffer::create(const tools::Device &device,
                                            int64_t bytes, uint64_t seed,
                                            bool poison) {
  GuardedBuffer result;
  result.device = &device;
  result.size = bytes;
  result.seed = seed;
  result.memory = TRY(device.allocate(bytes + 2 * reference::kCanaryBytes));
  HostArray canary(reference::kCanaryBytes);
  reference::writeCanary(canary.data.get(), canary.bytes, seed);
  auto *base = static_cast<std::byte *>(result.memory.data());
  for (std::byte *at : {base, base + reference::kCanaryBytes + bytes})
    TRY(device.upload(at, canary.data.get(), canary.bytes));
  if (poison)
    TRY(result.refill());
  return result;
}

void *GuardedBuffer::data() const {
  return static_cast<std::byte *>(memory.data()) + reference::kCanaryBytes;
}

Result<void> GuardedBuffer::refill(int byte) {
  return device->fill(data(), byte, size);
}

Result<std::string> GuardedBuffer::damage() const {
  auto *base = static_cast<std::byte *>(memory.data());
  HostArray canary(reference::kCanaryBytes);
  for (bool behind : {false, true}) {
    auto *at = behind ? base + reference::kCanaryBytes + size : base;
    TRY(device->download(canary.data.get(), at, canary.bytes));
    if (int64_t offset =
            reference::findDamage(canary.data.get(), canary.bytes, seed);
        offset >= 0)
      return fmt::format("a byte was written {} bytes {}",
                         behind ? offset : reference::kCanaryBytes - offset,
                         behind ? "past its end" : "before its start");
  }
  return std::string();
}

Result<HostArray> GuardedBuffer::download() const {
  HostArray result(size);
  TRY(device->download(result.data.get(), data(), size));
  return result;
}
