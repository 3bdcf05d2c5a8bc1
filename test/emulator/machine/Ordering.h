//===- Ordering.h - memory order of strong accesses -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Acquires and releases by flags in memory, as the checkers follow them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_MACHINE_ORDERING_H
#define MOEC_TEST_EMULATOR_MACHINE_ORDERING_H

#include "test/emulator/machine/Machine.h"
#include "test/emulator/parse/Rows.h"

namespace moec::emulator {

/// The state space and the memory order that a name says.
Space spaceOf(const NameParts &name);
Order orderOf(const NameParts &name);
/// True if the scope is the system.
bool isSystemScope(const NameParts &name);

/// A lane learns by a strong read of `address`, and releases by a strong
/// write.
void noteStrongRead(Warp &warp, const Inst &inst, unsigned lane,
                    uint64_t address);
void noteStrongWrite(Warp &warp, const Inst &inst, unsigned lane,
                     uint64_t address, bool isAtomic);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_MACHINE_ORDERING_H
