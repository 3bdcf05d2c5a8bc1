//===- TensorShadow.h - order of accesses of tensor memory ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each column and 16 lanes of tensor memory the last write and the reads
// since. Two accesses conflict if one writes and neither is known to have ended
// when the other begins.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_CHECKS_TENSORSHADOW_H
#define MOEC_TEST_EMULATOR_CHECKS_TENSORSHADOW_H

#include <cstdint>
#include <memory>
#include <vector>

namespace moec::emulator {

class Cta;
class Warp;
struct Inst;

enum class TensorRole : uint8_t {
  Load,        ///< tcgen05.ld
  Store,       ///< tcgen05.st
  Accumulator, ///< D of a multiply
  Operand,     ///< A or scales of a multiply
  Copy,        ///< tcgen05.cp
};

/// An access of tensor memory. Loads and stores belong to a warp and are
/// numbered as it issues them. Multiplies and copies belong to a thread, and
/// are numbered by the commit that covers them.
struct TensorAccess {
  uint64_t cta = 0;   ///< id of the CTA that issued it; 0: none
  uint32_t agent = 0; ///< warp or thread, by its place in the CTA's clocks
  uint32_t number = 0;
  uint32_t thread = 0, clock = 0; ///< the first lane's, at the issue
  uint32_t site = 0;
  uint32_t shape = 0; ///< of accumulators: equal ones are pipelined
  TensorRole role = TensorRole::Load;
};

/// Lanes and columns of tensor memory.
struct TensorArea {
  unsigned lane, lanes, column, columns;
};

class TensorShadow {
public:
  TensorShadow();
  ~TensorShadow();

  /// `lanes` of the warp make an access to tensor memory of `cta`; reports
  /// what it conflicts with.
  void access(Warp &warp, const Inst &inst, uint32_t lanes, Cta &cta,
              const TensorAccess &now, const TensorArea &area, bool isWrite);
  /// The columns are given back: reports work that may still use them.
  void release(Warp &warp, const Inst &inst, uint32_t lanes, Cta &cta,
               unsigned column, unsigned columns);
  /// Forgets all accesses of the columns.
  void clear(unsigned column, unsigned columns);

private:
  struct Cell;
  std::vector<Cell> cells;
};

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_CHECKS_TENSORSHADOW_H
