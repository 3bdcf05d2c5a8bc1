//===- Nccl.cpp - NCCL between emulated GPUs ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions of NcclSymbols.def, for ranks that are threads of one process.
// NCCL's own kernels are not emulated: a collective is work of each rank's
// stream that waits for the others and then moves memory at once. Sums go from
// rank to rank and are rounded to their type at each, as in a ring.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/NcclLibrary.h"
#include "test/emulator/core/Numbers.h"
#include "test/emulator/driver/Emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace moec::emulator;
using moec::comm::NcclComm;
using moec::comm::NcclId;
using moec::comm::NcclWindow;
using moec::runtime::cuda::CUstream;

// A definition with other parameters than the list's is a compile error.
#define MOEC_NCCL_OPTIONAL(member, symbol, parameters)
#define MOEC_NCCL(member, symbol, parameters) extern "C" int symbol parameters;
#include "runtime/comm/NcclSymbols.def"
extern "C" const char *ncclGetErrorString(int status);

namespace {

constexpr int kSuccessful = 0, kInvalidArgument = 4, kRemoteError = 6;
constexpr int kVersion = 22707;
constexpr int kSum = 0;

struct ElementType {
  int number;
  const char *name;
  size_t bytes;
};
/// The types that are summed, and bytes.
constexpr ElementType kTypes[] = {
    {1, "u8", 1}, {6, "f16", 2}, {7, "f32", 4}, {9, "bf16", 2}};

const ElementType *findType(int number) {
  const auto *found = std::ranges::find(kTypes, number, &ElementType::number);
  return found == std::end(kTypes) ? nullptr : found;
}

/// a + b as an element of the type.
void add(const ElementType &type, uint8_t *sum, const uint8_t *addend) {
  if (type.bytes == 4) {
    float a = 0, b = 0;
    std::memcpy(&a, sum, 4);
    std::memcpy(&b, addend, 4);
    a += b;
    std::memcpy(sum, &a, 4);
    return;
  }
  uint16_t a = 0, b = 0;
  std::memcpy(&a, sum, 2);
  std::memcpy(&b, addend, 2);
  a = type.number == 6 ? encodeHalf(decodeHalf(a) + decodeHalf(b))
                       : encodeBfloat(decodeBfloat(a) + decodeBfloat(b));
  std::memcpy(sum, &a, 2);
}

enum class Kind { AllGather, ReduceScatter, AllReduce };
constexpr const char *kNames[] = {"all_gather", "reduce_scatter", "all_reduce"};

/// A collective as a rank calls it. `count` is of its part.
struct Call {
  Kind kind;
  uint64_t from, to;
  size_t count;
  const ElementType *type;

  bool fits(const Call &other) const {
    return kind == other.kind && count == other.count && type == other.type;
  }
  size_t part() const { return count * type->bytes; }
  size_t bytesFrom(size_t ranks) const {
    return kind == Kind::ReduceScatter ? part() * ranks : part();
  }
  size_t bytesTo(size_t ranks) const {
    return kind == Kind::AllGather ? part() * ranks : part();
  }
};

/// Bytes, and which of them were written; an empty list: all.
struct Content {
  std::vector<uint8_t> bytes, defined;

  explicit Content(size_t size) : bytes(size), defined(size, 1) {}
};

/// The ranks of a communicator.
class Clique {
public:
  Clique(std::string name, size_t size)
      : name(std::move(name)), ends(size), met(size) {}

  size_t size() const { return ends.size(); }

  /// A stream of a rank has come to a call, and comes again until the result is
  /// true: all ranks have come, and the memory is moved.
  bool come(size_t rank, uint64_t stream, const Call &call) {
    End &end = ends[rank];
    if (end.hasLeft)
      return true;
    if (!end.call) {
      end.call = call;
      end.stream = stream;
      if (std::ranges::all_of(
              ends, [](const End &one) { return one.call && !one.isDone; }))
        move();
    } else if (end.stream != stream) {
      return false; // behind the other stream's call
    }
    if (!end.isDone)
      return false;
    end = {};
    return true;
  }
  void leave(size_t rank) {
    ends[rank].hasLeft = true;
    const std::lock_guard lock(mutex);
    hasBroken = true;
    changed.notify_all();
  }

  /// Waits for the words of all ranks; none if one of them has left.
  std::vector<std::array<int, 2>> meet(size_t rank, std::array<int, 2> word) {
    std::unique_lock lock(mutex);
    Round &round = rounds[met[rank]++];
    round.words.resize(size());
    round.words[rank] = word;
    ++round.count;
    changed.notify_all();
    changed.wait(lock, [&] { return round.count == size() || hasBroken; });
    return round.count == size() ? round.words
                                 : std::vector<std::array<int, 2>>();
  }

