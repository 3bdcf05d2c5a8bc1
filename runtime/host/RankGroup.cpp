//===- RankGroup.cpp - ranks that are threads of one process -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a collective, the ranks synchronize twice: after all ranks have published
// their memory, and after all ranks have read the memory of the other ranks.
// Each group of ranks has its own Meeting object. Groups of the same size and
// stride do not share state.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/RankGroup.h"

#include "runtime/host/Element.h"
#include "runtime/package/Ranks.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <mutex>
#include <new>

using namespace moec;
using namespace moec::host;

namespace {

/// The synchronization point of one group of ranks.
struct Meeting {
  std::vector<int64_t> members;
  /// Each member's current call; null: the member has not arrived.
  std::vector<const comm::Call *> calls;
  /// Number of ranks that have arrived at the current synchronization.
  int64_t here = 0;
  uint64_t held = 0; ///< number of completed synchronizations
};

/// A rank's window memory, and the exchange block that the rank's waits poll.
struct HostWindow {
  static constexpr std::align_val_t kAlignment{kWindowAlignment};
  struct Free {
    void operator()(std::byte *memory) const {
      ::operator delete(memory, kAlignment);
    }
  };
  HostWindow(int64_t bytes, std::chrono::milliseconds timeout)
      : memory(static_cast<std::byte *>(
            ::operator new(size_t(bytes), kAlignment))) {
    std::memset(memory.get(), 0, size_t(bytes));
    block.timeoutNs = uint64_t(std::chrono::nanoseconds(timeout).count());
  }
  std::unique_ptr<std::byte, Free> memory;
  moe::ExchangeBlock block = {};
};
using HostWindows = std::vector<std::shared_ptr<HostWindow>>; ///< by rank

class Threads final : public RankGroup,
                      public std::enable_shared_from_this<Threads> {
public:
  Threads(int64_t size, Options options)
      : ranks(size), options(std::move(options)) {}

  Result<std::unique_ptr<comm::Communicator>> end(int64_t rank) override;
  void abort(std::string reason) override;
  Result<void> perform(int64_t rank, const comm::Call &call);
  Result<void> status();
  std::chrono::milliseconds timeout() const { return options.timeout; }
  /// Stores rank `rank`'s `index`-th window so that other ranks can access it.
  void place(size_t index, int64_t rank, std::shared_ptr<HostWindow> window);
  /// Returns the `index`-th windows of all ranks. Must be called after all
  /// ranks have called place(). The last call removes the windows from the
  /// group.
  HostWindows windowsOf(size_t index);
  void delay(int64_t rank) const {
    if (options.delay)
      options.delay(rank);
  }

  const int64_t ranks;
  comm::LiveWindows live;

private:
  Meeting &meetingOf(int64_t rank, const comm::Call &call);
  bool comes(Meeting &meeting);
  Result<void> meet(std::unique_lock<std::mutex> &lock, Meeting &meeting,
                    int64_t rank, const comm::Call &call);
  void part(std::unique_lock<std::mutex> &lock, Meeting &meeting);
  Error lost() const { return {ErrorCode::PeerLost, why}; }
  void breakOff(std::string reason) {
    if (why.empty())
      why = std::move(reason);
    live.abort();
    changed.notify_all();
  }

  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  /// The synchronization points, by group size, stride and first rank.
  std::map<std::array<int64_t, 3>, Meeting> meetings;
  std::string why; ///< reason why the group has failed; "": not failed
  /// The `index`-th windows, until all ranks have called windowsOf().
  struct Placing {
    HostWindows windows;
    int64_t taken = 0;
  };
  std::map<size_t, Placing> placing;
};

/// One rank's view of the windows of all ranks.
class ThreadWindow final : public comm::Window {
public:
  ThreadWindow(std::shared_ptr<Threads> group, int64_t number, int64_t size,
               HostWindows windows)
      : group(std::move(group)), number(number), size(size),
        windows(std::move(windows)) {
    for (const auto &window : this->windows)
      table.push_back(reinterpret_cast<uint64_t>(window->memory.get()));
    this->group->live.add(*this);
  }
  ~ThreadWindow() override { group->live.remove(*this); }
  int64_t rank() const override { return number; }
  int64_t bytes() const override { return size; }
  std::span<const uint64_t> addresses() const override { return table; }
  uint64_t peers() const override {
    return reinterpret_cast<uint64_t>(table.data());
  }
  uint64_t status() const override {
    return reinterpret_cast<uint64_t>(&block());
  }
  moe::ExchangeBlock &block() const override {
    return windows[size_t(number)]->block;
  }
  void delay() const override { group->delay(number); }

private:
  const std::shared_ptr<Threads> group;
  const int64_t number, size;
  const HostWindows windows;
  std::vector<uint64_t> table;
};

/// The communicator of one rank.
class End final : public comm::Communicator {
public:
  End(std::shared_ptr<Threads> group, int64_t number)
      : group(std::move(group)), number(number) {}
  int64_t rank() const override { return number; }
  int64_t size() const override { return group->ranks; }
  Result<void> perform(const comm::Call &call) override {
    return group->perform(number, call);
  }
  Result<std::vector<char>> exchange(std::span<const char> mine,
                                     std::string_view step) override {
    std::vector<char> all(mine.size() * size_t(size()));
    const comm::Part part = {mine.data(), all.data(), int64_t(mine.size()),
                             "i8"};
    TRY(perform({Collective::Kind::AllGather,
                 size(),
                 1,
                 {&part, 1},
                 nullptr,
                 0,
                 step}));
    return all;
  }
  Result<std::unique_ptr<comm::Window>> window(int64_t bytes) override;
  Result<void> status() override {
    TRY(group->status());
    return group->live.check(number);
  }
  void abort(std::string reason) override {
    group->abort(fmt::format("rank {} ended it: {}", number, reason));
  }

private:
  std::shared_ptr<Threads> group;
  int64_t number;
  size_t made = 0; ///< number of windows created
};

std::string describe(const comm::Call &call) {
  std::string text;
  if (call.tokens)
    text = fmt::format("a run of {} tokens, ", call.tokens);
  text += fmt::format("{} of", comm::nameOf(call.kind));
  for (const comm::Part &part : call.parts)
    text += fmt::format(" {} x {}", part.elements, part.elementType);
  return text;
}

/// Returns true if both ranks issued the same collective.
bool areAlike(const comm::Call &a, const comm::Call &b) {
  return a.kind == b.kind && a.tokens == b.tokens && a.step == b.step &&
         std::ranges::equal(a.parts, b.parts,
                            [](const comm::Part &x, const comm::Part &y) {
                              return x.elements == y.elements &&
                                     x.elementType == y.elementType;
                            });
}

/// Computes the sum over all ranks' calls of elements [first, first + count) of
/// a tensor part, and stores it to `to`.
void sum(const std::vector<const comm::Call *> &calls, size_t part,
         int64_t first, int64_t count, std::byte *to) {
  constexpr int64_t kChunk = 4096;
  const Storage storage = storageOf(calls[0]->parts[part].elementType);
  std::vector<float> total(kChunk), more(kChunk);
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t now = std::min(kChunk, count - done);
    std::ranges::fill(total, 0.0F);
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto *from =
          static_cast<const std::byte *>(calls[i]->parts[part].from) +
          storageBytes(storage, first + done);
      loadFloats(storage, from, now, i == 0 ? total.data() : more.data());
      for (int64_t e = 0; i > 0 && e < now; ++e)
        total[e] += more[e];
    }
    storeFloats(storage, total.data(), now, to + storageBytes(storage, done));
  }
}

