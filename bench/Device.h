//===- Device.h - memory, streams and graphs of the bench -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device for moec-bench, beside the C ABI: buffers, one stream,
// graphs and times. On CUDA through the driver, which is opened at run time;
// the host device has plain memory and a clock, so that the program itself is
// tested where there is no GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_DEVICE_H
#define MOEC_BENCH_DEVICE_H

#include "runtime/device/CudaDriver.h"
#include "runtime/support/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moec::bench {

/// Device memory, freed with the object.
class Buffer {
public:
  Buffer() = default;
  Buffer(Buffer &&other) noexcept { *this = std::move(other); }
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer() { release(); }
  void *data() const { return pointer; }
  uint64_t bytes() const { return size; }

private:
  friend class Device;
  void release();
  const runtime::cuda::CudaDriver *driver = nullptr; ///< null on the host
  void *pointer = nullptr;
  uint64_t size = 0;
};

/// How often a graph is replayed.
struct Replays {
  int warmups = 3;
  int least = 7;        ///< timed ones, at least
  double budgetMs = 40; ///< and as many (up to 300) as take so long
  /// If the first replay takes over `idleAboveMs`, the device idles for
  /// `idleMs` before the others. 0: never.
  double idleAboveMs = 0, idleMs = 0;
};

class Device {
public:
  /// Opens device 0 through its primary context, or the host.
  static Result<Device> open(bool host);
  Device(Device &&other) noexcept;
  ~Device();

  const std::string &name() const { return deviceName; }
  bool isHost() const { return driver == nullptr; }
  void *stream() const { return cudaStream; }
  /// The driver; null on the host.
  const runtime::cuda::CudaDriver *cuda() const { return driver; }
  /// As the driver numbers it, 13000 for 13.0; 0 on the host.
  int driverVersion() const;
  Result<uint64_t> freeBytes() const;

  Result<Buffer> allocate(uint64_t bytes) const;
  Result<void> upload(void *to, const void *from, uint64_t bytes) const;
  Result<void> download(void *to, const void *from, uint64_t bytes) const;
  /// Within the device, in the stream.
  Result<void> copy(void *to, const void *from, uint64_t bytes) const;
  Result<void> synchronize() const;

  /// Median milliseconds of one execution of `work`, which queues on the
  /// stream. CUDA: captured once in a graph, replayed and timed by events.
  /// Host: called `least` times.
  Result<double> median(const std::function<Result<void>()> &work,
                        const Replays &replays) const;

private:
  Device() = default;
  Result<double> medianOfGraph(const std::function<Result<void>()> &work,
                               const Replays &replays) const;
  const runtime::cuda::CudaDriver *driver = nullptr;
  runtime::cuda::CUcontext context = nullptr;
  runtime::cuda::CUstream cudaStream = nullptr;
  std::string deviceName = "host";
};

/// The value in the middle; of an even number, the mean of the two.
double medianOf(std::vector<double> values);

} // namespace moec::bench

#endif // MOEC_BENCH_DEVICE_H