  const std::string name;

private:
  struct End {
    std::optional<Call> call;
    uint64_t stream = 0;
    bool isDone = false, hasLeft = false;
  };
  struct Round {
    std::vector<std::array<int, 2>> words;
    size_t count = 0;
  };

  /// Memory of a rank that a call names; reports and returns null if it is not.
  Region *find(size_t rank, uint64_t address, size_t bytes) {
    Device &device = *Emulator::get().device;
    Region *region = device.findRegion(address, bytes);
    const auto gpu = int(ends[rank].stream % kMaxGpus);
    if (region && (region->gpu == gpu || region->gpu < 0))
      return region;
    device.report("bounds", nullptr, nullptr, {},
                  fmt::format("{} of rank {}: {} bytes at {:#x} are in no "
                              "memory of GPU {}",
                              kNames[int(ends[rank].call->kind)], rank, bytes,
                              address, gpu));
    return nullptr;
  }

  /// Adds a part of a rank to a sum, or puts it there.
  void take(Content &content, size_t at, size_t rank, size_t offset,
            bool adds) {
    const Call &call = *ends[rank].call;
    const uint64_t from = call.from + offset;
    const Region *region =
        Emulator::get().device->findRegion(from, call.part());
    const auto *source = reinterpret_cast<const uint8_t *>(from);
    for (size_t i = 0; i < call.part(); i += call.type->bytes)
      if (adds)
        add(*call.type, &content.bytes[at + i], source + i);
      else
        std::memcpy(&content.bytes[at + i], source + i, call.type->bytes);
    for (size_t i = 0; i < call.part() && !region->defined.empty(); ++i)
      content.defined[at + i] &= region->defined[from - region->begin + i];
  }

  /// The result for a rank.
  Content contentFor(size_t rank) {
    const Call &call = *ends[rank].call;
    Content content(call.bytesTo(size()));
    if (call.kind == Kind::AllGather) {
      for (size_t one = 0; one < size(); ++one)
        take(content, one * call.part(), one, 0, /*adds=*/false);
      return content;
    }
    // All ranks get the same sum, or each that of its part.
    const bool scatters = call.kind == Kind::ReduceScatter;
    const size_t first = scatters ? rank + 1 : 0;
    for (size_t i = 0; i < size(); ++i)
      take(content, 0, (first + i) % size(), scatters ? rank * call.part() : 0,
           /*adds=*/i > 0);
    return content;
  }

  void move() {
    Device &device = *Emulator::get().device;
    bool isSound = true;
    for (size_t rank = 0; rank < size(); ++rank) {
      const Call &call = *ends[rank].call;
      if (!call.fits(*ends[0].call)) {
        device.report(
            "collective", nullptr, nullptr, {},
            fmt::format("rank {} calls {} of {} {}, rank 0 {} of {} {}", rank,
                        kNames[int(call.kind)], call.count, call.type->name,
                        kNames[int(ends[0].call->kind)], ends[0].call->count,
                        ends[0].call->type->name));
        isSound = false;
      } else {
        isSound &=
            call.count == 0 || (find(rank, call.from, call.bytesFrom(size())) &&
                                find(rank, call.to, call.bytesTo(size())));
      }
    }
    // Outputs may lie over inputs.
    std::vector<Content> contents;
    for (size_t rank = 0; rank < size() && isSound; ++rank)
      contents.push_back(contentFor(rank));
    for (size_t rank = 0; rank < contents.size(); ++rank) {
      const Content &content = contents[rank];
      const uint64_t to = ends[rank].call->to;
      if (content.bytes.empty())
        continue;
      std::memcpy(reinterpret_cast<void *>(to), content.bytes.data(),
                  content.bytes.size());
      Region *region = device.findRegion(to, content.bytes.size());
      if (!region->defined.empty())
        std::ranges::copy(content.defined, region->defined.begin() +
                                               int64_t(to - region->begin));
    }
    for (End &end : ends)
      end.isDone = true;
  }

  std::vector<End> ends; ///< under the lock of the emulator
  std::mutex mutex;      ///< of what follows
  std::condition_variable changed;
  std::vector<uint64_t> met; ///< how often, by rank
  std::map<uint64_t, Round> rounds;
  bool hasBroken = false;
};

std::shared_ptr<Clique> cliqueOf(const std::string &name, size_t size) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Clique>> cliques;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Clique> found = cliques[name].lock();
  if (!found)
    cliques[name] = found = std::make_shared<Clique>(name, size);
  return found;
}

} // namespace

