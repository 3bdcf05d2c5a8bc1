//===- Memory.h - accesses of memory by lanes -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every access goes through here: bounds, alignment, races, undefined values.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_MACHINE_MEMORY_H
#define MOEC_TEST_EMULATOR_MACHINE_MEMORY_H

#include "test/emulator/machine/Machine.h"

namespace moec::emulator {

/// Bytes of memory and for each whether something wrote it; `defined` is null
/// where all are.
struct Place {
  uint8_t *bytes;
  uint8_t *defined;
};

/// How an instruction accesses memory.
enum class Access : uint8_t { Read, Write, Atomic, Unchecked };

/// A place that `lane` accesses; after a report it is a scratch area. Sizes up
/// to 256 bytes.
Place accessShared(Warp &warp, const Inst &inst, unsigned lane,
                   uint32_t address, uint32_t bytes, Access access);
Place accessGlobal(Warp &warp, const Inst &inst, unsigned lane,
                   uint64_t address, uint32_t bytes, Access access);
Place accessMemory(Warp &warp, const Inst &inst, Space space, unsigned lane,
                   uint64_t address, uint32_t bytes, Access access);

/// The CTA of a shared address; reports and returns null if it has ended or
/// is not there.
Cta *ctaOf(Warp &warp, const Inst &inst, unsigned lane, uint32_t address);

/// Reports lanes whose address, or another value that must be, is undefined.
void requireDefined(Warp &warp, const Inst &inst, const Reg &reg,
                    uint32_t lanes, const char *what);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_MACHINE_MEMORY_H
