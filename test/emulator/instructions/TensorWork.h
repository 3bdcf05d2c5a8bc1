//===- TensorWork.h - asynchronous work of tensor cores ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues, checks and operands that the instructions of tcgen05 share.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_TENSORWORK_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_TENSORWORK_H

#include "test/emulator/machine/Machine.h"
#include "test/emulator/parse/Rows.h"

namespace moec::emulator {

/// The part of a name that says how many CTAs work together.
inline const std::string kCtaGroups = "cta_group::1|cta_group::2";

/// Sets option[0] to the CTAs of a group.
void noteGroup(Inst &inst, const NameParts &name);
/// Reports a group size other than that of the CTA's earlier instructions.
/// Returns the other CTA of a pair; null for one CTA, or after a report.
Cta *checkGroup(Warp &warp, const Inst &inst);

/// Returns true if the CTA has allocated the columns; else reports.
bool ownsColumns(Warp &warp, const Inst &inst, const Cta &cta, unsigned column,
                 unsigned columns);

/// The lanes that load and store tensor memory together have one address.
/// Reports others, and those that are undefined.
bool uniformAddress(Warp &warp, const Inst &inst, uint32_t lanes,
                    const MemoryOperand &operand, uint32_t &address);

/// The thread of a lane that issues multiplies, copies and commits.
TensorThread &issuerOf(Warp &warp, unsigned lane);
/// An access of tensor memory by work that the lane issues now.
TensorAccess issuedAccess(Warp &warp, const Inst &inst, unsigned lane,
                          TensorRole role);
/// Checks an access of one of the CTAs of a group.
void noteAccess(Warp &warp, const Inst &inst, unsigned lane, Cta &cta,
                const TensorAccess &access, const TensorArea &area,
                bool isWrite);
/// Queues work after earlier work of the same thread; a commit must cover it.
void issueWork(Warp &warp, const Inst &inst, unsigned lane,
               std::function<void()> run);

/// Calls `function` with the lane that issues an instruction for one thread;
/// reports if there are more.
template <typename F>
void forIssuer(Warp &warp, const Inst &inst, uint32_t lanes, F function) {
  if (std::popcount(lanes) > 1)
    warp.cta.device.report("tcgen05", &warp, &inst, {},
                           std::to_string(std::popcount(lanes)) +
                               " lanes issue this, and each does all of it");
  forLanes(lanes, function);
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_TENSORWORK_H
