//===- MoeSchedules.cpp - attributes of schedules -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers. Members of all schedules are bounded, so that products of what is
// accepted fit 64 bits.
//
//===----------------------------------------------------------------------===//

#include "dialect/FieldParser.h"
#include "dialect/Moe.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

namespace {
/// Finds the first member that is out of its bounds.
struct FieldBounds {
  EmitError emitError;
  bool failed = false;

  void check(StringRef name, int64_t value, int64_t least, int64_t most) {
    if (failed || (value >= least && value <= most))
      return;
    failed = true;
    emitError() << "'" << name << "' must be at "
                << (value < least ? "least " : "most ")
                << (value < least ? least : most) << ", got " << value;
  }
  void integer(StringRef name, int64_t value, int64_t) {
    constexpr int64_t kMany = (int64_t(1) << 31) - 1, kWarps = 32;
    const bool ofWarps = name.ends_with("_warps") || name == "ctas_per_sm";
    check(name, value, name == "ctas_per_sm", ofWarps ? kWarps : kMany);
  }
  void integers(StringRef name, ArrayRef<int64_t> values) {
    constexpr int64_t kTile = 1 << 16, kWarps = 32;
    for (int64_t value : values)
      check(name, value, 1, name == "warps" ? kWarps : kTile);
  }
  void word(StringRef name, StringRef value, StringRef) {
    failed = failed || verifyOneOf(emitError, {"tuned", "modelled", "default"},
                                   value, name);
  }
  void flag(StringRef, bool) {}
};
} // namespace

/// Fails, as those below do, by a result that is true on failure: unless the
/// list holds so many positive numbers.
static ParseResult verifyList(EmitError emitError, StringRef name,
                              ArrayRef<int64_t> values, size_t count) {
  if (values.empty())
    return emitError() << "field '" << name << "' is missing";
  return verifyPositiveList(emitError, name, values, count);
}

static ParseResult verifyThreads(EmitError emitError, int64_t threads) {
  if (threads >= 32 && threads <= 1024 && threads % 32 == 0)
    return success();
  return emitError() << "'threads' must be a multiple of 32 up to 1024, got "
                     << threads;
}

static ParseResult verifyRoles(EmitError emitError, const Roles &roles) {
  if (verifyList(emitError, "registers", roles.registers, 2))
    return failure();
  const int64_t warps[] = {roles.producerWarps, roles.consumerWarps};
  if (warps[0] < 4 || warps[1] < 4 || warps[0] % 4 || warps[1] % 4)
    return emitError() << "roles must be whole warpgroups of 4 warps, got "
                       << warps[0] << " and " << warps[1];
  return verifyThreads(emitError, roles.threads());
}

template <typename Fields>
static ParseResult verifyBounds(EmitError emitError, Fields s) {
  FieldBounds bounds{emitError};
  members(bounds, s);
  return success(!bounds.failed);
}

LogicalResult WarpsScheduleAttr::verify(EmitError emitError, WarpsSchedule s) {
  return failure(verifyList(emitError, "tile", s.tile, 3) ||
                 verifyList(emitError, "warps", s.warps, 2) ||
                 verifyBounds(emitError, s) ||
                 verifyThreads(emitError, 32 * s.warps[0] * s.warps[1]));
}

LogicalResult RolesScheduleAttr::verify(EmitError emitError, RolesSchedule s) {
  return failure(verifyList(emitError, "tile", s.tile, 3) ||
                 verifyPositiveList(emitError, "cluster", s.cluster, 3) ||
                 verifyBounds(emitError, s) || verifyRoles(emitError, s));
}

LogicalResult SlicesScheduleAttr::verify(EmitError emitError,
                                         SlicesSchedule s) {
  if (verifyList(emitError, "tile", s.tile, 3) || verifyBounds(emitError, s) ||
      verifyRoles(emitError, s))
    return failure();
  if (s.blockTokens && s.blockRows && s.buffers)
    return success();
  return emitError() << "a schedule of slices needs 'block_tokens', "
                        "'block_rows' and 'buffers', got "
                     << s.blockTokens << ", " << s.blockRows << " and "
                     << s.buffers;
}

LogicalResult GemvScheduleAttr::verify(EmitError emitError, GemvSchedule s) {
  return failure(verifyBounds(emitError, s) ||
                 verifyThreads(emitError, s.threads));
}

LogicalResult BlockScheduleAttr::verify(EmitError emitError, BlockSchedule s) {
  return failure(verifyPositiveList(emitError, "cluster", s.cluster, 3) ||
                 verifyBounds(emitError, s) ||
                 verifyThreads(emitError, s.threads));
}

LogicalResult CombineScheduleAttr::verify(EmitError emitError,
                                          CombineSchedule s) {
  return failure(verifyBounds(emitError, s) ||
                 verifyThreads(emitError, s.threads));
}
