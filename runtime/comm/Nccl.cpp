//===- Nccl.cpp - a communicator over NCCL --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connecting may wait for ranks that never arrive, and NCCL has no timeout for
// it. Therefore a separate thread connects, and the caller abandons this thread
// after the timeout.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Nccl.h"

#include "runtime/comm/CudaWindow.h"
#include "runtime/comm/NcclLibrary.h"
#include "runtime/comm/StreamWatch.h"
#include "runtime/cuda/CudaCode.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

using namespace moec;
using namespace moec::comm;
using moec::runtime::ContextScope;
using moec::runtime::CudaPlace;

namespace {

/// An NCCL call that creates a communicator on a separate thread. The call may
/// never return.
struct Attempt {
  std::mutex mutex;
  std::condition_variable changed;
  bool isDone = false, isAbandoned = false;
  int status = kNcclSuccess;
  NcclComm made = nullptr;
};

/// A rank's communicator over NCCL.
class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(Nccl nccl, CudaPlace place, const NcclOptions &options)
      : nccl(nccl), place(std::move(place)), number(options.rank),
        ranks(options.ranks), timeout(options.timeout),
        ncclWindows(options.ncclWindows) {}
  ~NcclCommunicator() override;

  int64_t rank() const override { return number; }
  int64_t size() const override { return ranks; }
  bool onGpu() const override { return true; }
  const void *context() const override { return place.context; }
  Result<void> connect(const NcclOptions &options);
  Result<void> firstCalls(NcclComm comm, int64_t members);
  Result<void> prepare(int64_t ofGroup, int64_t stride) override;
  Result<void> perform(const Call &call) override;
  Result<std::vector<char>> exchange(std::span<const char> mine,
                                     std::string_view step) override;
  Result<std::unique_ptr<Window>> window(int64_t bytes) override;
  Result<void> status() override;
  void abort(std::string reason) override;

private:
  using Groups = std::map<std::pair<int64_t, int64_t>, NcclComm>;

  Result<NcclComm> make(std::string_view what,
                        std::function<int(NcclComm *)> make);
  Result<void> queue(const Call &call, NcclComm comm);
  Result<void> isInTime();
  int settle(NcclComm comm, int status) const;
  std::vector<NcclComm> comms() const;
  Result<void> isWhole();
  Error breakOff(Error error);
  Result<void> wait(runtime::cuda::CUstream stream, std::string_view step);
  Result<void *> allocateWindow(int64_t bytes);
  Result<std::vector<uint64_t>> registerWindow(void *memory, int64_t bytes);
  Result<std::unique_ptr<Window>> windowByNccl(const WindowPlace &where,
                                               int64_t bytes);

  const Nccl nccl;
  const CudaPlace place;
  const int64_t number, ranks;
  const std::chrono::milliseconds timeout;
  const bool ncclWindows;
  const std::shared_ptr<LiveWindows> live = std::make_shared<LiveWindows>();
  /// Memory of windows that NCCL registered. The memory may be freed only after
  /// `all` is destroyed, because that deregisters the windows.
  std::vector<void *> windowMemory;
  std::unique_ptr<StreamWatch> watch; ///< watches the streams of runs
  /// Held during every NCCL call except abort().
  std::timed_mutex inUse;
  using Clock = std::chrono::steady_clock;
  /// Start time of the current call that enqueues; the epoch if no thread
  /// enqueues.
  std::atomic<Clock::time_point> queueing{};
  std::mutex state; ///< protects the members that follow
  NcclComm all = nullptr;
  /// Communicators of groups with fewer ranks than `all`, by (ranks, stride).
  Groups groups;
  std::string why;         ///< why the communicator has failed; "": not failed
  bool ended = false;      ///< NCCL's communicators have been aborted
  bool leftThread = false; ///< an abandoned thread may still use the CUDA
                           ///< context
};

/// A non-blocking stream, which does not synchronize with the null stream. Its
/// CUDA context must be current when it is destroyed.
struct OwnStream {
  static Result<std::unique_ptr<OwnStream>> create(const CudaPlace &place) {
    auto made = std::make_unique<OwnStream>(*place.driver);
    TRY(place.driver->check(
        place.driver->streamCreate(&made->stream, /*non-blocking*/ 1),
        "cuStreamCreate"));
    return made;
  }
  explicit OwnStream(const runtime::cuda::CudaDriver &driver)
      : driver(driver) {}
  ~OwnStream() {
    if (stream)
      driver.streamDestroy(stream);
  }
  OwnStream(const OwnStream &) = delete;
  OwnStream &operator=(const OwnStream &) = delete;

