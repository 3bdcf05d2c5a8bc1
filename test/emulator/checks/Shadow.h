//===- Shadow.h - accesses of memory that races are found by ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each 4 bytes of memory the last write and the reads since. Where pieces
// of 4 bytes are accessed, shared memory keeps each byte by itself.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_CHECKS_SHADOW_H
#define MOEC_TEST_EMULATOR_CHECKS_SHADOW_H

#include <cstdint>
#include <string>
#include <vector>

namespace moec::emulator {

class Cta;
class Warp;
struct Inst;

/// A clock of work that nobody waited for yet.
inline constexpr uint32_t kPending = ~0u;

/// Who accesses: a lane by ordinary instructions, or the asynchronous proxy for
/// it.
struct Accessor {
  Warp &warp;
  const Inst &inst;
  unsigned lane;
  bool strong = false;   ///< atomic, or with a memory order
  bool isSystem = false; ///< in the scope of all GPUs
};

/// The shared memory of a CTA.
class SharedShadow {
public:
  SharedShadow(Cta &cta, size_t bytes);

  void read(const Accessor &by, uint32_t offset, uint32_t bytes);
  void write(const Accessor &by, uint32_t offset, uint32_t bytes);
  /// A cp.async of the lane, which is pending until settle().
  void writePending(const Accessor &by, uint32_t offset, uint32_t bytes);
  /// The lane's copy to these bytes has landed; others may learn it with
  /// `clock`.
  void settle(const Accessor &by, uint32_t offset, uint32_t bytes,
              uint32_t clock);

  /// The asynchronous proxy reads for all of `lanes`.
  void readAsync(const Accessor &by, uint32_t lanes, uint32_t offset,
                 uint32_t bytes);
  /// Tensor cores read for the lane. Who knows `clock` of `reader`, a place in
  /// the clocks of the lane's CTA, knows that they have read.
  void readTensor(const Accessor &by, uint32_t offset, uint32_t bytes,
                  uint32_t reader, uint32_t clock);
  /// It writes; who passes the phase `clock` of the mbarrier with this slot
  /// knows it. `writer` is the number of threads of the mbarrier's CTA plus the
  /// slot; `ofCta` the id of that CTA.
  void writeAsync(const Accessor &by, uint32_t offset, uint32_t bytes,
                  uint32_t writer, uint32_t clock, uint64_t ofCta);
  /// A read by the asynchronous proxy has ended, as `lanes` know.
  void endRead(const Accessor &by, uint32_t lanes, uint32_t offset,
               uint32_t bytes);

private:
  struct Write {
    uint32_t writer = kPending; ///< kPending: nobody
    uint32_t clock = 0, site = 0;
    uint32_t cta = 0; ///< 0: this CTA
    bool strong = false;
  };
  struct Read {
    uint32_t clock = 0, lanes = 0, site = 0;
    bool strong = false;
    bool collective = false; ///< any of the lanes may release it
  };
  /// By a lane of another CTA, or by tensor cores.
  struct RemoteRead {
    uint32_t cta = 0, thread = 0, clock = 0, site = 0;
  };

  uint64_t idOf(const Write &write) const;
  template <typename F>
  void forCells(uint32_t offset, uint32_t bytes, F function);
  void split(size_t granule);
  Read &readOf(size_t cell, unsigned warp) {
    return reads[cell * numWarps + warp];
  }
  void checkWrite(const Accessor &by, size_t cell, uint32_t offset,
                  bool reading);
  void checkReads(const Accessor &by, size_t cell, uint32_t offset);
  void setWrite(const Accessor &by, size_t cell, uint32_t writer,
                uint32_t clock, uint32_t cta);
  void conflict(const Accessor &by, uint32_t offset, const char *what,
                uint32_t writer, uint32_t site, uint32_t ofCta);

  Cta &cta;
  size_t numGranules, numWarps, numThreads;
  std::vector<Write> writes;      ///< by cell
  std::vector<Read> reads;        ///< by cell and warp
  std::vector<RemoteRead> remote; ///< by cell
  std::vector<uint32_t> fine;     ///< by granule; 0: one cell has it all
  std::vector<uint32_t> freeFine;
};

/// The memory of an allocation.
class GlobalShadow {
public:
  explicit GlobalShadow(uint64_t bytes) : cells(bytes / 4 + 1) {}

  void access(const Accessor &by, uint64_t offset, uint32_t bytes, bool isWrite,
              uint64_t address);

private:
  struct Access {
    uint32_t cta = 0; ///< 0: none
    uint32_t clock = 0, site = 0;
    uint32_t thread : 12 = 0, mask : 4 = 0, strong : 1 = 0, isSystem : 1 = 0;
  };
  struct Cell {
    Access write, reads[2];
  };
  void check(const Accessor &by, const Access &earlier, uint32_t mask,
             bool isWrite, bool wasWrite, uint64_t address);

  std::vector<Cell> cells;
};

/// "CTA 3, warp 1, lane 4".
std::string describeThread(uint32_t cta, uint32_t thread);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_CHECKS_SHADOW_H