/// Computes the result of one tensor part of the collective for rank `index` of
/// the group.
Result<void> move(const std::vector<const comm::Call *> &calls, size_t index,
                  size_t part) {
  const comm::Call &mine = *calls[index];
  const comm::Part &its = mine.parts[part];
  auto *to = static_cast<std::byte *>(its.to);
  switch (mine.kind) {
  case Collective::Kind::AllGather: {
    const int64_t bytes = TRY(comm::bytesOf(its));
    for (size_t i = 0; i < calls.size(); ++i)
      std::memcpy(to + int64_t(i) * bytes, calls[i]->parts[part].from,
                  size_t(bytes));
    return {};
  }
  case Collective::Kind::ReduceScatter:
    sum(calls, part, int64_t(index) * its.elements, its.elements, to);
    return {};
  case Collective::Kind::AllReduce:
    sum(calls, part, 0, its.elements, to);
    return {};
  }
  return {};
}

} // namespace

Result<std::shared_ptr<RankGroup>> RankGroup::create(int64_t size,
                                                     Options options) {
  // An upper limit for the number of threads of a process.
  constexpr int64_t kMostThreads = 4096;
  if (size < 1 || size > kMostThreads)
    return invalidArgument("expected a group of 1 to {} ranks, which are "
                           "threads of this process, got {}",
                           kMostThreads, size);
  return std::shared_ptr<RankGroup>(
      std::make_shared<Threads>(size, std::move(options)));
}

Result<std::unique_ptr<comm::Communicator>> Threads::end(int64_t rank) {
  if (rank < 0 || rank >= ranks)
    return invalidArgument("expected a rank from 0 to {}, got {}", ranks - 1,
                           rank);
  return std::unique_ptr<comm::Communicator>(
      std::make_unique<End>(shared_from_this(), rank));
}

void Threads::abort(std::string reason) {
  const std::lock_guard<std::mutex> lock(mutex);
  breakOff(std::move(reason));
}

Result<void> Threads::status() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!why.empty())
    return lost();
  return {};
}

void Threads::place(size_t index, int64_t rank,
                    std::shared_ptr<HostWindow> window) {
  const std::lock_guard<std::mutex> lock(mutex);
  Placing &all = placing[index];
  all.windows.resize(size_t(ranks));
  all.windows[size_t(rank)] = std::move(window);
}