  const runtime::cuda::CudaDriver &driver;
  runtime::cuda::CUstream stream = nullptr;
};

int typeOf(std::string_view elementType) {
  return elementType == "f32" ? 7 : elementType == "f16" ? 6 : 9;
}

} // namespace

NcclCommunicator::~NcclCommunicator() {
  {
    const ContextScope scope(*place.driver, place.context);
    const auto end = [&](NcclComm comm) {
      why.empty() ? nccl.destroy(comm) : nccl.abort(comm);
    };
    if (!ended)
      std::ranges::for_each(comms(), end);
    if (!leftThread)
      std::ranges::for_each(windowMemory, nccl.memFree);
    watch.reset();
  }
  freeRetired(place.context);
  if (place.retained && !leftThread)
    place.driver->primaryCtxRelease(place.device);
}

/// Returns all NCCL communicators. `all` is last, because the other
/// communicators were split from `all`.
std::vector<NcclComm> NcclCommunicator::comms() const {
  std::vector<NcclComm> made;
  for (const auto &[key, comm] : groups)
    made.push_back(comm);
  if (all)
    made.push_back(all);
  return made;
}

Result<void> NcclCommunicator::isWhole() {
  const std::lock_guard<std::mutex> lock(state);
  if (!why.empty())
    return Error(ErrorCode::PeerLost,
                 "the communicator of rank {} has failed before: {}", number,
                 why);
  return {};
}

/// Marks the communicator as failed. Only the reason of the first failure is
/// stored.
Error NcclCommunicator::breakOff(Error error) {
  const std::lock_guard<std::mutex> lock(state);
  if (why.empty())
    why = error.message;
  return error;
}

/// Aborts the communicator if enqueued work, or a call that enqueues work, has
/// waited longer than the timeout.
Result<void> NcclCommunicator::isInTime() {
  const Clock::time_point since = queueing;
  const auto calling =
      since == Clock::time_point()
          ? std::chrono::milliseconds()
          : std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() -
                                                                  since);
  const auto waited = std::max(watch->waiting(), calling);
  if (waited < timeout)
    return {};
  Error late(ErrorCode::PeerLost,
             "rank {}: a run has waited {} ms for the other ranks to do the "
             "same",
             number, waited.count());
  abort(late.message);
  return late;
}

Result<void> NcclCommunicator::status() {
  TRY(isWhole());
  TRY(live->check(number));
  TRY(isInTime());
  // A thread that is inside an NCCL call checks NCCL's status itself.
  const std::unique_lock<std::timed_mutex> calling(inUse, std::try_to_lock);
  if (!calling)
    return {};
  std::vector<NcclComm> asked;
  {
    const std::lock_guard<std::mutex> lock(state);
    if (!ended)
      asked = comms();
  }
  for (NcclComm comm : asked) {
    int found = kNcclSuccess;
    if (const int failed = nccl.asyncError(comm, &found);
        failed != kNcclSuccess)
      found = failed;
    if (found != kNcclSuccess && found != kInProgress)
      return breakOff(Error(ErrorCode::PeerLost, "rank {}: NCCL reports {}",
                            number, nccl.describe(found)));
  }
  return {};
}

void NcclCommunicator::abort(std::string reason) {
  std::vector<NcclComm> ending;
  {
    const std::lock_guard<std::mutex> lock(state);
    if (why.empty())
      why = std::move(reason);
    if (ended)
      return;
    ended = true;
    ending = comms();
  }
  live->abort();
  // Waits briefly for a call that is in progress, so that the communicator is
  // not aborted while such a call uses it. A call that takes longer than this
  // waits for another rank, and only an abort ends it.
  constexpr std::chrono::milliseconds kShort{200};
  const std::unique_lock<std::timed_mutex> calling(inUse, kShort);
  const ContextScope scope(*place.driver, place.context);
  for (NcclComm comm : ending)
    nccl.abort(comm);
}

/// Polls a communicator until its operation is no longer in progress. The
/// communicator may be nonblocking, because a caller may have lent it. Returns
/// the final status.
int NcclCommunicator::settle(NcclComm comm, int status) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (status == kInProgress && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    if (const int asked = nccl.asyncError(comm, &status); asked != kNcclSuccess)
      return asked;
  }
  return status;
}

