//===- CudaWindow.cpp - windows in the memory of GPUs ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All ranks exchange records twice while they create a window. First, each rank
// sends the address and IPC handle of its memory. Second, each rank reports
// whether it can access the memory of all other ranks. After the second
// exchange, every rank's window has been zeroed.
//
// Ranks destroy their windows independently. If another process still maps the
// memory of a window that is destroyed, the memory is moved to a list of
// retired memory. This list is checked when a window or communicator of the
// same CUDA context is created or destroyed.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/CudaWindow.h"

#include "runtime/comm/MappedMark.h"
#include "runtime/support/PerProcess.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <random>
#include <unistd.h>

using namespace moec;
using namespace moec::comm;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

namespace {

/// Allocations are rounded up to this page size. The driver shares whole pages,
/// so a shared page must not contain any other memory.
constexpr int64_t kPageBytes = int64_t(2) << 20;

constexpr std::string_view kStep = "create its window";

/// Copies `text` into a character field of a record that ranks exchange. The
/// text is truncated to size - 1 characters.
template <size_t size>
void keep(std::array<char, size> &to, std::string_view text) {
  to = {};
  std::ranges::copy(text.substr(0, size - 1), to.begin());
}

/// The result of one rank's step, in the form in which ranks exchange it.
struct Outcome {
  int32_t code = 0; ///< an ErrorCode; 0: success
  std::array<char, 508> message = {};
};

/// The description of a rank's window, as the rank sends it to the other ranks.
struct Offer {
  std::array<char, 40> host = {}; ///< the boot id of the host
  std::array<uint32_t, 4> process = {};
  int64_t pid = 0, device = 0, bytes = 0;
  uint64_t context = 0, address = 0;
  CUipcMemHandle handle = {};
  std::array<char, 128> mark = {};     ///< path of the MappedMark file
  std::array<char, 128> noHandle = {}; ///< why there is no IPC handle; "":
                                       ///< there is one
  Outcome outcome;
};

Outcome outcomeOf(const Result<void> &result) {
  Outcome outcome;
  if (!result) {
    outcome.code = static_cast<int32_t>(result.error().code);
    keep(outcome.message, result.error().message);
  }
  return outcome;
}

/// Exchanges records. Returns the records of all ranks, in rank order.
template <typename Record>
Result<std::vector<Record>> exchangeRecords(Communicator &communicator,
                                            const Record &mine,
                                            std::string_view step) {
  static_assert(std::is_trivially_copyable_v<Record>);
  const std::vector<char> bytes = TRY(communicator.exchange(
      {reinterpret_cast<const char *>(&mine), sizeof(mine)}, step));
  std::vector<Record> all(bytes.size() / sizeof(Record));
  std::memcpy(static_cast<void *>(all.data()), bytes.data(), bytes.size());
  return all;
}

/// Returns the error that `rank` reported if `outcome` is a failure.
Result<void> firstFailure(int64_t rank, const Outcome &outcome) {
  if (outcome.code == 0)
    return {};
  return Error(static_cast<ErrorCode>(outcome.code), "rank {}: {}", rank,
               outcome.message.data());
}

/// Fills in the fields that identify this process: host, process and pid.
void describeSelf(Offer &offer) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  keep(offer.host, boot);
  // kProcess does not suffice to identify the process: a forked child has the
  // same kProcess but another pid.
  static const std::array<uint32_t, 4> kProcess = [] {
    std::random_device random;
    return std::array<uint32_t, 4>{random(), random(), random(), random()};
  }();
  offer.process = kProcess;
  offer.pid = getpid();
}

/// Memory of a destroyed window that other processes may still map. If the
/// memory belongs to a primary context, the context is retained until the
/// memory is freed.
class RetiredMemory {
public:
  RetiredMemory(const CudaPlace &place, DeviceMemory memory, MappedMark mark)
      : driver(*place.driver), place(place.context), device(place.device),
        memory(std::move(memory)), mark(std::move(mark)) {
    CUcontext primary = nullptr;
    if (driver.primaryCtxRetain(&primary, device) != kSuccess)
      return;
    retains = primary == place.context;
    if (!retains)
      driver.primaryCtxRelease(device);
  }
  ~RetiredMemory() {
    memory = DeviceMemory();
    if (retains)
      driver.primaryCtxRelease(device);
  }
  CUcontext context() const { return place; }
  bool isMapped() const { return !mark.isAlone(); }

private:
  const CudaDriver &driver;
  const CUcontext place;
  const CUdevice device;
  DeviceMemory memory;
  MappedMark mark;
  bool retains = false;
};

struct RetiredMemories {
  std::mutex mutex;
  std::vector<std::unique_ptr<RetiredMemory>> all;
};

void retire(std::unique_ptr<RetiredMemory> memory) {
  auto &retired = perProcess<RetiredMemories>();
  const std::lock_guard<std::mutex> lock(retired.mutex);
  retired.all.push_back(std::move(memory));
}

