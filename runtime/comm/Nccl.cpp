//===- Nccl.cpp - ranks that NCCL connects --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connecting may wait for ranks that never come, and NCCL has no deadline for
// it: a thread connects, and is left alone when the time is over.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Nccl.h"

#include "runtime/cuda/CudaCode.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
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

using NcclComm = struct NcclCommTag *;
struct NcclId {
  char bytes[128];
};

// Numbers of nccl.h.
constexpr int kNcclSuccess = 0;
constexpr int kRemoteError = 6;
constexpr int kInProgress = 7;
constexpr int kUint8 = 1;
constexpr int kSum = 0;
constexpr int kLeastVersion = 21800; // ncclCommSplit

struct Nccl {
// The macro declares: `member` is a name and takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define MOEC_NCCL(member, symbol, parameters) int(*member) parameters = nullptr;
#include "runtime/comm/NcclSymbols.def"
  // NOLINTEND(bugprone-macro-parentheses)
  const char *(*errorString)(int status) = nullptr;

  std::string describe(int status) const {
    const char *text = errorString(status);
    return fmt::format("{} ({})", text ? text : "unknown error", status);
  }
  Error failed(std::string_view what, int status) const {
    return {status == kRemoteError ? ErrorCode::PeerLost
                                   : ErrorCode::NoCommunication,
            fmt::format("{} failed: {}", what, describe(status))};
  }
};

/// One way to open a library, and what dlopen said.
void *tryOpen(const char *name, int more, std::string &reason) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | more);
  if (!library)
    if (const char *text = dlerror())
      reason = text;
  return library;
}

Result<Nccl> open(const std::string &path, bool loadedAlone) {
  constexpr const char *kName = "libnccl.so.2";
  std::string reason;
  void *library = nullptr;
  if (!path.empty()) {
    library = tryOpen(path.c_str(), loadedAlone ? RTLD_NOLOAD : 0, reason);
  } else {
    // Two libraries in one process do not know each other's communicators.
    library = tryOpen(kName, RTLD_NOLOAD, reason);
    if (!library && !loadedAlone)
      library = tryOpen(kName, 0, reason);
  }
  const std::string name = path.empty() ? kName : path;
  if (!library && loadedAlone)
    return Error(ErrorCode::NoCommunication,
                 "an ncclComm_t was given, and no {} is loaded that can have "
                 "made it",
                 name);
  if (!library)
    return Error(ErrorCode::NoCommunication,
                 "NCCL could not be opened: {}; the wheel nvidia-nccl-cu13 has "
                 "it, nccl_path names it",
                 reason);
  Nccl nccl;
  const char *missing = nullptr;
#define MOEC_NCCL(member, symbol, parameters)                                  \
  nccl.member =                                                                \
      reinterpret_cast<decltype(nccl.member)>(dlsym(library, #symbol));        \
  if (!nccl.member && !missing)                                                \
    missing = #symbol;
#include "runtime/comm/NcclSymbols.def"
  nccl.errorString = reinterpret_cast<decltype(nccl.errorString)>(
      dlsym(library, "ncclGetErrorString"));
  if (!nccl.errorString && !missing)
    missing = "ncclGetErrorString";
  int version = 0;
  if (nccl.getVersion)
    nccl.getVersion(&version);
  if (missing || version < kLeastVersion)
    return Error(ErrorCode::NoCommunication,
                 "{} is NCCL {}.{}.{}{}; expected 2.18 or later", name,
                 version / 10000, version / 100 % 100, version % 100,
                 missing ? fmt::format(" and has no function {}", missing)
                         : std::string());
  return nccl;
}

/// Something that makes a communicator and may never return.
struct Attempt {
  std::mutex mutex;
  std::condition_variable changed;
  bool isDone = false, isAbandoned = false;
  int status = kNcclSuccess;
  NcclComm made = nullptr;
};

class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(Nccl nccl, CudaPlace place, const NcclOptions &options)
      : nccl(nccl), place(std::move(place)), number(options.rank),
        ranks(options.ranks), timeout(options.timeout) {}
  ~NcclCommunicator() override;

  int64_t rank() const override { return number; }
  int64_t size() const override { return ranks; }
  bool onGpu() const override { return true; }
  Result<void> connect(const NcclOptions &options);
  Result<void> prepare(int64_t ofGroup, int64_t stride) override;
  Result<void> perform(const Call &call) override;

private:
  using Groups = std::map<std::pair<int64_t, int64_t>, NcclComm>;

  Result<NcclComm> make(std::string_view what,
                        std::function<int(NcclComm *)> make);
  Result<void> queue(const Call &call, NcclComm comm) const;
  int settle(NcclComm comm, int status) const;

  const Nccl nccl;
  const CudaPlace place;
  const int64_t number, ranks;
  const std::chrono::milliseconds timeout;
  NcclComm all = nullptr;
  Groups groups; ///< by ranks and stride, but for that of all
  bool isBroken = false;
  bool leftThread = false; ///< that still connects, in the context
};

int typeOf(std::string_view elementType) {
  return elementType == "f32" ? 7 : elementType == "f16" ? 6 : 9;
}

} // namespace

