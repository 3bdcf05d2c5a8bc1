//===- Machine.h - warps, CTAs, grids and the device ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state of an emulated GPU. One thread of the host runs all of it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_MACHINE_MACHINE_H
#define MOEC_TEST_EMULATOR_MACHINE_MACHINE_H

#include "test/emulator/checks/Clocks.h"
#include "test/emulator/checks/Shadow.h"
#include "test/emulator/core/Program.h"
#include "test/emulator/machine/TensorMemory.h"

#include <array>
#include <bit>
#include <cstring>
#include <random>

namespace moec::emulator {

class Cta;
class Device;
struct Cluster;
struct Grid;

/// When asynchronous work lands.
enum class Timing : uint8_t {
  AtOnce, ///< when it is issued
  Late,   ///< when nothing else can go on
  Random, ///< in any order, with a seed
};

struct Settings {
  Timing timing = Timing::AtOnce;
  uint32_t seed = 1;
  uint32_t numGpus = 1;
  uint32_t numSms = 8;            ///< of each GPU
  uint32_t sharedPerSm = 233472;  ///< [bytes]
  uint32_t sharedPerCta = 232448; ///< at most, static and dynamic [bytes]
  uint32_t threadsPerSm = 2048;
  bool checkRaces = true;     ///< races, and order between proxies
  bool checkUndefined = true; ///< uses of values that nothing wrote
  bool cardSums = false;      ///< tensor cores cut sums as those of sm_90 do
  bool logsCopies = false;    ///< a line for each launch that has ended
  /// Instructions of a warp without any effect after which the device says
  /// that it hangs.
  uint64_t spinLimit = 30'000'000;
  /// Instructions of warps after a finding, after which the device ends what
  /// runs: a fault may make a loop very long, and each turn has an effect.
  uint64_t faultLimit = 10'000'000;
};

/// A shared address is the offset in a CTA's memory with its rank in the
/// cluster from this bit on.
inline constexpr unsigned kRankShift = 24;
inline constexpr uint32_t kOffsetMask = (1u << kRankShift) - 1;
/// The generic addresses of shared memory begin with this byte.
inline constexpr uint64_t kSharedWindow = uint64_t(0x5A) << 56;

inline bool isSharedWindow(uint64_t address) { return address >> 56 == 0x5A; }

/// Lanes of a warp that are at the same instruction.
struct Group {
  uint32_t pc = 0, lanes = 0;
  bool waits = false;   ///< its last attempt was a Step::Wait
  bool arrived = false; ///< it has arrived at the barrier that it waits for
  uint64_t ticket = 0;  ///< the phase of that barrier
  uint32_t steps = 0;   ///< since its lanes left others of the warp
};

/// One cp.async of a warp.
struct AsyncCopy {
  const Inst *inst;
  uint32_t lanes; ///< that have not landed
  uint32_t full;  ///< bytes of each copy, zeros included
  std::array<uint32_t, kLanes> to, bytes, group;
  /// The lane's clock at its first arrival after the copy; 0: none yet.
  std::array<uint32_t, kLanes> arrived = {};
  std::array<uint64_t, kLanes> from;
  bool moved = false;
};

/// A piece of shared memory [begin, end) of a CTA that work in flight reads.
struct InFlight {
  Cta *cta;
  uint32_t begin, end;
};

/// A wgmma or a bulk store that has not ended.
struct AsyncWork {
  const Inst *inst;
  uint32_t group; ///< of commits
  std::function<void()> run;
  std::vector<InFlight> reads;
  bool ran = false;
};

/// Loads and stores of tensor memory by a warp, in the order of issue: `group`
/// of each is its number.
struct TensorWarp {
  uint32_t agent = 0; ///< its place in the CTA's clocks; 0: none yet
  uint32_t issued = 0;
  std::deque<AsyncWork> loads, stores; ///< that were not awaited
  /// Registers that loads write, by index, and their defined lanes.
  std::map<uint32_t, uint32_t> registers;
  /// Knowledge of the lanes at their last fence::after_thread_sync.
  std::array<ClocksPointer, kLanes> views;

