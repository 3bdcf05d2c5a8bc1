//===- Wgmma.cpp - asynchronous multiplies of a warpgroup -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// wgmma of sm_90a. Each warp computes its 16 of the 64 rows. Operands in shared
// memory are read when the multiply runs: at the latest when it is awaited.
//
// A descriptor: bits 0-13 address / 16, 16-29 leading stride / 16, 32-45 stride
// of 8 rows / 16, 49-51 base offset, 62-63 swizzle (0 none, 1 128, 2 64, 3 32
// bytes).
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/instructions/CardSums.h"
#include "test/emulator/instructions/Converged.h"
#include "test/emulator/instructions/Elements.h"
#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

using namespace moec::emulator;

static constexpr unsigned kWarpRows = 16, kRowBytes = 32, kMaxColumns = 256;

namespace {
struct Descriptor {
  uint32_t address, leading, stride; ///< [bytes]
  Swizzle swizzle;

  explicit Descriptor(uint64_t bits)
      : address(uint32_t(bits & 0x3FFF) << 4),
        leading(uint32_t(bits >> 16 & 0x3FFF) << 4),
        stride(uint32_t(bits >> 32 & 0x3FFF) << 4),
        swizzle(Swizzle((4 - (bits >> 62)) % 4)) {}

  /// The place of 16 bytes of a row's k.
  uint32_t chunk(unsigned row, unsigned byte) const {
    const uint32_t block = row / 8 * stride;
    if (swizzle == Swizzle::None)
      return address + block + byte / 16 * leading + row % 8 * 16;
    const uint32_t rowBytes = 16u << unsigned(swizzle);
    return swizzled(address + block + row % 8 * rowBytes + byte, swizzle);
  }
};
} // namespace

/// Reports parts of a descriptor that are not covered or impossible.
static void checkDescriptor(Warp &warp, const Inst &inst, uint64_t bits,
                            unsigned rows) {
  const Descriptor descriptor(bits);
  Cta &cta = warp.cta;
  if (bits & 0x31F1'C000'C000'C000 & ~(uint64_t(7) << 49))
    cta.device.report("wgmma", &warp, &inst, {},
                      fmt::format("descriptor {:#018x} has bits that mean "
                                  "nothing",
                                  bits));
  if (bits >> 49 & 7)
    cta.device.report("wgmma", &warp, &inst, {},
                      "a base offset in a descriptor is not covered");
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned byte = 0; byte < kRowBytes; byte += 16)
      if (descriptor.chunk(row, byte) + 16 > cta.shared.size()) {
        cta.device.report("bounds", &warp, &inst, {},
                          fmt::format("descriptor {:#018x}: row {} is beyond "
                                      "the {} bytes of shared memory",
                                      bits, row, cta.shared.size()));
        return;
      }
}

/// One lane of those that know the same.
static uint32_t representatives(const Warp &warp) {
  uint32_t chosen = 0;
  forLanes(warp.live, [&](unsigned lane) {
    bool isNew = true;
    forLanes(chosen, [&](unsigned other) {
      isNew &= warp.clocks.viewPointer(lane) != warp.clocks.viewPointer(other);
    });
    chosen |= uint32_t(isNew) << lane;
  });
  return chosen;
}

/// Ranges of shared memory that rows of a descriptor lie in, one for each 8
/// rows; and the asynchronous proxy's check of them.
static void noteReads(Warp &warp, const Inst &inst, uint64_t bits,
                      unsigned first, unsigned rows, AsyncWork &work) {
  const Descriptor descriptor(bits);
  Cta &cta = warp.cta;
  const uint32_t lanes = cta.shadow ? representatives(warp) : 0;
  for (unsigned row = first; row < first + rows; ++row)
    for (unsigned byte = 0; byte < kRowBytes; byte += 16) {
      const uint32_t at = descriptor.chunk(row, byte);
      if (at + 16 > cta.shared.size())
        return;
      if (cta.shadow)
        cta.shadow->readAsync({warp, inst, 0}, lanes, at, 16);
      if (!work.reads.empty() && work.reads.back().end == at)
        work.reads.back().end += 16;
      else
        work.reads.push_back({&cta, at, at + 16});
    }
}

namespace {
/// Rows of an operand as bytes, and which of them are defined.
struct Rows8 {
  uint8_t bytes[kMaxColumns][kRowBytes];
  bool defined[kMaxColumns];
};
} // namespace

static void gather(const Cta &cta, uint64_t bits, unsigned first, unsigned rows,
                   Rows8 &to) {
  const Descriptor descriptor(bits);
  for (unsigned row = 0; row < rows; ++row) {
    to.defined[row] = true;
    for (unsigned byte = 0; byte < kRowBytes; byte += 16) {
      uint32_t at = descriptor.chunk(first + row, byte);
      if (at + 16 > cta.shared.size())
        at = 0;
      std::memcpy(&to.bytes[row][byte], &cta.shared[at], 16);
      for (unsigned i = 0; i < 16; ++i)
        to.defined[row] &= cta.sharedDefined[at + i] != 0;
    }
  }
}

