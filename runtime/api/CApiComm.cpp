//===- CApiComm.cpp - the C interface: communicators ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates the kind of communicator that the caller's options select.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/CallerStructs.h"
#include "runtime/comm/Nccl.h"
#include "runtime/comm/Peers.h"

using namespace moec;
using namespace moec::runtime;

static_assert(sizeof(comm::UniqueId) == MOEC_COMM_ID_BYTES);

static Result<std::chrono::milliseconds> readTimeout(int32_t milliseconds) {
  constexpr int32_t kUsual = 60000;
  if (milliseconds < 0)
    return invalidArgument("timeout_ms: expected milliseconds, or 0 for {}, "
                           "got {}",
                           kUsual, milliseconds);
  return std::chrono::milliseconds(milliseconds ? milliseconds : kUsual);
}

moec_status moec_comm_unique_id(const char *ncclPath, void *id) {
  return guarded([&]() -> Result<void> {
    if (!id)
      return nullArgument("moec_comm_unique_id", "id");
    const auto made = TRY(comm::makeUniqueId(ncclPath ? ncclPath : ""));
    std::memcpy(id, made.data(), made.size());
    return {};
  });
}

moec_status moec_comm_group_create(int32_t ranks, int32_t timeoutMs,
                                   moec_comm_group **group) {
  return guarded([&]() -> Result<void> {
    if (!group)
      return nullArgument("moec_comm_group_create", "group");
    *group = nullptr;
    host::RankGroup::Options options;
    options.timeout = TRY(readTimeout(timeoutMs));
    auto made = TRY(host::RankGroup::create(ranks, std::move(options)));
    *group = new moec_comm_group{std::move(made)};
    return {};
  });
}

void moec_comm_group_destroy(moec_comm_group *group) { delete group; }

/// Connects ranks through a group or the caller's functions, without NCCL.
static Result<std::unique_ptr<comm::Communicator>>
connectWithoutNccl(const moec_comm_options &given) {
  if (given.nccl_path || given.nccl_windows)
    return invalidArgument("nccl_path and nccl_windows are not of ranks "
                           "without NCCL; leave them zero");
  comm::PeerOptions options;
  options.ordinal = given.ordinal_plus_one - 1;
  options.timeout = TRY(readTimeout(given.timeout_ms));
  if (given.group) {
    auto end = TRY(given.group->group->end(given.rank));
    if (end->size() != given.ranks)
      return invalidArgument("the group has {} ranks, and {} were given",
                             end->size(), given.ranks);
    if (given.ordinal_plus_one)
      return comm::connectPeers(std::move(end), std::move(options));
    if (given.timeout_ms)
      return invalidArgument(
          "expected timeout_ms 0 for ranks in a group of the "
          "host device, which has its own timeout");
    return end;
  }
  comm::GatherFunction gather = [function = given.all_gather,
                                 user = given.user](const void *mine,
                                                    size_t bytes, void *all) {
    return function(user, mine, bytes, all) == 0;
  };
  if (given.window)
    options.memory = [window = given.window, user = given.user](
                         int64_t bytes, std::span<uint64_t> addresses) {
      return window(user, uint64_t(bytes), addresses.data()) == 0;
    };
  auto hosts =
      TRY(comm::connectHosts(given.rank, given.ranks, std::move(gather)));
  return comm::connectPeers(std::move(hosts), std::move(options));
}

static Result<std::unique_ptr<comm::Communicator>>
connect(const moec_comm_options &given) {
  const int ways = (given.unique_id != nullptr) + (given.nccl_comm != nullptr) +
                   (given.group != nullptr) + (given.all_gather != nullptr);
  if (ways != 1)
    return invalidArgument("expected one of unique_id, nccl_comm, group and "
                           "all_gather, got {}",
                           ways == 0 ? "none" : "several");
  if (given.ranks < 1 || given.rank < 0 || given.rank >= given.ranks)
    return invalidArgument("expected a rank from 0 to ranks - 1, got rank {} "
                           "of {}",
                           given.rank, given.ranks);
  if (given.window && !given.all_gather)
    return invalidArgument("window: expected all_gather with it, got none");
  if (given.group || given.all_gather)
    return connectWithoutNccl(given);
  comm::NcclOptions options;
  options.timeout = TRY(readTimeout(given.timeout_ms));
  options.ncclWindows = given.nccl_windows != 0;
  options.ranks = given.ranks, options.rank = given.rank;
  options.ordinal = given.ordinal_plus_one - 1;
  options.path = given.nccl_path ? given.nccl_path : "";
  options.borrowed = given.nccl_comm;
  if (given.unique_id)
    std::memcpy(options.id.emplace().data(), given.unique_id,
                MOEC_COMM_ID_BYTES);
  return comm::connectByNccl(options);
}

moec_status moec_comm_create(const moec_comm_options *options,
                             moec_comm **comm) {
  return guarded([&]() -> Result<void> {
    if (comm)
      *comm = nullptr;
    if (!options || !comm)
      return nullArgument("moec_comm_create", options ? "comm" : "options");
    const auto given = TRY(readOptions(options, "moec_comm_options"));
    auto made = TRY(connect(given));
    *comm = new moec_comm{std::move(made)};
    return {};
  });
}

moec_status moec_comm_status(moec_comm *comm) {
  return guarded([&]() -> Result<void> {
    if (!comm)
      return nullArgument("moec_comm_status", "comm");
    return comm->communicator->status();
  });
}

moec_status moec_comm_abort(moec_comm *comm) {
  return guarded([&]() -> Result<void> {
    if (!comm)
      return nullArgument("moec_comm_abort", "comm");
    comm->communicator->abort("moec_comm_abort was called");
    return {};
  });
}

void moec_comm_destroy(moec_comm *comm) { delete comm; }