  bool isDone(uint32_t number) const;
  /// The last number up to which all have been awaited.
  uint32_t doneUpTo() const;
};

class Warp {
public:
  Warp(Cta &cta, unsigned index);

  template <typename T> T *lanesOf(const Reg &reg) {
    return reinterpret_cast<T *>(image.data() + reg.at);
  }
  /// The word of a predicate, without its negation.
  uint32_t &word(const Reg &reg) { return *lanesOf<uint32_t>(reg); }
  uint32_t predicate(const Reg &reg) {
    return reg.negated ? ~word(reg) : word(reg);
  }
  uint64_t value(const Reg &reg, unsigned lane);
  void set(const Reg &reg, unsigned lane, uint64_t value);
  void setPredicate(const Reg &reg, uint32_t lanes, uint32_t values);
  uint64_t addressOf(const MemoryOperand &memory, unsigned lane);

  /// True if all of `lanes` of a register are defined.
  bool isDefined(const Reg &reg, uint32_t lanes) const {
    return reg.constant || (defined[reg.index] & lanes) == lanes;
  }
  void setDefined(const Reg &reg, uint32_t lanes, uint32_t values) {
    defined[reg.index] = (defined[reg.index] & ~lanes) | (values & lanes);
  }
  uint32_t definedLanes(const Reg &reg) const {
    return reg.constant ? kAllLanes : defined[reg.index];
  }

  unsigned threadOf(unsigned lane) const { return index * kLanes + lane; }

  Cta &cta;
  unsigned index; ///< in its CTA
  std::vector<uint8_t> image;
  std::vector<uint32_t> defined; ///< a mask a register
  std::vector<Group> groups;
  Group *current = nullptr; ///< that executes
  uint32_t live = 0, exited = 0;
  uint32_t divergedSteps = 0; ///< groups take turns, by it
  /// The device's effects when all groups waited; ~0: some did not.
  uint64_t waitsSince = ~uint64_t(0);
  LaneClocks clocks;

  std::deque<std::shared_ptr<AsyncCopy>> copies;
  std::array<uint32_t, kLanes> copyGroup = {}; ///< groups committed
  std::deque<AsyncWork> multiplies, stores;
  /// Defined lanes of accumulators that multiplies in flight write, by index.
  std::map<uint32_t, uint32_t> accumulators;
  uint32_t multiplyGroup = 0, storeGroup = 0;
  TensorWarp tensorWork;
  bool clusterArrived = false;
  uint64_t clusterTicket = 0;
};

struct NamedBarrier {
  uint32_t expected = 0;  ///< threads; 0: nobody has come
  bool isDefault = false; ///< expects all threads that have not exited
  uint32_t arrived = 0;
  uint32_t votes = 0; ///< threads whose predicate is true
  uint64_t phase = 0;
  uint32_t lastVotes = 0, lastArrived = 0; ///< of the phase before
  Clocks pending;
  ClocksPointer released;
  const Inst *inst = nullptr; ///< the last arrival
};

struct Mbarrier {
  bool valid = false;
  uint32_t count = 0, pending = 0;
  int64_t bytes = 0; ///< transactions that are expected
  uint32_t phase = 0;
  uint32_t slot = 0; ///< of clocks, for asynchronous writes
  Clocks collected;
  ClocksPointer released;
};

/// Work that lands later.
struct Event {
  std::function<void()> land;
  Warp *warp;
  const Inst *inst;
};

class Cta {
public:
  Cta(Grid &grid, Cluster &cluster, uint32_t index);

  Cta *peer(uint32_t rank);
  bool hasEnded() const;
  /// Threads that have not exited.
  uint32_t liveThreads() const;

