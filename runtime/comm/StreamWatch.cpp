//===- StreamWatch.cpp - detects collectives that hang --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/StreamWatch.h"

#include <algorithm>

using namespace moec;
using namespace moec::comm;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

namespace {

/// Allows event queries during its lifetime. Without it, a query would
/// invalidate a stream capture that is in progress in this or another thread.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const CudaDriver &driver) : driver(driver) {
    driver.threadExchangeCaptureMode(&mode);
  }
  ~RelaxedCapture() { driver.threadExchangeCaptureMode(&mode); }
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
  const CudaDriver &driver;
  int mode = kCaptureModeRelaxed;
};

} // namespace

Result<std::unique_ptr<StreamWatch>>
StreamWatch::create(const CudaPlace &place) {
  const ContextScope scope(*place.driver, place.context);
  TRY(scope.status());
  std::unique_ptr<StreamWatch> made(
      new StreamWatch(*place.driver, place.context));
  for (Watched &one : made->ring)
    TRY(place.driver->check(
        place.driver->eventCreate(&one.event, kEventNoTiming),
        "cuEventCreate"));
  return made;
}

StreamWatch::~StreamWatch() {
  const ContextScope scope(driver, context);
  for (const Watched &one : ring)
    if (one.event)
      driver.eventDestroy(one.event);
}

Result<void> StreamWatch::add(CUstream stream) {
  int capturing = kCaptureNone;
  TRY(driver.check(driver.streamIsCapturing(stream, &capturing),
                   "cuStreamIsCapturing"));
  if (capturing != kCaptureNone)
    return {};
  const std::lock_guard<std::mutex> lock(mutex);
  forgetEnded();
  // If the ring is full, the newest event is recorded again, so it marks later
  // work than before.
  if (count < ring.size())
    ++count;
  Watched &last = at(count - 1);
  last.since = Clock::now();
  return driver.check(driver.eventRecord(last.event, stream), "cuEventRecord");
}

void StreamWatch::forgetEnded() {
  const RelaxedCapture relaxed(driver);
  while (count > 0 && driver.eventQuery(at(0).event) != kNotReady) {
    first = (first + 1) % ring.size();
    --count;
    progress = Clock::now();
  }
}

std::chrono::milliseconds StreamWatch::waiting() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (count == 0)
    return {};
  const ContextScope scope(driver, context);
  forgetEnded();
  if (count == 0)
    return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now() - std::max(at(0).since, progress));
}