HostWindows Threads::windowsOf(size_t index) {
  const std::lock_guard<std::mutex> lock(mutex);
  Placing &all = placing[index];
  if (++all.taken < ranks)
    return all.windows;
  HostWindows windows = std::move(all.windows);
  placing.erase(index);
  return windows;
}

Result<std::unique_ptr<comm::Window>> End::window(int64_t bytes) {
  if (bytes < 1)
    return invalidArgument("expected a window of at least one byte, got {}",
                           bytes);
  const size_t index = made++;
  group->place(index, number,
               std::make_shared<HostWindow>(bytes, group->timeout()));
  const auto *mine = reinterpret_cast<const char *>(&bytes);
  const std::vector<char> all =
      TRY(exchange({mine, sizeof(bytes)}, "create its window"));
  for (int64_t rank = 0; rank < size(); ++rank) {
    int64_t its = 0;
    std::memcpy(&its, all.data() + rank * int64_t(sizeof(its)), sizeof(its));
    if (its != bytes)
      return Error(ErrorCode::PeerMismatch,
                   "rank {} creates a window of {} bytes, and rank {} one of "
                   "{}",
                   number, bytes, rank, its);
  }
  return std::unique_ptr<comm::Window>(std::make_unique<ThreadWindow>(
      group, number, bytes, group->windowsOf(index)));
}

Meeting &Threads::meetingOf(int64_t rank, const comm::Call &call) {
  std::vector<int64_t> members = comm::groupOf(rank, call.ranks, call.stride);
  Meeting &meeting = meetings[{call.ranks, call.stride, members.front()}];
  if (meeting.members.empty()) {
    meeting.calls.resize(members.size());
    meeting.members = std::move(members);
  }
  return meeting;
}

/// Counts an arrival at the synchronization point. Returns true if the caller
/// is the last rank to arrive.
bool Threads::comes(Meeting &meeting) {
  if (++meeting.here < int64_t(meeting.members.size()))
    return false;
  meeting.here = 0;
  ++meeting.held;
  changed.notify_all();
  return true;
}

/// Waits until all ranks of the group have arrived.
Result<void> Threads::meet(std::unique_lock<std::mutex> &lock, Meeting &meeting,
                           int64_t rank, const comm::Call &call) {
  const uint64_t before = meeting.held;
  if (comes(meeting))
    return {};
  const bool came = changed.wait_for(lock, options.timeout, [&] {
    return meeting.held != before || !why.empty();
  });
  if (meeting.held != before)
    return {};
  if (!came) {
    std::vector<int64_t> missing;
    for (size_t i = 0; i < meeting.members.size(); ++i)
      if (!meeting.calls[i])
        missing.push_back(meeting.members[i]);
    breakOff(fmt::format(
        "rank {} waited {} ms for {} to {}{}", rank, options.timeout.count(),
        describeRanks(missing), call.step.empty() ? "do " : "",
        call.step.empty() ? comm::nameOf(call.kind) : call.step));
  }
  return lost();
}

/// Waits until all ranks have read the memory of the other ranks. No rank may
/// return earlier, because other ranks may still read its memory. A rank that
/// has passed meet() always finishes reading, so this wait needs no timeout.
void Threads::part(std::unique_lock<std::mutex> &lock, Meeting &meeting) {
  const uint64_t before = meeting.held;
  if (!comes(meeting))
    changed.wait(lock, [&] { return meeting.held != before; });
}

Result<void> Threads::perform(int64_t rank, const comm::Call &call) {
  const std::vector<int64_t> members =
      comm::groupOf(rank, call.ranks, call.stride);
  if (members.back() >= ranks)
    return invalidArgument("{} is between ranks {} to {}, and the communicator "
                           "connects {}",
                           comm::nameOf(call.kind), members.front(),
                           members.back(), ranks);
  delay(rank);
  std::unique_lock<std::mutex> lock(mutex);
  if (!why.empty())
    return lost();
  Meeting &meeting = meetingOf(rank, call);
  const auto index = static_cast<size_t>(rank / call.stride % call.ranks);
  if (meeting.calls[index])
    return Error(ErrorCode::ContextInUse,
                 "two runs use the communicator of rank {} at once", rank);
  meeting.calls[index] = &call;
  TRY(meet(lock, meeting, rank, call));

  // Without the lock, reading `meeting.calls` is safe: no rank changes it
  // before all ranks have arrived in part().
  lock.unlock();
  Result<void> done;
  for (size_t i = 0; i < meeting.calls.size() && done; ++i)
    if (!areAlike(*meeting.calls[i], call))
      done = Error(ErrorCode::PeerMismatch,
                   "rank {} does {}, and rank {} does {}", rank, describe(call),
                   meeting.members[i], describe(*meeting.calls[i]));
  for (size_t part = 0; part < call.parts.size() && done; ++part)
    done = move(meeting.calls, index, part);
  delay(rank);
  lock.lock();
  part(lock, meeting);
  meeting.calls[index] = nullptr;
  if (!done)
    breakOff(done.error().message);
  return done;
}
