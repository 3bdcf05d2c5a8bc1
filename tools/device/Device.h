//===- Device.h - memory, streams and times of a device ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs need this of a device beside packages: buffers, copies, two streams,
// graphs and times. A GPU is driven through the driver, which is opened at run
// time. The host has plain memory and a clock, so that the programs are tested
// on a machine without a GPU.
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

/// Memory of a device, freed with the object.
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

/// How often Device::median runs what it times.
struct Replays {
  int warmups = 3;
  int least = 7;        ///< timings at least
  int most = 300;       ///< and at most
  double budgetMs = 40; ///< timings go on for so long
  double eachMs = 0;    ///< a timing replays the graph until this has passed
  /// If the first replay takes over `idleAboveMs`, the device idles for
  /// `idleMs` before the others. 0: never.
  double idleAboveMs = 0, idleMs = 0;
};

class Device {
public:
  /// GPU 0 through its primary context, which becomes current for the calling
  /// thread; or the host.
  /// arch: of an emulated GPU; "": as MOEC_EMULATOR says.
  static Result<Device> open(runtime::DeviceKind kind,
                             const std::string &arch = "");
  Device(Device &&other) noexcept;
  Device &operator=(Device &&other) = delete;
  ~Device();

  bool onHost() const { return place.driver == nullptr; }
  /// "host", or as the driver names the GPU.
  const std::string &name() const { return place.info.name; }
  const runtime::DeviceInfo &info() const { return place.info; }
  /// The driver; null on the host.
  const runtime::cuda::CudaDriver *driver() const { return place.driver; }
  /// As the driver numbers it, 13000 for 13.0; 0 on the host.
  int driverVersion() const;
  /// Milliseconds that the context took.
  double contextMilliseconds() const { return contextTime; }
  Result<int64_t> freeBytes() const;

  /// Aligned as workspaces are; the content is undefined.
  Result<Buffer> allocate(int64_t bytes) const;
  Result<void> upload(void *to, const void *from, int64_t bytes) const;
  Result<void> download(void *to, const void *from, int64_t bytes) const;
  Result<void> fill(void *to, int byte, int64_t bytes) const;
  /// Within the device, in stream 0.
  Result<void> copy(void *to, const void *from, int64_t bytes) const;

  /// Stream 0 or 1; both null on the host.
  void *stream(int index = 0) const { return streams[index]; }
  Result<void> synchronize(int stream = 0) const;
  Result<void> synchronizeAll() const;

  /// Runs `work` on stream 0 of a GPU, captured into a graph that is then
  /// launched there once.
  Result<void> runCaptured(const std::function<Result<void>()> &work) const;

  /// Median milliseconds of one `work`, which queues on stream 0. On a GPU it
  /// is captured once in a graph, replayed and timed by events; on the host it
  /// is called `least` times.
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

/// The value in the middle; of an even number, the mean of the two; 0 of none.
double medianOf(std::vector<double> values);

} // namespace moec::tools

#endif // MOEC_TOOLS_DEVICE_DEVICE_H