/// Registers of A: as of mma.sync, 16 rows of 32 bytes.
static void gatherRegisters(Warp &warp, const std::vector<Reg> &regs,
                            Rows8 &to) {
  std::fill_n(to.defined, kWarpRows, true);
  for (unsigned i = 0; i < regs.size(); ++i)
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned row = lane / 4 + 8 * (i % 2);
      std::memcpy(&to.bytes[row][16 * (i / 2) + 4 * (lane % 4)],
                  &warp.lanesOf<uint32_t>(regs[i])[lane], 4);
      to.defined[row] &= warp.isDefined(regs[i], 1u << lane);
    }
}

/// shape is m, n, k; option[0], option[1] are the elements of A and B.
static void compute(Warp &warp, const Inst &inst, uint64_t bitsA,
                    uint64_t bitsB, bool accumulates) {
  static thread_local Rows8 a, b;
  static thread_local float valuesA[kWarpRows][kRowBytes],
      valuesB[kMaxColumns][kRowBytes];
  const unsigned columns = inst.shape[1], k = inst.shape[2];
  if (inst.srcList[0].empty())
    gather(warp.cta, bitsA, warp.index % 4 * kWarpRows, kWarpRows, a);
  else
    gatherRegisters(warp, inst.srcList[0], a);
  gather(warp.cta, bitsB, 0, columns, b);
  for (unsigned row = 0; row < kWarpRows; ++row)
    decodeRow(a.bytes[row], k, Element(inst.option[0]), false, valuesA[row]);
  for (unsigned row = 0; row < columns; ++row)
    decodeRow(b.bytes[row], k, Element(inst.option[1]), false, valuesB[row]);
  const auto elementA = Element(inst.option[0]),
             elementB = Element(inst.option[1]);
  const bool isInteger = elementA == Element::S8 || elementA == Element::U8;
  const bool cutsSums = warp.cta.device.settings.cardSums && !isInteger;
  const CardSums sums = cardSumsOf(elementA, /*isWgmma=*/true);
  for (unsigned q = 0; q < columns / 2; ++q) {
    const Reg &to = inst.dstList[q];
    auto *lanes = warp.lanesOf<uint32_t>(to);
    uint32_t defined = accumulates ? warp.accumulators[to.index] : kAllLanes;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned row = lane / 4 + 8 * (q % 4 / 2),
                     column = q / 4 * 8 + lane % 4 * 2 + q % 2;
      const uint32_t addend = accumulates ? lanes[lane] : 0;
      if (cutsSums) {
        lanes[lane] = std::bit_cast<uint32_t>(
            addLikeCard(sums, elementA, valuesA[row], elementB, valuesB[column],
                        k, std::bit_cast<float>(addend)));
      } else {
        const double product = dotProduct(valuesA[row], valuesB[column], k);
        lanes[lane] =
            isInteger ? addend + uint32_t(int32_t(product))
                      : std::bit_cast<uint32_t>(float(
                            double(std::bit_cast<float>(addend)) + product));
      }
      if (!a.defined[row] || !b.defined[column])
        defined &= ~(1u << lane);
    }
    warp.accumulators[to.index] = defined;
  }
}

static Step multiply(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  const bool fromRegisters = !inst.srcList[0].empty();
  const Reg &regB = inst.src[fromRegisters ? 0 : 1];
  const Reg &scaleD = inst.src[fromRegisters ? 1 : 2];
  requireDefined(warp, inst, regB, lanes, "the descriptor");
  requireDefined(warp, inst, scaleD, lanes, "the predicate");
  const uint64_t bitsA = fromRegisters ? 0 : warp.value(inst.src[0], 0);
  const uint64_t bitsB = warp.value(regB, 0);
  const bool accumulates = warp.predicate(scaleD) & 1;
  AsyncWork work;
  work.inst = &inst;
  work.group = warp.multiplyGroup;
  if (!fromRegisters) {
    checkDescriptor(warp, inst, bitsA, 64);
    noteReads(warp, inst, bitsA, warp.index % 4 * kWarpRows, kWarpRows, work);
  }
  checkDescriptor(warp, inst, bitsB, inst.shape[1]);
  noteReads(warp, inst, bitsB, 0, inst.shape[1], work);
  // Until it is awaited, nothing may use the accumulators.
  for (const Reg &reg : inst.dstList) {
    warp.accumulators.try_emplace(reg.index, warp.defined[reg.index]);
    warp.defined[reg.index] = 0;
  }
  work.run = [&warp, &inst, bitsA, bitsB, accumulates] {
    compute(warp, inst, bitsA, bitsB, accumulates);
  };
  Device &device = warp.cta.device;
  const bool isNext = warp.multiplies.empty() || warp.multiplies.back().ran;
  if (device.settings.timing == Timing::AtOnce ||
      (device.settings.timing == Timing::Random && isNext &&
       device.chance(2))) {
    work.run();
    work.ran = true;
  }
  warp.multiplies.push_back(std::move(work));
  return Step::Next;
}