/// A rank's end.
struct moec::comm::NcclCommTag {
  std::shared_ptr<Clique> clique;
  size_t rank;
  int splits = 0;
};

static int enqueue(NcclComm comm, CUstream stream, Kind kind, const void *from,
                   void *to, size_t count, int type) {
  const ElementType *element = findType(type);
  if (!element || (kind != Kind::AllGather && element->bytes == 1))
    return kInvalidArgument;
  const Call call = {kind, reinterpret_cast<uint64_t>(from),
                     reinterpret_cast<uint64_t>(to), count, element};
  const Lock lock(Emulator::get().mutex);
  Emulator::get().enqueue(
      stream,
      {{}, [clique = comm->clique, rank = comm->rank, id = idOf(stream), call] {
         return clique->come(rank, id, call);
       }});
  return kSuccessful;
}

extern "C" {

int ncclGetVersion(int *version) {
  *version = kVersion;
  return kSuccessful;
}

int ncclGetUniqueId(NcclId *id) {
  static std::atomic<int> number = 0;
  *id = {};
  fmt::format_to_n(id->bytes, sizeof(id->bytes) - 1, "emulated {}", ++number);
  return kSuccessful;
}

int ncclCommInitRank(NcclComm *comm, int ranks, NcclId id, int rank) {
  if (rank < 0 || rank >= ranks || currentGpu() < 0)
    return kInvalidArgument;
  const auto clique = cliqueOf(id.bytes, size_t(ranks));
  if (clique->size() != size_t(ranks))
    return kInvalidArgument;
  if (clique->meet(size_t(rank), {}).empty())
    return kRemoteError;
  *comm = new moec::comm::NcclCommTag{clique, size_t(rank)};
  return kSuccessful;
}

int ncclCommSplit(NcclComm comm, int color, int key, NcclComm *made,
                  void *config) {
  if (config)
    return kInvalidArgument;
  const auto all = comm->clique->meet(comm->rank, {color, key});
  if (all.empty())
    return kRemoteError;
  size_t size = 0, rank = 0;
  for (size_t one = 0; one < all.size(); ++one)
    if (all[one][0] == color) {
      ++size;
      rank += all[one][1] < key || (all[one][1] == key && one < comm->rank);
    }
  const std::string name =
      fmt::format("{}/{}.{}", comm->clique->name, ++comm->splits, color);
  *made = new moec::comm::NcclCommTag{cliqueOf(name, size), rank};
  // Nobody lets go of it before all have it.
  return (*made)->clique->meet(rank, {}).empty() ? kRemoteError : kSuccessful;
}

int ncclCommDestroy(NcclComm comm) {
  delete comm;
  return kSuccessful;
}

/// Ends what the rank waits for.
int ncclCommAbort(NcclComm comm) {
  {
    const Lock lock(Emulator::get().mutex);
    comm->clique->leave(comm->rank);
  }
  delete comm;
  return kSuccessful;
}

int ncclCommGetAsyncError(NcclComm, int *status) {
  *status = kSuccessful;
  return kSuccessful;
}

int ncclCommCount(NcclComm comm, int *count) {
  *count = int(comm->clique->size());
  return kSuccessful;
}

int ncclCommUserRank(NcclComm comm, int *rank) {
  *rank = int(comm->rank);
  return kSuccessful;
}

// Calls are put into streams one after the other.
int ncclGroupStart() { return kSuccessful; }
int ncclGroupEnd() { return kSuccessful; }

int ncclAllGather(const void *from, void *to, size_t count, int type,
                  NcclComm comm, void *stream) {
  return enqueue(comm, CUstream(stream), Kind::AllGather, from, to, count,
                 type);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type,
                      int operation, NcclComm comm, void *stream) {
  if (operation != kSum)
    return kInvalidArgument;
  return enqueue(comm, CUstream(stream), Kind::ReduceScatter, from, to, count,
                 type);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type,
                  int operation, NcclComm comm, void *stream) {
  if (operation != kSum)
    return kInvalidArgument;
  return enqueue(comm, CUstream(stream), Kind::AllReduce, from, to, count,
                 type);
}

const char *ncclGetErrorString(int status) {
  return status == kSuccessful        ? "no error"
         : status == kInvalidArgument ? "invalid argument"
         : status == kRemoteError     ? "a rank has left"
                                      : "an error of the emulator";
}

} // extern "C"