NcclCommunicator::~NcclCommunicator() {
  {
    const ContextScope scope(*place.driver, place.context);
    const auto end = [&](NcclComm comm) {
      if (comm)
        isBroken ? nccl.abort(comm) : nccl.destroy(comm);
    };
    for (const auto &[key, comm] : groups)
      end(comm);
    end(all);
  }
  if (place.retained && !leftThread)
    place.driver->primaryCtxRelease(place.device);
}

/// A communicator of a lender that does not block says so, and is asked again.
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
    isBroken = leftThread = true;
    return Error(ErrorCode::PeerLost,
                 "rank {} waited {} ms for the other ranks to do {}", number,
                 timeout.count(), what);
  }
  const int status = settle(attempt->made, attempt->status);
  if (status != kNcclSuccess) {
    isBroken = true;
    return nccl.failed(what, status);
  }
  return attempt->made;
}

Result<void> NcclCommunicator::connect(const NcclOptions &options) {
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
    return {};
  }
  NcclId id;
  std::ranges::copy(*options.id, id.bytes);
  all = TRY(
      make("ncclCommInitRank",
           [init = nccl.initRank, id, count = int(ranks), mine = int(number)](
               NcclComm *made) { return init(made, count, id, mine); }));
  return {};
}

Result<void> NcclCommunicator::prepare(int64_t ofGroup, int64_t stride) {
  if ((ofGroup == ranks && stride == 1) || groups.contains({ofGroup, stride}))
    return {};
  const auto color = int(groupOf(number, ofGroup, stride).front());
  groups[{ofGroup, stride}] =
      TRY(make("ncclCommSplit", [split = nccl.split, from = all, color,
                                 key = int(number)](NcclComm *made) {
        return split(from, color, key, made, /*config=*/nullptr);
      }));
  return {};
}

/// Queues the parts of a call, which are one operation for NCCL.
Result<void> NcclCommunicator::queue(const Call &call, NcclComm comm) const {
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
  if (isBroken)
    return Error(ErrorCode::PeerLost,
                 "the communicator of rank {} has failed before", number);
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
      (status != kNcclSuccess && status != kInProgress)) {
    isBroken = true;
    return Error(ErrorCode::PeerLost,
                 "what was queued before {} has failed: {}", nameOf(call.kind),
                 nccl.describe(asked != kNcclSuccess ? asked : status));
  }
  Result<void> done = queue(call, comm);
  isBroken = !done;
  return done;
}

Result<UniqueId> comm::makeUniqueId(const std::string &path) {
  const Nccl nccl = TRY(open(path, /*loadedAlone=*/false));
  NcclId id = {};
  if (const int status = nccl.getUniqueId(&id); status != kNcclSuccess)
    return nccl.failed("ncclGetUniqueId", status);
  UniqueId made;
  std::ranges::copy(id.bytes, made.begin());
  return made;
}

Result<std::unique_ptr<Communicator>>
comm::connectByNccl(const NcclOptions &options) {
  const Nccl nccl = TRY(open(options.path, options.borrowed != nullptr));
  CudaPlace place = TRY(CudaPlace::find(options.ordinal));
  auto made =
      std::make_unique<NcclCommunicator>(nccl, std::move(place), options);
  TRY(made->connect(options));
  return std::unique_ptr<Communicator>(std::move(made));
}