static Step commit(Warp &warp, const Inst &, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  ++warp.multiplyGroup;
  return Step::Next;
}

static Step await(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  while (!warp.multiplies.empty() &&
         warp.multiplies.front().group + inst.immediate < warp.multiplyGroup) {
    AsyncWork work = std::move(warp.multiplies.front());
    warp.multiplies.pop_front();
    if (!work.ran)
      work.run();
    if (warp.cta.shadow)
      for (const InFlight &read : work.reads)
        warp.cta.shadow->endRead({warp, *work.inst, 0}, lanes, read.begin,
                                 read.end - read.begin);
    for (const Reg &reg : work.inst->dstList) {
      const bool isPending = std::any_of(
          warp.multiplies.begin(), warp.multiplies.end(),
          [&](const AsyncWork &other) {
            return other.inst->dstList[0].index == work.inst->dstList[0].index;
          });
      if (isPending)
        break;
      warp.defined[reg.index] = warp.accumulators[reg.index];
      warp.accumulators.erase(reg.index);
    }
  }
  return Step::Next;
}

static Step fence(Warp &warp, const Inst &, uint32_t lanes) {
  return isConverged(warp, lanes) ? Step::Next : Step::Wait;
}

static void noteSync(Inst &inst, const NameParts &) { inst.mayWait = true; }

static void noteMultiply(Inst &inst, const NameParts &name) {
  const std::string shape(name.parts[4]);
  const size_t n = shape.find('n'), k = shape.find('k');
  inst.shape[0] = 64;
  inst.shape[1] = unsigned(std::stoi(shape.substr(n + 1)));
  inst.shape[2] = unsigned(std::stoi(shape.substr(k + 1)));
  const size_t last = name.parts.size() - 1;
  const Element a = elementOf(name.parts[last - 1]),
                b = elementOf(name.parts[last]);
  inst.option[0] = unsigned(a);
  inst.option[1] = unsigned(b);
  inst.taint = Taint::Own;
  inst.mayWait = true;
  if (inst.shape[1] % 8 || inst.shape[1] < 8 || inst.shape[1] > kMaxColumns ||
      inst.shape[2] * bitsOf(a) / 8 != kRowBytes)
    throw PtxError("shape " + shape);
  if (inst.dstList.size() != inst.shape[1] / 2 ||
      (!inst.srcList[0].empty() && inst.srcList[0].size() != 4))
    throw PtxError("another number of registers than the shape has");
}

void moec::emulator::addWgmmaRows(Rows &rows) {
  // One row a shape: a pattern has no ranges.
  std::string shapes16, shapes32;
  for (unsigned n = 8; n <= kMaxColumns; n += 8) {
    const std::string bar = n > 8 ? "|" : "";
    shapes16 += fmt::format("{}m64n{}k16", bar, n);
    shapes32 += fmt::format("{}m64n{}k32", bar, n);
  }
  const std::string mma = "wgmma.mma_async.sync.aligned.";
  // The scales of A and B are 1 and nothing is transposed.
  for (const char *types : {"f32.f16.f16", "f32.bf16.bf16"}) {
    rows.push_back({mma + shapes16 + "." + types, "L4 s8 s8 s0 #1 #1 #0 #0",
                    multiply, noteMultiply});
    rows.push_back({mma + shapes16 + "." + types, "L4 K4 s8 s0 #1 #1 #0",
                    multiply, noteMultiply});
  }
  rows.push_back({mma + shapes32 + ".f32.e4m3|e5m2.e4m3|e5m2",
                  "L4 s8 s8 s0 #1 #1", multiply, noteMultiply});
  rows.push_back({mma + shapes32 + ".f32.e4m3|e5m2.e4m3|e5m2",
                  "L4 K4 s8 s0 #1 #1", multiply, noteMultiply});
  rows.push_back({mma + shapes32 + ".s32.s8|u8.s8|u8", "L4 s8 s8 s0", multiply,
                  noteMultiply});
  rows.push_back({mma + shapes32 + ".s32.s8|u8.s8|u8", "L4 K4 s8 s0", multiply,
                  noteMultiply});
  rows.insert(rows.end(),
              {{"wgmma.fence.sync.aligned", "", fence, noteSync},
               {"wgmma.commit_group.sync.aligned", "", commit, noteSync},
               {"wgmma.wait_group.sync.aligned", "i", await, noteSync}});
}