  Grid &grid;
  Cluster &cluster;
  Device &device;
  uint32_t index; ///< linear, in the grid
  uint32_t rank = 0;
  uint32_t threads;
  std::vector<uint8_t> shared;
  std::vector<uint8_t> sharedDefined; ///< 1 a byte that was written
  std::unique_ptr<SharedShadow> shadow;
  std::vector<std::unique_ptr<Warp>> warps;
  std::map<uint32_t, Mbarrier> mbarriers;
  uint32_t clockSlots = 0; ///< clocks, after the threads'
  std::array<NamedBarrier, 16> barriers;
  std::deque<Event> events;
  TensorState tensor;
  bool done = false;
  bool triggered = false;   ///< launch_dependents, or ended
  bool awaitedGrid = false; ///< griddepcontrol.wait
  uint32_t roundsLate = 0;  ///< since an event could have landed
  uint64_t id = 0;          ///< of all CTAs of the device
};

/// The CTAs of a cluster, with what its barrier knows.
struct Cluster {
  std::vector<std::unique_ptr<Cta>> ctas;
  uint32_t arrived = 0; ///< threads
  uint64_t phase = 0;
  Clocks pending;
  ClocksPointer released;
};

struct Dim {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t volume() const { return x * y * z; }
};

struct Launch {
  std::shared_ptr<const Module> module; ///< kept alive
  std::shared_ptr<const Kernel> kernel;
  Dim grid, block;
  uint32_t cluster = 1;
  uint32_t dynamicShared = 0; ///< [bytes]
  unsigned gpu = 0;
  bool programmatic = false, cooperative = false;
  std::vector<uint8_t> params;
};

/// A launch that runs.
struct Grid {
  Grid(Device &device, Launch launch)
      : device(device), launch(std::move(launch)) {}

  Device &device;
  Launch launch;
  const Kernel *kernel = nullptr;
  uint64_t number = 0;         ///< of all launches of its GPU
  LaunchNumbers known = {};    ///< launches that have ended before its start
  Clocks learned;              ///< what its threads know of other GPUs
  Grid *predecessor = nullptr; ///< that it overlaps
  alignas(128) std::array<uint8_t, 4096> params = {};
  std::vector<std::unique_ptr<Cluster>> clusters; ///< that run
  uint32_t nextCta = 0, ended = 0, triggered = 0;
  uint64_t copiedBytes = 0; ///< that cp.async read of global memory
  uint32_t resident = 0;    ///< CTAs at once
  /// Launches up to this one had ended, as all know that triggered its
  /// successor: where they awaited the predecessor before.
  uint64_t triggerKnown = ~uint64_t(0);
  /// Calls `function` with each CTA that runs.
  template <typename F> void forCtas(F function) {
    for (auto &cluster : clusters)
      for (auto &cta : cluster->ctas)
        if (!cta->done)
          function(*cta);
  }

  uint32_t numCtas() const { return launch.grid.volume(); }
  bool hasEnded() const { return ended == numCtas(); }
};

/// An allocation.
struct Region {
  uint64_t begin, end;
  int gpu; ///< whose memory it is; -1: the host's, which all GPUs reach
  std::vector<uint8_t> defined; ///< 1 a byte that was written
  std::unique_ptr<GlobalShadow> shadow;
};

/// A CTA that was started, for reports about what it did.
struct CtaRecord {
  uint64_t launch;
  uint32_t index;
  unsigned gpu;
  std::shared_ptr<const Kernel> kernel;
};

/// One finding of a checker, or a fault of the program.
struct Finding {
  std::string kind; ///< "race", "deadlock"
  std::string text;
  uint64_t count = 1;
};

/// All GPUs of a machine.
class Device {
public:
  explicit Device(const Settings &settings = {});
  ~Device();

  // Memory of the host that kernels may use.
  void addRegion(uint64_t begin, uint64_t bytes, bool isDefined, int gpu = 0);
  bool removeRegion(uint64_t begin);
  /// Null if [address, address + bytes) is not in one allocation.
  Region *findRegion(uint64_t address, uint64_t bytes);
  /// Null also if the GPU of the grid does not reach it.
  Region *findRegion(uint64_t address, uint64_t bytes, const Grid &grid);
  /// "is in no allocation", or of which GPU it is.
  std::string whyUnreachable(uint64_t address);
  void enablePeer(unsigned gpu, unsigned peer) { peers[gpu] |= 1u << peer; }
  bool hasPeer(unsigned gpu, unsigned peer) const {
    return peers[gpu] >> peer & 1;
  }

