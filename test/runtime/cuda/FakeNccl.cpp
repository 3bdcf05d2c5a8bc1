//===- FakeNccl.cpp - a libnccl.so.2 of threads ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Communicators are groups of the host device. What is called between
// ncclGroupStart and ncclGroupEnd is done at its end.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/FakeNccl.h"

#include "runtime/comm/NcclLibrary.h"
#include "runtime/host/RankGroup.h"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

using namespace moec;
using Kind = Collective::Kind;

/// Addresses of all ranks.
struct moec::comm::NcclWindowTag {
  std::vector<void *> memory;
};

struct moec::comm::NcclCommTag {
  std::shared_ptr<Communicator> end; ///< a call keeps it
  std::string name;
  int splits = 0;
  std::vector<std::unique_ptr<NcclWindowTag>> windows = {};
};

namespace {

using Id = comm::NcclId;
using Comm = comm::NcclCommTag;

std::mutex mutex;
std::map<std::string, std::shared_ptr<host::RankGroup>> groups;
thread_local int depth = 0;
thread_local std::vector<std::function<int()>> queued;

Comm *join(const std::string &name, int size, int rank) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto &group = groups[name];
  if (!group)
    group = *host::RankGroup::create(size, {});
  ++fakeNccl()->alive;
  return new Comm{std::move(*group->end(rank)), name, 0, {}};
}

int perform(Comm *comm, Kind kind, const comm::Part &part) {
  const auto end = comm->end;
  comm::Call call;
  call.kind = kind, call.ranks = end->size(), call.parts = {&part, 1};
  return end->perform(call) ? 0 : 6;
}

/// Windows of all communicators, and the memory of the rank that made them.
std::map<const comm::NcclWindowTag *, void *> registered;

int collective(Comm *comm, Kind kind, const void *from, void *to, size_t count,
               int type, void *stream) {
  if (fakeNccl()->onStream)
    fakeNccl()->onStream(stream);
  if (depth == 0)
    return 5; // ncclInvalidUsage: the runtime always groups
  queued.emplace_back([=] {
    const char *name = type == 1   ? "i8"
                       : type == 6 ? "f16"
                       : type == 7 ? "f32"
                       : type == 9 ? "bf16"
                                   : "unknown";
    if (fakeNccl()->onCall)
      fakeNccl()->onCall(fmt::format("{} {} x {} over {}", comm::nameOf(kind),
                                     count, name, comm->end->size())
                             .c_str());
    return perform(comm, kind, {from, to, int64_t(count), name});
  });
  return fakeNccl()->callStatus;
}

} // namespace

extern "C" {

moec::test::FakeNccl *fakeNccl() {
  static moec::test::FakeNccl state;
  return &state;
}

int ncclGetVersion(int *version) {
  *version = fakeNccl()->version;
  return 0;
}

int ncclGetUniqueId(Id *id) {
  static std::atomic<int> number = 0;
  *id = {};
  fmt::format_to_n(id->bytes, sizeof(id->bytes) - 1, "id {}", ++number);
  return 0;
}

int ncclCommInitRank(Comm **comm, int ranks, Id id, int rank) {
  if (const int status = fakeNccl()->initStatus)
    return status;
  *comm = join(id.bytes, ranks, rank);
  // Returns when all have come.
  const auto mine = float(rank);
  std::vector<float> all(static_cast<size_t>(ranks));
  return perform(*comm, Kind::AllGather, {&mine, all.data(), 1, "f32"});
}

int ncclCommSplit(Comm *comm, int color, int key, Comm **made, void *config) {
  ++fakeNccl()->splits;
  if (config)
    return 4;
  const float mine[] = {float(color), float(key)};
  std::vector<float> all(size_t(2 * comm->end->size()));
  if (const int status =
          perform(comm, Kind::AllGather, {mine, all.data(), 2, "f32"}))
    return status;
  int size = 0, rank = 0;
  for (size_t i = 0; i < all.size(); i += 2)
    if (all[i] == mine[0]) {
      ++size;
      rank += all[i + 1] < mine[1];
    }
  *made = join(fmt::format("{}/{}.{}", comm->name, ++comm->splits, color), size,
               rank);
  return 0;
}

int ncclCommDestroy(Comm *comm) {
  --fakeNccl()->alive;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto &window : comm->windows)
      registered.erase(window.get());
  }
  delete comm;
  return 0;
}

/// Ends the waiting of calls, of all ranks.
int ncclCommAbort(Comm *comm) {
  comm->end->abort("ncclCommAbort");
  ++fakeNccl()->aborted;
  return ncclCommDestroy(comm);
}

int ncclCommGetAsyncError(Comm *, int *status) {
  *status = fakeNccl()->asyncStatus;
  if (int left = fakeNccl()->inProgress; left > 0) {
    fakeNccl()->inProgress = left - 1;
    *status = comm::kInProgress;
  }
  return 0;
}

int ncclCommCount(Comm *comm, int *count) {
  *count = int(comm->end->size());
  return 0;
}

int ncclCommUserRank(Comm *comm, int *rank) {
  *rank = int(comm->end->rank());
  return 0;
}

int ncclGroupStart() {
  ++depth;
  return 0;
}

int ncclGroupEnd() {
  if (--depth > 0)
    return 0;
  int status = 0;
  for (const auto &call : queued)
    status = status ? status : call();
  queued.clear();
  // A communicator that does not block.
  return status ? status : fakeNccl()->inProgress > 0 ? comm::kInProgress : 0;
}

int ncclMemAlloc(void **memory, size_t bytes) {
  ++fakeNccl()->memory;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return 0;
}

int ncclMemFree(void *memory) {
  --fakeNccl()->memory;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto &[window, its] : registered)
    fakeNccl()->freedEarly += its == memory;
  std::free(memory);
  return 0;
}

int ncclCommWindowRegister(Comm *comm, void *memory, size_t,
                           comm::NcclWindow *window, int flags) {
  if (flags != 1)
    return 4;
  std::vector<void *> all(size_t(comm->end->size()));
  if (const int status =
          perform(comm, Kind::AllGather,
                  {&memory, all.data(), int64_t(sizeof(memory)), "i8"}))
    return status;
  *window = nullptr;
  if (fakeNccl()->noWindow)
    return 0;
  ++fakeNccl()->windows;
  comm->windows.push_back(
      std::make_unique<comm::NcclWindowTag>(comm::NcclWindowTag{all}));
  *window = comm->windows.back().get();
  const std::lock_guard<std::mutex> lock(mutex);
  registered[*window] = memory;
  return 0;
}

int ncclGetPeerDevicePointer(comm::NcclWindow window, size_t offset, int rank,
                             void **pointer) {
  *pointer = static_cast<char *>(window->memory[size_t(rank)]) + offset;
  return 0;
}

int ncclAllGather(const void *from, void *to, size_t count, int type,
                  Comm *comm, void *stream) {
  return collective(comm, Kind::AllGather, from, to, count, type, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type,
                      int operation, Comm *comm, void *stream) {
  if (operation != 0)
    return 4;
  return collective(comm, Kind::ReduceScatter, from, to, count, type, stream);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type,
                  int operation, Comm *comm, void *stream) {
  if (operation != 0)
    return 4;
  return collective(comm, Kind::AllReduce, from, to, count, type, stream);
}

const char *ncclGetErrorString(int status) {
  return status == 6   ? "remote process exited or there was a network error"
         : status == 2 ? "unhandled system error"
                       : "an error";
}

} // extern "C"
