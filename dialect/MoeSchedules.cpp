//===- MoeSchedules.cpp - schedule attributes -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of schedules. All members are bounded, so that products of accepted
// values fit in 64 bits.
//
//===----------------------------------------------------------------------===//

#include "dialect/FieldParser.h"
#include "dialect/Moe.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

/// Returns the smallest and largest legal value of the schedule member `name`;
/// for a list, of each element.
static std::pair<int64_t, int64_t> boundsOf(StringRef name, bool isList) {
  constexpr int64_t kMany = (int64_t(1) << 31) - 1, kTile = 1 << 16;
  constexpr int64_t kWarps = 32;
  if (isList)
    return {1, name == "warps" ? kWarps : kTile};
  if (name == "ctas_per_sm")
    return {1, kWarps};
  return {0, name.ends_with("_warps") ? kWarps : kMany};
}

/// Checks that each member is within its bounds. Like the checks below, it
/// returns true on failure.
static ParseResult verifyBounds(EmitError emitError,
                                const std::vector<Member> &members) {
  for (const auto &[name, value, isAbsent] : members) {
    if (name == "source" &&
        verifyOneOf(emitError, {"tuned", "modelled", "default"},
                    std::get<std::string>(value), name))
      return failure();
    const auto *list = std::get_if<std::vector<int64_t>>(&value);
    const auto *number = std::get_if<int64_t>(&value);
    const auto [least, most] = boundsOf(name, list);
    for (const int64_t one : list     ? ArrayRef<int64_t>(*list)
                             : number ? ArrayRef<int64_t>(*number)
                                      : ArrayRef<int64_t>())
      if (list && one <= 0)
        return emitError() << "'" << name << "' must be positive, got " << one;
      else if (one < least || one > most)
        return emitError() << "'" << name << "' must be at "
                           << (one < least ? "least " : "most ")
                           << (one < least ? least : most) << ", got " << one;
  }
  return success();
}

static ParseResult verifyThreads(EmitError emitError, int64_t threads) {
  if (threads >= 32 && threads <= 1024 && threads % 32 == 0)
    return success();
  return emitError() << "'threads' must be a multiple of 32 up to 1024, got "
                     << threads;
}

template <typename S>
static ParseResult verifySchedule(EmitError emitError, const S &schedule) {
  if (verifyBounds(emitError, membersOf(schedule)))
    return failure();
  if constexpr (std::is_base_of_v<Schedule, S>)
    if (schedule.hasRoles()) {
      const int64_t producers = schedule.roles().producerWarps;
      const int64_t consumers = schedule.roles().consumerWarps;
      if (producers < 4 || consumers < 4 || producers % 4 || consumers % 4)
        return emitError() << "roles must be whole warpgroups of 4 warps, got "
                           << producers << " and " << consumers;
    }
  return verifyThreads(emitError, threadsOf(schedule));
}

LogicalResult MatmulScheduleAttr::verify(EmitError emitError, Schedule s) {
  return failure(verifyPositiveList(emitError, "cluster", s.cluster, 3) ||
                 verifySchedule(emitError, s));
}

LogicalResult SlicesScheduleAttr::verify(EmitError emitError,
                                         SlicesSchedule s) {
  if (verifySchedule(emitError, s))
    return failure();
  if (s.blockTokens && s.blockRows && s.buffers)
    return success();
  return emitError() << "a schedule of slices needs 'block_tokens', "
                        "'block_rows' and 'buffers', got "
                     << s.blockTokens << ", " << s.blockRows << " and "
                     << s.buffers;
}

LogicalResult GemvScheduleAttr::verify(EmitError emitError, GemvSchedule s) {
  return verifySchedule(emitError, s);
}

LogicalResult BlockScheduleAttr::verify(EmitError emitError, BlockSchedule s) {
  return failure(verifyPositiveList(emitError, "cluster", s.cluster, 3) ||
                 verifySchedule(emitError, s));
}

LogicalResult CombineScheduleAttr::verify(EmitError emitError,
                                          CombineSchedule s) {
  return verifySchedule(emitError, s);
}