  // Work of streams, each in order. Programmatic launches overlap. The number
  // of a stream is that of its GPU modulo kMaxGpus.
  void enqueue(uint64_t stream, Launch launch);
  /// An action is asked again until it returns true.
  void enqueueAction(uint64_t stream, std::function<bool()> action);
  bool isIdle(uint64_t stream) const;
  bool isIdle() const; ///< all streams
  bool isGpuIdle(unsigned gpu) const;
  /// The host has waited for all that the GPU had: later launches on any GPU
  /// follow it.
  void noteAwaited(unsigned gpu);
  /// The knowledge of other GPUs that launches of a GPU up to `number` had.
  /// They have ended.
  const Clocks &learnedUpTo(unsigned gpu, uint64_t number) const;
  /// Lets all that runs go on a little; false if nothing can.
  bool advance();
  /// Says where each warp waits, and ends all that runs.
  void abandon(const char *kind);
  /// Runs all streams until they are idle; false after a finding.
  bool synchronize();
  /// CTAs of a launch that run at once; 0 if none fits.
  uint32_t residentCtas(const Launch &launch) const;
  bool isHanging() const { return steps - lastEffect > settings.spinLimit; }
  bool runsOnAfterFault() const {
    return stepOfFault && steps - *stepOfFault > settings.faultLimit;
  }

  // Findings.
  void report(const std::string &kind, const Warp *warp, const Inst *inst,
              std::optional<unsigned> lane, const std::string &text);
  const std::vector<Finding> &findings() const { return found; }
  bool hasFinding(const std::string &kind) const;
  void clearFindings() { found.clear(); }

  bool chance(uint32_t oneIn) { return random() % oneIn == 0; }
  /// Something changed that a waiting lane may see.
  void noteEffect() {
    lastEffect = steps;
    ++effects;
  }

  Settings settings;
  std::mt19937 random;
  uint64_t steps = 0;   ///< instructions of warps
  uint64_t effects = 0; ///< changes that waiting lanes may see
  SyncVariables syncVariables;
  const CtaRecord &recordOf(uint64_t ctaId) const { return records[ctaId]; }
  uint64_t recordCta(const Grid &grid, uint32_t index);
  /// The tensor memory of the SM that a CTA runs on.
  TensorMemory &tensorMemoryOf(const Cta &cta);
  /// Called with each finding as it is made.
  std::function<void(const Finding &)> onFinding;

private:
  bool startCtas(Grid &grid);
  bool stepGrid(Grid &grid);
  bool stepCta(Cta &cta);
  void landOne(Cta &cta);
  bool landAny();
  void finishCta(Cta &cta);
  void finishTensorWork(Cta &cta);
  void endCluster(Cluster &cluster);
  void learnFrom(Grid &grid);
  bool endGrids();
  bool startWork();

  std::map<uint64_t, Region> regions;
  Region *lastRegion = nullptr;
  std::vector<Finding> found;
  std::map<std::string, size_t> foundAt;
  struct Work {
    std::optional<Launch> launch;
    std::function<bool()> action;
    LaunchNumbers known = {}; ///< that the host has waited for
  };
  struct Stream {
    std::deque<Work> queue;
    std::deque<std::unique_ptr<Grid>> grids; ///< that run, oldest first
    uint64_t triggerKnown = 0; ///< of the last launch that has ended
  };
  std::map<uint64_t, Stream> streams;
  std::vector<CtaRecord> records;
  std::map<uint32_t, TensorMemory> tensorMemories; ///< by SM
  std::array<uint32_t, kMaxGpus> peers = {};       ///< a bit for each other GPU
  LaunchNumbers numLaunches = {}, awaited = {};
  /// By GPU and number of a launch.
  std::array<std::map<uint64_t, Clocks>, kMaxGpus> learned;
  uint64_t lastEffect = 0;
  std::optional<uint64_t> stepOfFault; ///< the first finding of what runs
};

/// Runs up to `steps` instructions of a warp; true if it did any.
bool runWarp(Warp &warp, unsigned steps);

/// Calls `function` with each lane of a mask.
template <typename F> inline void forLanes(uint32_t lanes, F function) {
  for (; lanes; lanes &= lanes - 1)
    function(unsigned(std::countr_zero(lanes)));
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_MACHINE_MACHINE_H