Result<NcclComm> NcclCommunicator::make(std::string_view what,
                                        std::function<int(NcclComm *)> make) {
  auto attempt = std::make_shared<Attempt>();
  std::thread([attempt, make = std::move(make), &driver = *place.driver,
               context = place.context, abort = nccl.abort] {
    const ContextScope scope(driver, context);
    NcclComm made = nullptr;
    const int status = make(&made);
    const std::lock_guard<std::mutex> lock(attempt->mutex);
    attempt->status = status, attempt->made = made;
    attempt->isDone = true;
    if (attempt->isAbandoned && made)
      abort(made);
    attempt->changed.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(attempt->mutex);
  if (!attempt->changed.wait_for(lock, timeout,
                                 [&] { return attempt->isDone; })) {
    attempt->isAbandoned = true;
    leftThread = true;
    return breakOff(Error(ErrorCode::PeerLost,
                          "rank {} waited {} ms for the other ranks to do {}",
                          number, timeout.count(), what));
  }
  const int status =
      settle(attempt->made ? attempt->made : all, attempt->status);
  if (status != kNcclSuccess)
    return breakOff(nccl.failed(what, status));
  return attempt->made;
}

Result<void> NcclCommunicator::connect(const NcclOptions &options) {
  watch = TRY(StreamWatch::create(place));
  if (options.borrowed) {
    const auto lender = static_cast<NcclComm>(options.borrowed);
    int count = 0, its = 0;
    if (const int status = nccl.count(lender, &count); status != kNcclSuccess)
      return nccl.failed("ncclCommCount", status);
    if (const int status = nccl.userRank(lender, &its); status != kNcclSuccess)
      return nccl.failed("ncclCommUserRank", status);
    if (count != ranks || its != number)
      return invalidArgument("the ncclComm_t is rank {} of {}, and rank {} of "
                             "{} was asked for",
                             its, count, number, ranks);
    all = TRY(make("ncclCommSplit", [split = nccl.split, lender,
                                     key = int(number)](NcclComm *made) {
      return split(lender, /*color=*/0, key, made, /*config=*/nullptr);
    }));
    return firstCalls(all, ranks);
  }
  NcclId id;
  std::ranges::copy(*options.id, id.bytes);
  all = TRY(
      make("ncclCommInitRank",
           [init = nccl.initRank, id, count = int(ranks), mine = int(number)](
               NcclComm *made) { return init(made, count, id, mine); }));
  return firstCalls(all, ranks);
}

/// Issues the first collective of each kind, with a timeout. NCCL connects the
/// ranks during the first collective of each kind, and meanwhile waits
/// on the host for the other ranks. The all-gather sets up rings, and the small
/// all-reduce sets up trees.
Result<void> NcclCommunicator::firstCalls(NcclComm comm, int64_t members) {
  struct Trial {
    runtime::DeviceMemory memory;
    std::unique_ptr<OwnStream> own;
  };
  const ContextScope scope(*place.driver, place.context);
  TRY(scope.status());
  constexpr int64_t kBytes = 256;
  auto trial = std::make_shared<Trial>(
      TRY(runtime::DeviceMemory::allocate(place, kBytes * (members + 1))),
      TRY(OwnStream::create(place)));
  TRY(make("their first collectives", [nccl = nccl, comm,
                                       trial](NcclComm * /*made*/) {
    const auto mine = trial->memory.address();
    const auto *from = reinterpret_cast<const void *>(mine);
    auto *to = reinterpret_cast<void *>(mine + kBytes);
    runtime::cuda::CUstream stream = trial->own->stream;
    int status = nccl.groupStart();
    if (status == kNcclSuccess)
      status = nccl.allGather(from, to, size_t(kBytes), kUint8, comm, stream);
    if (status == kNcclSuccess)
      status = nccl.allReduce(to, to, 1, typeOf("f32"), kSum, comm, stream);
    const int ended = nccl.groupEnd();
    return status == kNcclSuccess ? ended : status;
  }));
  return wait(trial->own->stream, "do their first collectives");
}

Result<void> NcclCommunicator::prepare(int64_t ofGroup, int64_t stride) {
  if ((ofGroup == ranks && stride == 1) || groups.contains({ofGroup, stride}))
    return {};
  std::unique_lock<std::timed_mutex> calling(inUse);
  TRY(isWhole());
  const auto color = int(groupOf(number, ofGroup, stride).front());
  NcclComm group =
      TRY(make("ncclCommSplit", [split = nccl.split, from = all, color,
                                 key = int(number)](NcclComm *made) {
        return split(from, color, key, made, /*config=*/nullptr);
      }));
  bool isKept = false;
  {
    const std::lock_guard<std::mutex> lock(state);
    isKept = !ended;
    if (isKept)
      groups[{ofGroup, stride}] = group;
  }
  if (!isKept) {
    nccl.abort(group);
    return isWhole();
  }
  calling.unlock();
  return firstCalls(group, ofGroup);
}

/// Enqueues the collective for all parts of a call as one NCCL group operation.
Result<void> NcclCommunicator::queue(const Call &call, NcclComm comm) {
  queueing = Clock::now();
  struct Queued {
    std::atomic<Clock::time_point> &since;
    ~Queued() { since = Clock::time_point(); }
  } const queued{queueing};
  std::vector<size_t> bytes;
  for (const Part &part : call.parts)
    bytes.push_back(static_cast<size_t>(TRY(bytesOf(part))));
  int status = nccl.groupStart();
  for (size_t i = 0; i < call.parts.size(); ++i) {
    const Part &part = call.parts[i];
    const auto count = static_cast<size_t>(part.elements);
    if (status != kNcclSuccess)
      break;
    switch (call.kind) {
    case Collective::Kind::AllGather:
      status = nccl.allGather(part.from, part.to, bytes[i], kUint8, comm,
                              call.stream);
      break;
    case Collective::Kind::ReduceScatter:
      status =
          nccl.reduceScatter(part.from, part.to, count,
                             typeOf(part.elementType), kSum, comm, call.stream);
      break;
    case Collective::Kind::AllReduce:
      status =
          nccl.allReduce(part.from, part.to, count, typeOf(part.elementType),
                         kSum, comm, call.stream);
      break;
    }
  }
  const int ended = nccl.groupEnd();
  status = settle(comm, status == kNcclSuccess ? ended : status);
  if (status != kNcclSuccess)
    return nccl.failed(nameOf(call.kind), status);
  return {};
}

Result<void> NcclCommunicator::perform(const Call &call) {
  TRY(isWhole());
  TRY(isInTime());
  const std::lock_guard<std::timed_mutex> calling(inUse);
  TRY(isWhole());
  const bool isOfAll = call.ranks == ranks && call.stride == 1;
  const auto found = groups.find({call.ranks, call.stride});
  if (!isOfAll && found == groups.end())
    return Error(ErrorCode::Internal,
                 "groups of {} ranks, {} apart, were not prepared", call.ranks,
                 call.stride);
  const NcclComm comm = isOfAll ? all : found->second;
  int status = kNcclSuccess;
  if (const int asked = nccl.asyncError(comm, &status);
      asked != kNcclSuccess ||
      (status != kNcclSuccess && status != kInProgress))
    return breakOff(
        Error(ErrorCode::PeerLost, "what was queued before {} has failed: {}",
              nameOf(call.kind),
              nccl.describe(asked != kNcclSuccess ? asked : status)));
  Result<void> done = queue(call, comm);
  if (!done)
    return breakOff(done.takeError());
  // exchange() makes calls without tokens, and waits for them itself.
  if (call.tokens == 0)
    return {};
  return watch->add(static_cast<runtime::cuda::CUstream>(call.stream));
}

/// Waits until `stream` has completed its work. After the timeout, aborts NCCL.
Result<void> NcclCommunicator::wait(runtime::cuda::CUstream stream,
                                    std::string_view step) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto queried = place.driver->streamQuery(stream);
    if (queried != runtime::cuda::kNotReady)
      return place.driver->check(queried, "cuStreamQuery");
    TRY(status());
    if (std::chrono::steady_clock::now() > end) {
      Error late(ErrorCode::PeerLost,
                 "rank {} waited {} ms for the other ranks to {}", number,
                 timeout.count(), step);
      abort(late.message);
      return late;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Result<std::vector<char>> NcclCommunicator::exchange(std::span<const char> mine,
                                                     std::string_view step) {
  const runtime::cuda::CudaDriver &driver = *place.driver;
  const ContextScope scope(driver, place.context);
  TRY(scope.status());
  std::vector<char> gathered(mine.size() * size_t(ranks));
  const auto from = TRY(runtime::DeviceMemory::allocate(place, mine.size()));
  const auto to = TRY(runtime::DeviceMemory::allocate(place, gathered.size()));
  TRY(driver.upload(from.address(), mine.data(), mine.size()));
  const std::unique_ptr<OwnStream> own = TRY(OwnStream::create(place));
  const Part part = {reinterpret_cast<const void *>(from.address()),
                     reinterpret_cast<void *>(to.address()),
                     static_cast<int64_t>(mine.size()), "i8"};
  TRY(perform({Collective::Kind::AllGather,
               ranks,
               1,
               {&part, 1},
               own->stream,
               0,
               step}));
  TRY(wait(own->stream, step));
  TRY(driver.check(
      driver.memcpyDtoH(gathered.data(), to.address(), gathered.size()),
      "cuMemcpyDtoH"));
  return gathered;
}

Result<void *> NcclCommunicator::allocateWindow(int64_t bytes) {
  if (nccl.version < kWindowVersion || !nccl.memAlloc || !nccl.memFree ||
      !nccl.windowRegister || !nccl.peerPointer)
    return Error(ErrorCode::NoCommunication,
                 "windows of NCCL need NCCL 2.29.2 or later, and it is "
                 "{}.{}.{}",
                 nccl.version / 10000, nccl.version / 100 % 100,
                 nccl.version % 100);
  void *memory = nullptr;
  if (const int status = nccl.memAlloc(&memory, size_t(bytes));
      status != kNcclSuccess)
    return nccl.failed("ncclMemAlloc", status);
  windowMemory.push_back(memory);
  return memory;
}

/// Registers `memory` as an NCCL window and returns its address on each rank.
/// All ranks must call this. NCCL itself has no timeout for it.
Result<std::vector<uint64_t>> NcclCommunicator::registerWindow(void *memory,
                                                               int64_t bytes) {
  const std::lock_guard<std::timed_mutex> calling(inUse);
  TRY(isWhole());
  auto window = std::make_shared<NcclWindow>(nullptr);
  TRY(make("ncclCommWindowRegister", [registers = nccl.windowRegister,
                                      from = all, memory, bytes,
                                      window](NcclComm * /*made*/) {
    return registers(from, memory, size_t(bytes), window.get(), kSymmetric);
  }));
  if (!*window)
    return Error(ErrorCode::NoCommunication,
                 "NCCL made no window: not all ranks reach each other's memory "
                 "by load and store");
  std::vector<uint64_t> addresses;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    void *pointer = memory;
    if (rank != number)
      if (const int status =
              nccl.peerPointer(*window, /*offset=*/0, int(rank), &pointer);
          status != kNcclSuccess)
        return nccl.failed("ncclGetPeerDevicePointer", status);
    if (!pointer)
      return Error(ErrorCode::NoCommunication,
                   "its GPU does not reach that of rank {} by load and store",
                   rank);
    addresses.push_back(reinterpret_cast<uint64_t>(pointer));
  }
  return addresses;
}

Result<std::unique_ptr<Window>>
NcclCommunicator::windowByNccl(const WindowPlace &where, int64_t bytes) {
  const ContextScope scope(*place.driver, place.context);
  TRY(scope.status());
  Result<void *> memory = allocateWindow(bytes);
  // All ranks must agree before they register, because a rank that registers
  // while another rank has failed would wait forever.
  TRY(agree(*this, memory ? Result<void>() : Result<void>(memory.error()),
            "create its window"));
  return takeShared(where, bytes, registerWindow(*memory, bytes));
}

Result<std::unique_ptr<Window>> NcclCommunicator::window(int64_t bytes) {
  const WindowPlace where = {*this, place, timeout, live};
  if (ncclWindows)
    return windowByNccl(where, bytes);
  // All ranks get the same error here, so all of them continue.
  Result<std::unique_ptr<Window>> shared = shareByDriver(where, bytes);
  if (shared || shared.error().code != ErrorCode::NoCommunication)
    return shared;
  Result<std::unique_ptr<Window>> made = windowByNccl(where, bytes);
  if (!made && made.error().code == ErrorCode::NoCommunication)
    return Error(ErrorCode::NoCommunication,
                 "ranks do not reach each other's memory: {}; {}; compile with "
                 "all2all_backend gather_scatter",
                 shared.error().message, made.error().message);
  return made;
}

Result<UniqueId> comm::makeUniqueId(const std::string &path) {
  const Nccl nccl = TRY(openNccl(path, /*loadedAlone=*/false));
  NcclId id = {};
  if (const int status = nccl.getUniqueId(&id); status != kNcclSuccess)
    return nccl.failed("ncclGetUniqueId", status);
  UniqueId made;
  std::ranges::copy(id.bytes, made.begin());
  return made;
}

Result<std::unique_ptr<Communicator>>
comm::connectByNccl(const NcclOptions &options) {
  const Nccl nccl = TRY(openNccl(options.path, options.borrowed != nullptr));
  CudaPlace place = TRY(CudaPlace::find(options.ordinal));
  auto made =
      std::make_unique<NcclCommunicator>(nccl, std::move(place), options);
  TRY(made->connect(options));
  return std::unique_ptr<Communicator>(std::move(made));
}
