//===- RankGroup.cpp - ranks that are threads of one process -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ranks of a collective meet twice: when all have said where their memory
// is, and when all have read that of the others. A meeting is of one group;
// groups of one layout share no memory, and neither do their meetings.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/RankGroup.h"

#include "runtime/host/Element.h"
#include "runtime/package/Ranks.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>

using namespace moec;
using namespace moec::host;

namespace {

/// The ranks of one group meet here.
struct Meeting {
  std::vector<int64_t> members;
  std::vector<const comm::Call *> calls; ///< null: has not come
  int64_t here = 0;                      ///< have come to this meeting
  uint64_t held = 0;                     ///< meetings so far
};

class Threads final : public RankGroup,
                      public std::enable_shared_from_this<Threads> {
public:
  Threads(int64_t size, Options options)
      : ranks(size), options(std::move(options)) {}

  Result<std::unique_ptr<comm::Communicator>> end(int64_t rank) override;
  void abort(std::string reason) override;
  Result<void> perform(int64_t rank, const comm::Call &call);
  Result<void> status();

  const int64_t ranks;

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
    changed.notify_all();
  }
  void delay(int64_t rank) const {
    if (options.delay)
      options.delay(rank);
  }

  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  /// By ranks, stride and the first rank of a group.
  std::map<std::array<int64_t, 3>, Meeting> meetings;
  std::string why; ///< nobody can meet any more; "" while they can
};

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
  Result<void> status() override { return group->status(); }
  void abort(std::string reason) override {
    group->abort(fmt::format("rank {} ended it: {}", number, reason));
  }

private:
  std::shared_ptr<Threads> group;
  int64_t number;
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

bool areAlike(const comm::Call &a, const comm::Call &b) {
  return a.kind == b.kind && a.tokens == b.tokens && a.step == b.step &&
         std::ranges::equal(a.parts, b.parts,
                            [](const comm::Part &x, const comm::Part &y) {
                              return x.elements == y.elements &&
                                     x.elementType == y.elementType;
                            });
}

/// Elements [first, first + count) of a part, summed over calls.
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

/// Gives rank `index` of the group its result of a part.
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
  if (size < 1)
    return invalidArgument("expected a group of at least one rank, got {}",
                           size);
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

Meeting &Threads::meetingOf(int64_t rank, const comm::Call &call) {
  std::vector<int64_t> members = comm::groupOf(rank, call.ranks, call.stride);
  Meeting &meeting = meetings[{call.ranks, call.stride, members.front()}];
  if (meeting.members.empty()) {
    meeting.calls.resize(members.size());
    meeting.members = std::move(members);
  }
  return meeting;
}

/// Whether that was the last to come.
bool Threads::comes(Meeting &meeting) {
  if (++meeting.here < int64_t(meeting.members.size()))
    return false;
  meeting.here = 0;
  ++meeting.held;
  changed.notify_all();
  return true;
}

/// Returns when all have come.
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

/// Returns when all have read. Who has met reads to the end, so nobody else is
/// waited for, and nobody may go before: its memory is still read.
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

  // Until all meet again nobody changes the calls.
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
