//===- Peers.cpp - GPUs that share memory, without NCCL -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Peers.h"

#include "runtime/comm/CudaWindow.h"

#include <cstring>
#include <mutex>

using namespace moec;
using namespace moec::comm;
using moec::runtime::CudaPlace;

namespace {

Error movesNothing() {
  return {ErrorCode::NoCommunication,
          "the package moves tokens and sums by collectives, and a "
          "communicator without NCCL has none; expected one of unique_id or "
          "nccl_comm"};
}

/// A connection between hosts that only gathers bytes, through a function of
/// the caller.
class Hosts final : public Communicator {
public:
  Hosts(int64_t number, int64_t ranks, GatherFunction gather)
      : number(number), ranks(ranks), gather(std::move(gather)) {}

  int64_t rank() const override { return number; }
  int64_t size() const override { return ranks; }
  Result<void> prepare(int64_t, int64_t) override { return movesNothing(); }
  Result<void> perform(const Call &) override { return movesNothing(); }
  Result<std::vector<char>> exchange(std::span<const char> mine,
                                     std::string_view step) override {
    TRY(status());
    std::vector<char> all(mine.size() * size_t(ranks));
    if (!gather(mine.data(), mine.size(), all.data())) {
      abort(fmt::format("all_gather of rank {} failed while ranks {}", number,
                        step));
      return status().takeError();
    }
    return all;
  }
  Result<void> status() override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!why.empty())
      return Error(ErrorCode::PeerLost, "{}", why);
    return {};
  }
  void abort(std::string reason) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (why.empty())
      why = std::move(reason);
  }

private:
  const int64_t number, ranks;
  const GatherFunction gather;
  std::mutex mutex;
  std::string why; ///< why the communicator has failed; "": not failed
};

/// A connection between GPUs. `hosts` exchanges bytes between their ranks.
class Peers final : public Communicator {
public:
  Peers(std::unique_ptr<Communicator> hosts, CudaPlace place,
        PeerOptions options)
      : hosts(std::move(hosts)), place(std::move(place)),
        options(std::move(options)) {}
  ~Peers() override {
    freeRetired(place.context);
    if (place.retained)
      place.driver->primaryCtxRelease(place.device);
  }

  int64_t rank() const override { return hosts->rank(); }
  int64_t size() const override { return hosts->size(); }
  bool onGpu() const override { return true; }
  const void *context() const override { return place.context; }
  Result<void> prepare(int64_t, int64_t) override { return movesNothing(); }
  Result<void> perform(const Call &) override { return movesNothing(); }
  Result<std::vector<char>> exchange(std::span<const char> mine,
                                     std::string_view step) override {
    return hosts->exchange(mine, step);
  }
  Result<std::unique_ptr<Window>> window(int64_t bytes) override;
  Result<void> status() override {
    TRY(hosts->status());
    return live->check(rank());
  }
  void abort(std::string reason) override {
    hosts->abort(std::move(reason));
    live->abort();
  }

private:
  const std::unique_ptr<Communicator> hosts;
  const CudaPlace place;
  const PeerOptions options;
  const std::shared_ptr<LiveWindows> live = std::make_shared<LiveWindows>();
};

} // namespace

Result<std::unique_ptr<Window>> Peers::window(int64_t bytes) {
  const WindowPlace all = {*hosts, place, options.timeout, live};
  if (!options.memory)
    return shareByDriver(all, bytes);
  std::vector<uint64_t> addresses(static_cast<size_t>(size()));
  Result<std::vector<uint64_t>> given =
      options.memory(bytes, addresses)
          ? Result<std::vector<uint64_t>>(std::move(addresses))
          : Error(ErrorCode::NoCommunication,
                  "the caller has no memory for a window of {} bytes", bytes);
  return takeShared(all, bytes, std::move(given));
}

/// Checks that the caller's gather function returns the bytes of all ranks in
/// rank order.
static Result<void> checkOrder(Communicator &hosts) {
  const int64_t mine = hosts.rank();
  const std::vector<char> bytes = TRY(hosts.exchange(
      {reinterpret_cast<const char *>(&mine), sizeof(mine)}, "connect"));
  for (int64_t rank = 0; rank < hosts.size(); ++rank) {
    int64_t its = 0;
    std::memcpy(&its, bytes.data() + rank * int64_t(sizeof(its)), sizeof(its));
    if (its != rank)
      return Error(ErrorCode::PeerMismatch,
                   "all_gather of rank {} gave what rank {} has in the place "
                   "of rank {}",
                   mine, its, rank);
  }
  return {};
}

Result<std::unique_ptr<Communicator>>
comm::connectHosts(int64_t rank, int64_t ranks, GatherFunction gather) {
  auto made = std::make_unique<Hosts>(rank, ranks, std::move(gather));
  TRY(checkOrder(*made));
  return std::unique_ptr<Communicator>(std::move(made));
}

Result<std::unique_ptr<Communicator>>
comm::connectPeers(std::unique_ptr<Communicator> hosts, PeerOptions options) {
  Result<CudaPlace> place = CudaPlace::find(options.ordinal);
  Result<void> found = place ? Result<void>() : Result<void>(place.error());
  Result<void> agreed = agree(*hosts, found, "connect");
  if (!agreed) {
    if (place && place->retained)
      place->driver->primaryCtxRelease(place->device);
    return agreed.takeError();
  }
  return std::unique_ptr<Communicator>(std::make_unique<Peers>(
      std::move(hosts), std::move(*place), std::move(options)));
}
