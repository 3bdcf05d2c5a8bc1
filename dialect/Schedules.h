//===- Schedules.h - schedules of kernels -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One schedule struct for each way to build a kernel. Engines compute with
// these structs, and attributes store them (dialect/MoeSchedules.td). members()
// lists the values that are parsed, printed, hashed, validated, reported and
// tuned; derived values are not members. This file does not depend on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_SCHEDULES_H
#define MOEC_DIALECT_SCHEDULES_H

#include "dialect/catalog/Engines.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace moec {

/// The default values for members that a kind of schedule does not have.
struct KernelSchedule {
  static constexpr std::string_view source = "default";
  static constexpr std::string_view engineName() { return "simt"; }
  static constexpr int64_t stages = 0, blockTokens = 0, ctasPerSm = 1;
  static constexpr std::array<int64_t, 0> cluster = {};
  /// Returns true if the grid has at most as many CTAs as can be resident on
  /// the GPU.
  static constexpr bool isPersistent() { return false; }
  /// Returns true if the kernel has a grid-wide barrier.
  static constexpr bool isCooperative() { return false; }

  bool programmatic = false; ///< uses programmatic dependent launch
  bool operator==(const KernelSchedule &) const = default;
};

/// A grid of warps, each of which both copies and multiplies.
struct WarpGrid {
  int64_t m = 1, n = 4;
  int64_t threads() const { return 32 * m * n; }
  bool operator==(const WarpGrid &) const = default;
};

/// The producer and consumer warps of a warp-specialized CTA.
struct WarpRoles {
  int64_t producerWarps = 0, consumerWarps = 0;
  /// Registers per thread.
  int64_t producerRegisters = 0, consumerRegisters = 0;
  /// Weight rows are on the M side of the instruction and tokens on its N side.
  /// If false, tokens are on the M side.
  bool swap = true;
  int64_t threads() const { return 32 * (producerWarps + consumerWarps); }
  bool operator==(const WarpRoles &) const = default;
};

/// The schedule of a grouped matmul.
struct Schedule : KernelSchedule {
  const catalog::Engine *engine = catalog::find(catalog::kEngines, "mma_sync");
  int64_t tileM = 16, tileN = 64, tileK = 64;
  int64_t stages = 2;
  int64_t groupM = 8; ///< m tiles that are computed together for each n tile
  int64_t ctasPerSm = 1;
  /// WarpRoles if the engine is warp-specialized, otherwise WarpGrid.
  std::variant<WarpGrid, WarpRoles> warps;
  std::vector<int64_t> cluster;   ///< x, y, z; empty: no cluster
  std::string source = "default"; ///< tuned, modelled or default

  bool hasRoles() const { return std::holds_alternative<WarpRoles>(warps); }
  WarpGrid &grid() { return std::get<WarpGrid>(warps); }
  const WarpGrid &grid() const { return std::get<WarpGrid>(warps); }
  WarpRoles &roles() { return std::get<WarpRoles>(warps); }
  const WarpRoles &roles() const { return std::get<WarpRoles>(warps); }
  bool isPersistent() const { return hasRoles(); }
  std::string_view engineName() const { return engine->name; }
  int64_t threads() const {
    return std::visit([](const auto &w) { return w.threads(); }, warps);
  }
  bool operator==(const Schedule &) const = default;
};

/// The schedule of the kernel that fuses the second matmul, by wgmma, with
/// combine. The kernel computes the result in slices of tileN columns.
struct SlicesSchedule : Schedule {
  SlicesSchedule() {
    engine = catalog::find(catalog::kEngines, "wgmma");
    groupM = 1;
    warps = WarpRoles();
  }
  int64_t blockTokens = 0; ///< tokens that a CTA combines
  int64_t blockRows = 0;   ///< lhs rows that a CTA keeps in shared memory
  int64_t buffers = 0;     ///< slices in memory at a time
  static constexpr bool isCooperative() { return true; }
  bool operator==(const SlicesSchedule &) const = default;
};

/// The schedule of one of the two few-token kernels.
struct GemvSchedule : KernelSchedule {
  static constexpr std::string_view engineName() { return "gemv"; }
  int64_t stages = 0, blockTokens = 0, threads = 0, ctasPerSm = 1;
  /// Weight rows per work unit; 0 if weights are not in fragment order.
  int64_t unitRows = 0;
  bool besideNext = false; ///< uses at most half of an SM's registers
  static constexpr bool isPersistent() { return true; }
  bool operator==(const GemvSchedule &) const = default;
};

