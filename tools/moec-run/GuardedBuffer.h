//===- GuardedBuffer.h - memory that a run writes ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_GUARDEDBUFFER_H
#define MOEC_TOOLS_MOECRUN_GUARDEDBUFFER_H

#include "tools/device/Device.h"
#include "tools/moec-run/HostArray.h"

#include <string>

namespace moec::run {

/// Memory that a run writes, with canary bytes before and after it.
class GuardedBuffer {
public:
  /// Allocates the buffer. `poison` fills the bytes between the canaries with
  /// 0xFF; otherwise they are uninitialized.
  static Result<GuardedBuffer> create(const tools::Device &device,
                                      int64_t bytes, uint64_t seed,
                                      bool poison);
  void *data() const;
  int64_t bytes() const { return size; }
  /// Fills the buffer with `byte`.
  Result<void> refill(int byte = 0xFF);
  /// Returns a description of damaged canaries, or "".
  Result<std::string> damage() const;
  Result<HostArray> download() const;

private:
  const tools::Device *device = nullptr;
  tools::Buffer memory;
  int64_t size = 0;
  uint64_t seed = 0;
};

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_GUARDEDBUFFER_H
