//===- Schedules.h - members of schedules -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule's attribute holds one of these structs. members() lists what is
// parsed, printed, hashed and bounded; what follows from other members is none.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_SCHEDULES_H
#define MOEC_DIALECT_SCHEDULES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <type_traits>

namespace moec::moe {

/// The schedule of a grouped matmul. An engine, a row of Engines.h, multiplies.
struct MatmulSchedule {
  std::string engine;
  llvm::SmallVector<int64_t, 3> tile; ///< m, n, k
  int64_t stages = 0;
  int64_t group = 0; ///< m tiles that share a traversal of n
  int64_t ctasPerSm = 1;
  bool programmatic = false;
  std::string source = "default"; ///< tuned, modelled or default
  bool operator==(const MatmulSchedule &) const = default;
};

/// The schedule of an engine whose warps all copy and multiply.
struct WarpsSchedule : MatmulSchedule {
  llvm::SmallVector<int64_t, 2> warps; ///< m, n
  bool operator==(const WarpsSchedule &) const = default;
};

/// The roles of warps: some copy, and the others multiply.
struct Roles {
  int64_t producerWarps = 0, consumerWarps = 0;
  llvm::SmallVector<int64_t, 2> registers; ///< of producers, of consumers
  int64_t threads() const { return 32 * (producerWarps + consumerWarps); }
  bool operator==(const Roles &) const = default;
};

struct RolesSchedule : MatmulSchedule, Roles {
  bool swap = false;
  llvm::SmallVector<int64_t, 3> cluster; ///< x, y, z
  bool operator==(const RolesSchedule &) const = default;
};

/// The schedule of one kernel for the second matmul and combine.
struct SlicesSchedule : Roles {
  llvm::SmallVector<int64_t, 3> tile; ///< m, n, k
  int64_t stages = 0;
  int64_t blockTokens = 0, blockRows = 0, buffers = 0;
  bool programmatic = false;
  bool operator==(const SlicesSchedule &) const = default;
};

/// The schedule of either kernel of the few-token path.
struct GemvSchedule {
  int64_t stages = 0, blockTokens = 0, threads = 0, ctasPerSm = 1;
  int64_t unitRows = 0;    ///< weight rows of a unit; 0: no fragments
  bool besideNext = false; ///< leaves half of a multiprocessor to the next
  bool programmatic = false;
  bool operator==(const GemvSchedule &) const = default;
};

/// The schedule of a kernel without a matmul, except combine.
struct BlockSchedule {
  int64_t blockTokens = 0, threads = 0;
  llvm::SmallVector<int64_t, 3> cluster; ///< x, y, z
  bool programmatic = false;
  bool operator==(const BlockSchedule &) const = default;
};

struct CombineSchedule {
  int64_t columns = 0, threads = 0;
  bool programmatic = false;
  bool operator==(const CombineSchedule &) const = default;
};

template <typename Fields> void members(Fields &fields, WarpsSchedule &s) {
  fields.integers("tile", s.tile);
  fields.integer("stages", s.stages, 0);
  fields.integers("warps", s.warps);
  fields.integer("group", s.group, 0);
  fields.integer("ctas_per_sm", s.ctasPerSm, 1);
  fields.flag("programmatic", s.programmatic);
  fields.word("source", s.source, "default");
}

template <typename Fields> void members(Fields &fields, Roles &s) {
  fields.integer("producer_warps", s.producerWarps, 0);
  fields.integer("consumer_warps", s.consumerWarps, 0);
  fields.integers("registers", s.registers);
}

template <typename Fields> void members(Fields &fields, RolesSchedule &s) {
  fields.integers("tile", s.tile);
  fields.integer("stages", s.stages, 0);
  fields.integer("group", s.group, 0);
  fields.flag("swap", s.swap);
  members(fields, static_cast<Roles &>(s));
  fields.integer("ctas_per_sm", s.ctasPerSm, 1);
  fields.integers("cluster", s.cluster);
  fields.flag("programmatic", s.programmatic);
  fields.word("source", s.source, "default");
}

template <typename Fields> void members(Fields &fields, SlicesSchedule &s) {
  fields.integers("tile", s.tile);
  fields.integer("stages", s.stages, 0);
  fields.integer("block_tokens", s.blockTokens, 0);
  fields.integer("block_rows", s.blockRows, 0);
  fields.integer("buffers", s.buffers, 0);
  members(fields, static_cast<Roles &>(s));
  fields.flag("programmatic", s.programmatic);
}

template <typename Fields> void members(Fields &fields, GemvSchedule &s) {
  fields.integer("stages", s.stages, 0);
  fields.integer("block_tokens", s.blockTokens, 0);
  fields.integer("threads", s.threads, 0);
  fields.integer("ctas_per_sm", s.ctasPerSm, 1);
  fields.integer("unit_rows", s.unitRows, 0);
  fields.flag("beside_next", s.besideNext);
  fields.flag("programmatic", s.programmatic);
}

template <typename Fields> void members(Fields &fields, BlockSchedule &s) {
  fields.integer("block_tokens", s.blockTokens, 0);
  fields.integer("threads", s.threads, 0);
  fields.integers("cluster", s.cluster);
  fields.flag("programmatic", s.programmatic);
}

template <typename Fields> void members(Fields &fields, CombineSchedule &s) {
  fields.integer("columns", s.columns, 0);
  fields.integer("threads", s.threads, 0);
  fields.flag("programmatic", s.programmatic);
}

/// Hashes members, for MLIR's storage.
struct FieldHasher {
  llvm::hash_code code = 0;
  void add(llvm::hash_code more) { code = llvm::hash_combine(code, more); }
  void word(llvm::StringRef, llvm::StringRef value, llvm::StringRef) {
    add(llvm::hash_value(value));
  }
  void integer(llvm::StringRef, int64_t value, int64_t) {
    add(llvm::hash_value(value));
  }
  void integers(llvm::StringRef, llvm::ArrayRef<int64_t> values) {
    add(llvm::hash_value(values));
  }
  void flag(llvm::StringRef, bool value) { add(llvm::hash_value(value)); }
};

template <typename S>
  requires requires(FieldHasher &hasher, S &s) { members(hasher, s); }
llvm::hash_code hash_value(S s) {
  FieldHasher hasher;
  if constexpr (std::is_base_of_v<MatmulSchedule, S>)
    hasher.word("engine", s.engine, "");
  members(hasher, s);
  return hasher.code;
}

} // namespace moec::moe

#endif // MOEC_DIALECT_SCHEDULES_H