/// The schedule of a kernel without a matmul, except combine.
struct BlockSchedule : KernelSchedule {
  int64_t blockTokens = 0, threads = 0;
  std::vector<int64_t> cluster; ///< x, y, z; empty: no cluster
  bool operator==(const BlockSchedule &) const = default;
};

struct CombineSchedule : KernelSchedule {
  int64_t columns = 0, threads = 0;
  bool operator==(const CombineSchedule &) const = default;
};

/// Returns the number of threads of a CTA.
template <typename S> int64_t threadsOf(const S &schedule) {
  if constexpr (std::is_base_of_v<Schedule, S>)
    return schedule.threads();
  else
    return schedule.threads;
}

template <typename Fields> void members(Fields &fields, WarpRoles &roles) {
  fields.integer("producer_warps", roles.producerWarps, 0);
  fields.integer("consumer_warps", roles.consumerWarps, 0);
  fields.integers("registers",
                  {&roles.producerRegisters, &roles.consumerRegisters});
}

/// Lists the members that tuning chooses and a Config holds. For a warp grid,
/// the number of CTAs per SM follows from the register count of its threads.
template <typename Fields> void chosenMembers(Fields &fields, Schedule &s) {
  fields.integers("tile", {&s.tileM, &s.tileN, &s.tileK});
  fields.integer("stages", s.stages, 0);
  if (!s.hasRoles())
    fields.integers("warps", {&s.grid().m, &s.grid().n});
  fields.integer("group", s.groupM, 0);
  if (!s.hasRoles())
    return;
  fields.flag("swap", s.roles().swap);
  members(fields, s.roles());
  fields.integer("ctas_per_sm", s.ctasPerSm, 1);
}

template <typename Fields> void members(Fields &fields, Schedule &s) {
  chosenMembers(fields, s);
  if (s.hasRoles())
    fields.list("cluster", s.cluster);
  else
    fields.integer("ctas_per_sm", s.ctasPerSm, 1);
  fields.flag("programmatic", s.programmatic);
  fields.word("source", s.source, "default");
}

template <typename Fields> void members(Fields &fields, SlicesSchedule &s) {
  fields.integers("tile", {&s.tileM, &s.tileN, &s.tileK});
  fields.integer("stages", s.stages, 0);
  fields.integer("block_tokens", s.blockTokens, 0);
  fields.integer("block_rows", s.blockRows, 0);
  fields.integer("buffers", s.buffers, 0);
  members(fields, s.roles());
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
  fields.list("cluster", s.cluster);
  fields.flag("programmatic", s.programmatic);
}

template <typename Fields> void members(Fields &fields, CombineSchedule &s) {
  fields.integer("columns", s.columns, 0);
  fields.integer("threads", s.threads, 0);
  fields.flag("programmatic", s.programmatic);
}

/// The name and value of a member.
struct Member {
  std::string_view name;
  std::variant<bool, int64_t, std::vector<int64_t>, std::string> value;
  bool isAbsent = false; ///< true if the member has its default value
  bool operator==(const Member &) const = default;
};

/// Collects the members of a schedule.
struct MemberList {
  std::vector<Member> all;
  void word(const char *name, const std::string &value,
            std::string_view absent) {
    all.push_back({name, value, value == absent});
  }
  void integer(const char *name, int64_t value, int64_t absent) {
    all.push_back({name, value, value == absent});
  }
  void integers(const char *name, std::initializer_list<int64_t *> values) {
    std::vector<int64_t> copied;
    for (const int64_t *value : values)
      copied.push_back(*value);
    all.push_back({name, copied, false});
  }
  void list(const char *name, const std::vector<int64_t> &values) {
    all.push_back({name, values, values.empty()});
  }
  void flag(const char *name, bool value) {
    all.push_back({name, value, !value});
  }
};

template <typename S> std::vector<Member> membersOf(S schedule) {
  MemberList list;
  members(list, schedule);
  return list.all;
}

} // namespace moec

#endif // MOEC_DIALECT_SCHEDULES_H
