//===- Device.h - memory, streams and timing --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of a device that the programs need besides packages: buffers,
// copies, two streams, CUDA graphs and timing. A GPU is used through the CUDA
// driver, which is loaded at run time. The host has plain memory and a clock,
// so that the programs can be tested without a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_DEVICE_DEVICE_H
#define MOEC_TOOLS_DEVICE_DEVICE_H

#include "runtime/api/Package.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moec::tools {

/// Memory of a device or of the host, which the destructor frees.
class Buffer {
public:
  Buffer() = default;
  Buffer(Buffer &&other) noexcept;
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer();
  void *data() const { return pointer; }
  int64_t bytes() const { return size; }

private:
  friend class Device;
  const runtime::cuda::CudaDriver *driver = nullptr; ///< null on the host
  void *pointer = nullptr;
  int64_t size = 0;
};

/// The repetitions of Device::median().
struct Replays {
  int warmups = 3;
  int least = 7;        ///< minimum number of timings
  int most = 300;       ///< maximum number of timings
  double budgetMs = 40; ///< no timing starts after this total time
  double eachMs = 0; ///< each timing replays the graph for at least this time
  /// If the first replay takes longer than `idleAboveMs`, the device idles for
  /// `idleMs` before the next ones. 0: never.
  double idleAboveMs = 0, idleMs = 0;
};

/// A GPU or the host.
class Device {
public:
  /// Opens the host, or GPU 0 with its primary context, which becomes current
  /// for the calling thread. `arch`: the arch of an emulated GPU; if it is "",
  /// MOEC_EMULATOR specifies the arch.
  static Result<Device> open(runtime::DeviceKind kind,
                             const std::string &arch = "");
  Device(Device &&other) noexcept;
  Device &operator=(Device &&other) = delete;
  ~Device();

  bool onHost() const { return place.driver == nullptr; }
  /// Returns "host", or the driver's name of the GPU.
  const std::string &name() const { return place.info.name; }
  const runtime::DeviceInfo &info() const { return place.info; }
  /// Returns the driver; null on the host.
  const runtime::cuda::CudaDriver *driver() const { return place.driver; }
  /// Returns the driver's version number, such as 13000 for 13.0; 0 on the
  /// host.
  int driverVersion() const;
  /// Returns the time in milliseconds that creating the context took.
  double contextMilliseconds() const { return contextTime; }
  Result<int64_t> freeBytes() const;

  /// Allocates memory with the alignment of workspaces. The contents are
  /// undefined.
  Result<Buffer> allocate(int64_t bytes) const;
  Result<void> upload(void *to, const void *from, int64_t bytes) const;
  Result<void> download(void *to, const void *from, int64_t bytes) const;
  Result<void> fill(void *to, int byte, int64_t bytes) const;
  /// Copies within the device, in stream 0.
  Result<void> copy(void *to, const void *from, int64_t bytes) const;

  /// Returns stream 0 or 1; null on the host.
  void *stream(int index = 0) const { return streams[index]; }
  Result<void> synchronize(int stream = 0) const;
  Result<void> synchronizeAll() const;

  /// Captures `work` on stream 0 of a GPU into a graph, and launches the graph
  /// there once.
  Result<void> runCaptured(const std::function<Result<void>()> &work) const;

  /// Returns the median time in milliseconds of `work`, which enqueues on
  /// stream 0. On a GPU, `work` is captured once into a graph, which is
  /// replayed and timed with events. On the host, `work` is called `least`
  /// times.
  Result<double> median(const std::function<Result<void>()> &work,
                        const Replays &replays) const;

private:
  Device() = default;
  struct Graph;
  Result<void> capture(const std::function<Result<void>()> &work,
                       Graph &graph) const;
  Result<double> medianOfGraph(const std::function<Result<void>()> &work,
                               const Replays &replays) const;

  runtime::CudaPlace place;
  void *streams[2] = {};
  double contextTime = 0;
};

/// Returns the median: the middle value, the mean of the two middle values, or
/// 0 without values.
double medianOf(std::vector<double> values);

} // namespace moec::tools

#endif // MOEC_TOOLS_DEVICE_DEVICE_H