class CudaWindow final : public Window {
public:
  CudaWindow(const WindowPlace &place, int64_t size)
      : cuda(place.cuda), driver(*cuda.driver), live(place.live),
        number(place.communicator.rank()), size(size) {}
  ~CudaWindow() override;

  int64_t rank() const override { return number; }
  int64_t bytes() const override { return size; }
  std::span<const uint64_t> addresses() const override { return all; }
  uint64_t peers() const override { return table.address(); }
  uint64_t status() const override { return blockAddress; }
  moe::ExchangeBlock &block() const override { return *hostBlock; }

  /// Allocates the exchange block and `bytes` bytes of window memory. If
  /// `bytes` is 0, the caller provides the window memory.
  Result<void> allocate(const WindowPlace &place, int64_t bytes);
  Result<void> zero(uint64_t address) const;
  void describe(const WindowPlace &place, Offer &offer);
  /// Maps the memory of `rank` in this process and appends its address to
  /// `all`.
  Result<void> reach(const WindowPlace &place, int64_t rank, const Offer &mine,
                     const Offer &its);
  Result<void> upload(const WindowPlace &place);
  uint64_t memory() const { return allocated.address(); }
  /// Must be called when each rank has opened the mark file or failed. Removes
  /// the file.
  void isReached() {
    if (mark)
      mark->removeFile();
  }

  std::vector<uint64_t> all;

private:
  const CudaPlace cuda;
  const CudaDriver &driver;
  const std::shared_ptr<LiveWindows> live;
  const int64_t number, size;
  DeviceMemory allocated, table;
  /// Mark of `allocated`; empty if there is no IPC handle.
  std::optional<MappedMark> mark;
  /// Pointers opened by CUDA IPC, to be closed.
  std::vector<CUdeviceptr> opened;
  std::vector<MappedMark> joined; ///< the marks of the memory in `opened`
  moe::ExchangeBlock *hostBlock = nullptr;
  CUdeviceptr blockAddress = 0;
};

} // namespace

CudaWindow::~CudaWindow() {
  live->remove(*this);
  const ContextScope scope(driver, cuda.context);
  // Waits for runs that are in flight, because they may write to other ranks'
  // windows.
  driver.ctxSynchronize();
  for (const CUdeviceptr pointer : opened)
    driver.ipcCloseMemHandle(pointer);
  joined.clear();
  if (mark)
    retire(std::make_unique<RetiredMemory>(cuda, std::move(allocated),
                                           std::move(*mark)));
  freeRetired(cuda.context);
  if (hostBlock)
    driver.memFreeHost(hostBlock);
}

Result<void> CudaWindow::allocate(const WindowPlace &place, int64_t bytes) {
  void *memory = nullptr;
  TRY(driver.check(driver.memHostAlloc(&memory, sizeof(moe::ExchangeBlock),
                                       kHostAllocPortable | kHostAllocMapped),
                   "cuMemHostAlloc"));
  hostBlock = new (memory) moe::ExchangeBlock{};
  hostBlock->timeoutNs =
      uint64_t(std::chrono::nanoseconds(place.timeout).count());
  TRY(driver.check(
      driver.memHostGetDevicePointer(&blockAddress, memory, /*flags=*/0),
      "cuMemHostGetDevicePointer"));
  if (bytes > 0)
    allocated = TRY(DeviceMemory::allocate(
        place.cuda,
        uint64_t((bytes + kPageBytes - 1) / kPageBytes * kPageBytes)));
  return {};
}

Result<void> CudaWindow::zero(uint64_t address) const {
  TRY(driver.check(driver.memsetD8(address, 0, size_t(size)),
                   "zeroing the window"));
  // cuMemsetD8 is asynchronous with respect to the host.
  return driver.check(driver.ctxSynchronize(), "zeroing the window");
}

void CudaWindow::describe(const WindowPlace &place, Offer &offer) {
  describeSelf(offer);
  offer.device = place.cuda.device;
  offer.context = reinterpret_cast<uint64_t>(cuda.context);
  offer.address = memory();
  const auto share = [&]() -> Result<void> {
    TRY(driver.check(driver.ipcGetMemHandle(&offer.handle, memory()),
                     "cuIpcGetMemHandle"));
    mark.emplace(TRY(MappedMark::create()));
    keep(offer.mark, mark->path());
    return {};
  };
  // An error is not fatal here, because ranks in the same process do not need
  // the IPC handle.
  if (const auto done = share(); !done)
    keep(offer.noHandle, done.error().message);
}

