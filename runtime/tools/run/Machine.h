//===- Machine.h - memory and streams of either device ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What moec-run needs of a device beyond packages: memory to hand over, copies,
// streams, graphs. The host has one stream, and copies are memcpy.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_MACHINE_H
#define MOEC_RUNTIME_TOOLS_RUN_MACHINE_H

#include "runtime/Package.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace moec::run {

class Machine;

/// PTX of the kernel that occupyHalf launches.
extern const char *const kOccupyText;

/// Memory of a machine; freed with this object.
class Memory {
public:
  Memory() = default;
  Memory(Memory &&other) noexcept;
  Memory &operator=(Memory &&other) noexcept;
  ~Memory();
  void *address() const { return pointer; }
  int64_t bytes() const { return size; }

private:
  friend class Machine;
  Machine *owner = nullptr;
  void *pointer = nullptr;
  int64_t size = 0;
};

class Machine {
public:
  /// CUDA: device 0's primary context, made current for the calling thread.
  static Result<std::unique_ptr<Machine>> create(runtime::DeviceKind kind);
  ~Machine();

  bool onHost() const { return kind == runtime::DeviceKind::Host; }
  double contextMilliseconds() const { return contextTime; }

  Result<Memory> allocate(int64_t bytes);
  Result<void> upload(void *to, const void *from, int64_t bytes);
  Result<void> download(void *to, const void *from, int64_t bytes);
  Result<void> fill(void *to, int byte, int64_t bytes);

  /// Stream 0 and 1; both null on the host.
  void *stream(int index) const { return streams[index]; }
  Result<void> synchronize(int stream);
  Result<void> synchronizeAll();

  /// Queues a kernel that holds half of the SMs for so long; nothing on the
  /// host.
  Result<void> occupyHalf(int stream, int milliseconds);

  /// Runs `body` on stream 0, captured into a graph that is then launched
  /// there once.
  Result<void> runCaptured(const std::function<Result<void>()> &body);

  /// Microseconds of one `body` (queued on stream 0): median of several
  /// measurements, each of as many graph replays as take 2 ms at least; on the
  /// host, of plain calls.
  Result<double> medianTime(const std::function<Result<void>()> &body);

private:
  friend class Memory;
  Machine() = default;
  struct Graph;
  Result<void> capture(const std::function<Result<void>()> &body, Graph &graph);

  runtime::DeviceKind kind = runtime::DeviceKind::Host;
  runtime::CudaPlace place;
  void *streams[2] = {};
  runtime::cuda::CUmodule occupyModule = nullptr;
  double contextTime = 0;
};

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_MACHINE_H
