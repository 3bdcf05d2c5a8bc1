//===- Clocks.h - what threads know of each other ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Vector clocks. Each thread has a clock that grows when it releases what it
// did; an access is a (thread, clock). It happened before what another thread
// does if that thread knows the clock. Lock step of a warp orders nothing: each
// lane has a clock and a view of its own, which lanes share while they are
// equal.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_CHECKS_CLOCKS_H
#define MOEC_TEST_EMULATOR_CHECKS_CLOCKS_H

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace moec::emulator {

using ClockVector = std::vector<uint32_t>;

/// GPUs of a machine at most.
inline constexpr unsigned kMaxGpus = 8;
/// For each GPU the number of a launch.
using LaunchNumbers = std::array<uint64_t, kMaxGpus>;

/// The knowledge of a thread.
struct Clocks {
  uint64_t cta = 0; ///< of the thread; 0: of no thread, all is in `others`
  /// By thread of the CTA. After them, by slot: its mbarriers, which count
  /// phases of asynchronous writes; its warps and threads that use tensor
  /// memory, which count that work.
  ClockVector own;
  /// The same, as far as the asynchronous proxy knows it through this thread.
  ClockVector proxy;
  /// Other CTAs, by id: as `own`, and as `proxy`.
  using ClocksByCta = std::map<uint64_t, std::shared_ptr<const ClockVector>>;
  ClocksByCta others, otherProxies;
  LaunchNumbers launches = {}; ///< launches up to these have ended

  void join(const Clocks &other);
  /// True if a join would change nothing.
  bool hasAllOf(const Clocks &other) const;
  void raise(uint32_t thread, uint32_t clock);
  void raiseProxy(uint32_t thread, uint32_t clock);
  bool knows(uint64_t ofCta, uint32_t thread, uint32_t clock) const;
  bool proxyKnows(uint64_t ofCta, uint32_t thread, uint32_t clock) const;
};
using ClocksPointer = std::shared_ptr<const Clocks>;

/// The clocks and views of a warp's lanes.
class LaneClocks {
public:
  static constexpr unsigned kLanes = 32;

  void start(unsigned firstThread, ClocksPointer view);

  const Clocks &view(unsigned lane) const { return *views[lane]; }
  const ClocksPointer &viewPointer(unsigned lane) const { return views[lane]; }
  uint32_t clock(unsigned lane) const { return clocks[lane]; }

  /// Adds what `lanes` know and did to `into`. What they do from now on is not
  /// in it.
  void release(uint32_t lanes, Clocks &into);
  /// `lanes` learn what `from` knows.
  void acquire(uint32_t lanes, const Clocks &from);
  /// The same of one lane. `version` is another one where `from` has changed.
  void acquire(unsigned lane, const Clocks &from, uint64_t version);
  /// The same, where `from` has all that the lanes know.
  void replace(uint32_t lanes, const ClocksPointer &from);
  /// The asynchronous proxy learns what `lanes` know and did.
  void fenceProxy(uint32_t lanes);
  /// `lanes` learn the clock of a slot, and release it later.
  void learn(uint32_t lanes, uint32_t slot, uint32_t clock);
  /// A later relaxed write releases what happened before; an earlier relaxed
  /// read acquires. A fence of the scope of a GPU does so on this GPU.
  void fence(uint32_t lanes, bool isSystem);

  /// Knowledge at the lane's last fence, or at its last one of system scope.
  ClocksPointer fenced(unsigned lane, bool isSystem) const {
    return (isSystem ? systemFences : fences)[lane];
  }
  /// A relaxed read: a fence makes an acquire of it; one of system scope if
  /// another GPU wrote (`isOther`).
  void observe(unsigned lane, const Clocks &from, uint64_t version,
               bool isOther);

private:
  /// The newest join: lanes that read one word, and loops that wait, make the
  /// same again.
  struct Joined {
    ClocksPointer before, after;
    const Clocks *from = nullptr;
    uint64_t version = 0;
  };
  static void joinOnce(Joined &last, ClocksPointer &view, const Clocks &from,
                       uint64_t version);

  unsigned firstThread = 0;
  std::array<ClocksPointer, kLanes> views, fences, systemFences;
  std::array<ClocksPointer, kLanes> observed, observedOther;
  std::array<uint32_t, kLanes> clocks = {};
  Joined acquired, seen;
};

/// Knowledge that was released to places in memory by atomic and other strong
/// writes.
class SyncVariables {
public:
  /// A release by threads of a GPU. Other GPUs acquire it if both the release
  /// and the acquire have system scope.
  struct Release {
    unsigned gpu;
    bool isSystem;
    Clocks clocks;
  };
  /// A strong write: `kept` if it is atomic, so that earlier releases stay.
  void release(uint64_t address, const Release &what, bool kept);
  void forget(uint64_t address) {
    ++changes;
    variables.erase(address);
  }
  const std::vector<Release> &find(uint64_t address) const;
  void clear() {
    ++changes;
    variables.clear();
  }
  /// Another number after each change.
  uint64_t version() const { return changes; }

private:
  uint64_t changes = 0;
  std::unordered_map<uint64_t, std::vector<Release>> variables;
};

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_CHECKS_CLOCKS_H