Result<void> CudaWindow::reach(const WindowPlace &place, int64_t rank,
                               const Offer &mine, const Offer &its) {
  const auto cannot = [&](std::string_view why) {
    return Error(ErrorCode::NoCommunication,
                 "its GPU does not reach that of rank {}: {}", rank, why);
  };
  if (its.process == mine.process && its.pid == mine.pid) {
    all.push_back(its.address);
    if (its.context == mine.context)
      return {};
    if (its.device == mine.device)
      return cannot("both have a context of their own on one GPU");
    int can = 0;
    TRY(driver.check(driver.deviceCanAccessPeer(&can, place.cuda.device,
                                                CUdevice(its.device)),
                     "cuDeviceCanAccessPeer"));
    if (!can)
      return cannot("the driver has no peer access between them");
    const CUresult enabled = driver.ctxEnablePeerAccess(
        reinterpret_cast<CUcontext>(its.context), /*flags=*/0);
    if (enabled != kPeerAccessAlready)
      TRY(driver.check(enabled, "cuCtxEnablePeerAccess"));
    return {};
  }
  if (its.host != mine.host || mine.host[0] == '\0')
    return cannot("it is on another host");
  if (its.noHandle[0] != '\0')
    return cannot(its.noHandle.data());
  auto held = MappedMark::join(its.mark.data());
  if (!held)
    return cannot(held.error().message);
  CUdeviceptr pointer = 0;
  if (const auto done = driver.check(
          driver.ipcOpenMemHandle(&pointer, its.handle, kIpcLazyPeerAccess),
          "cuIpcOpenMemHandle");
      !done)
    return cannot(done.error().message);
  joined.push_back(std::move(*held));
  opened.push_back(pointer);
  all.push_back(pointer);
  return {};
}

Result<void> CudaWindow::upload(const WindowPlace &place) {
  table =
      TRY(DeviceMemory::allocate(place.cuda, all.size() * sizeof(uint64_t)));
  TRY(driver.upload(table.address(), all.data(),
                    all.size() * sizeof(uint64_t)));
  live->add(*this);
  return {};
}

void comm::freeRetired(CUcontext context) {
  auto &retired = perProcess<RetiredMemories>();
  // `unmapped` is declared before the lock so that its memory is freed after
  // the unlock: cuMemFree may wait for the GPU.
  std::vector<std::unique_ptr<RetiredMemory>> unmapped;
  const std::lock_guard<std::mutex> lock(retired.mutex);
  const auto stays = std::ranges::partition(
      retired.all, [&](const std::unique_ptr<RetiredMemory> &one) {
        return one->context() != context || one->isMapped();
      });
  std::ranges::move(stays, std::back_inserter(unmapped));
  retired.all.erase(stays.begin(), stays.end());
}

Result<void> comm::agree(Communicator &communicator, const Result<void> &mine,
                         std::string_view step) {
  const std::vector<Outcome> all =
      TRY(exchangeRecords(communicator, outcomeOf(mine), step));
  for (size_t rank = 0; rank < all.size(); ++rank)
    TRY(firstFailure(int64_t(rank), all[rank]));
  return {};
}

Result<std::unique_ptr<Window>> comm::shareByDriver(const WindowPlace &place,
                                                    int64_t bytes) {
  const ContextScope scope(*place.cuda.driver, place.cuda.context);
  TRY(scope.status());
  freeRetired(place.cuda.context);
  auto window = std::make_unique<CudaWindow>(place, bytes);
  Offer mine;
  mine.bytes = bytes;
  const auto prepare = [&]() -> Result<void> {
    TRY(window->allocate(place, bytes));
    TRY(window->zero(window->memory()));
    window->describe(place, mine);
    return {};
  };
  mine.outcome = outcomeOf(prepare());
  const std::vector<Offer> offers =
      TRY(exchangeRecords(place.communicator, mine, kStep));
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    TRY(firstFailure(int64_t(rank), offers[rank].outcome));
    if (offers[rank].bytes != offers[0].bytes)
      return Error(ErrorCode::PeerMismatch,
                   "rank 0 creates a window of {} bytes, and rank {} one of {}",
                   offers[0].bytes, rank, offers[rank].bytes);
  }
  const auto reachAll = [&]() -> Result<void> {
    for (size_t rank = 0; rank < offers.size(); ++rank)
      TRY(window->reach(place, int64_t(rank), mine, offers[rank]));
    return window->upload(place);
  };
  const Result<void> agreed = agree(place.communicator, reachAll(), kStep);
  window->isReached();
  TRY(agreed);
  return std::unique_ptr<Window>(std::move(window));
}

Result<std::unique_ptr<Window>>
comm::takeShared(const WindowPlace &place, int64_t bytes,
                 Result<std::vector<uint64_t>> addresses) {
  const ContextScope scope(*place.cuda.driver, place.cuda.context);
  TRY(scope.status());
  auto window = std::make_unique<CudaWindow>(place, bytes);
  const auto prepare = [&]() -> Result<void> {
    window->all = TRY(std::move(addresses));
    for (size_t rank = 0; rank < window->all.size(); ++rank)
      if (window->all[rank] == 0 || window->all[rank] % kWindowAlignment != 0)
        return invalidArgument("expected the window of rank {} at a multiple "
                               "of {}, got the address {:#x}",
                               rank, kWindowAlignment, window->all[rank]);
    TRY(window->allocate(place, /*bytes=*/0));
    TRY(window->zero(window->own()));
    return window->upload(place);
  };
  TRY(agree(place.communicator, prepare(), kStep));
  return std::unique_ptr<Window>(std::move(window));
}
