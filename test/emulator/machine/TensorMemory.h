//===- TensorMemory.h - tensor memory of an SM ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// 128 lanes of 512 columns of 32 bits, which CTAs of an SM share by columns.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_MACHINE_TENSORMEMORY_H
#define MOEC_TEST_EMULATOR_MACHINE_TENSORMEMORY_H

#include "test/emulator/checks/TensorShadow.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>

namespace moec::emulator {

/// State of a word of tensor memory.
enum class Content : uint8_t {
  Nothing,   ///< nothing wrote it since it was allocated
  Undefined, ///< a value that depends on one that nothing wrote
  Defined,
};

class TensorMemory {
public:
  static constexpr unsigned kLanes = 128, kColumns = 512;

  TensorMemory();

  uint32_t &word(unsigned lane, unsigned column) {
    return words[column * kLanes + lane];
  }
  Content &content(unsigned lane, unsigned column) {
    return contents[column * kLanes + lane];
  }

  /// The id of the CTA that has a column; 0: it is free.
  uint64_t ownerOf(unsigned column) const { return owners[column]; }
  /// The first column of `count` free ones, of the lowest or the highest.
  std::optional<uint32_t> findFree(uint32_t count, bool isHighest) const;
  void take(uint32_t begin, uint32_t count, uint64_t cta);
  void give(uint32_t begin, uint32_t count);

  TensorShadow shadow;

private:
  std::vector<uint32_t> words;
  std::vector<Content> contents;
  std::vector<uint64_t> owners;
};

/// Columns that a CTA has allocated.
struct TensorColumns {
  uint32_t begin, count;
  const Inst *inst; ///< that allocated them
};

/// A thread that issues multiplies and copies. They land in its order.
struct TensorThread {
  uint32_t agent = 0;                ///< its place in the CTA's clocks
  uint32_t commit = 1;               ///< number of the next commit
  const Inst *uncommitted = nullptr; ///< work that no commit covers
  std::deque<std::function<void()>> queue;
};

/// Tensor memory as a CTA uses it.
struct TensorState {
  TensorMemory *memory = nullptr; ///< null: it has allocated nothing
  std::vector<TensorColumns> columns;
  bool hasPermit = true;                       ///< to allocate
  uint32_t lastCount = TensorMemory::kColumns; ///< columns allocated last
  uint32_t group = 0; ///< CTAs of a group, as instructions say; 0: none did
  std::map<uint32_t, TensorThread> threads;
  /// Columns that this CTA of a pair waits for; the first one that both got.
  std::optional<uint32_t> wanted, granted;
  uint64_t releases = 0; ///< that this CTA of a pair has begun
};

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_MACHINE_TENSORMEMORY_H
