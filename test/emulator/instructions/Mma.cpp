//===- Mma.cpp - multiplies of one warp -----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync of m16n8 tiles, also with block scales. With lane = 4 g + t:
//
//   A    register r: row g + 8 (r % 2), bytes 16 (r / 2) + 4 t on
//   B    register r: column g, bytes 16 r + 4 t on
//   C, D register q: row g + 8 (q / 2), column 2 t + q % 2
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/CardSums.h"
#include "test/emulator/instructions/Converged.h"
#include "test/emulator/instructions/Elements.h"
#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

using namespace moec::emulator;

static constexpr unsigned kRows = 16, kColumns = 8, kMaxK = 64;

namespace {
/// Rows of an operand as values, and which rows are defined.
struct Operand {
  float values[kRows][kMaxK] = {};
  bool defined[kRows] = {};
};

/// Scales of each row or column, for equal parts of k.
struct Scales {
  float values[kRows][4];
  bool defined[kRows];
};
} // namespace

/// `rowsPerRegister`: 2 for A, whose registers alternate between rows 8 apart.
static void gather(Warp &warp, const std::vector<Reg> &regs,
                   unsigned rowsPerRegister, unsigned k, Element element,
                   bool inBytes, Operand &operand) {
  uint8_t bytes[kRows][32] = {};
  const unsigned rows = 8 * rowsPerRegister;
  std::fill_n(operand.defined, rows, true);
  for (unsigned i = 0; i < regs.size(); ++i) {
    const uint32_t *lanes = warp.lanesOf<uint32_t>(regs[i]);
    const uint32_t defined = warp.definedLanes(regs[i]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned row = lane / 4 + 8 * (i % rowsPerRegister);
      std::memcpy(&bytes[row][16 * (i / rowsPerRegister) + 4 * (lane % 4)],
                  &lanes[lane], 4);
      operand.defined[row] &= defined >> lane & 1;
    }
  }
  for (unsigned row = 0; row < rows; ++row)
    decodeRow(bytes[row], k, element, inBytes, operand.values[row]);
}

/// Reports selectors of bytes and threads that the shape does not have.
static void checkSelectors(Warp &warp, const Inst &inst, const Reg &byteOf,
                           const Reg &threadOf, unsigned threads,
                           unsigned parts) {
  requireDefined(warp, inst, byteOf, kAllLanes, "the byte of the scales");
  requireDefined(warp, inst, threadOf, kAllLanes, "the thread of the scales");
  const auto byte = warp.value(byteOf, 0), thread = warp.value(threadOf, 0);
  if (byte + parts > 4 || byte % parts || thread >= threads)
    warp.cta.device.report(
        "mma", &warp, &inst, {},
        fmt::format("scales of byte {} and thread {}, expected a multiple of "
                    "{} below 4 and at most {}",
                    byte, thread, parts, threads - 1));
}

/// `parts` scales a row: bytes from `byte` on of the register of the lane that
/// the thread's selector names.
static void gatherScales(Warp &warp, const Reg &reg, const Reg &byteOf,
                         const Reg &threadOf, unsigned rows, unsigned parts,
                         bool isE4M3, Scales &scales) {
  const auto byte = unsigned(warp.value(byteOf, 0)),
             thread = unsigned(warp.value(threadOf, 0));
  for (unsigned row = 0; row < rows; ++row) {
    const unsigned lane =
        rows == kRows ? row % 8 * 4 + thread * 2 + row / 8 : row * 4 + thread;
    const auto bits = uint32_t(warp.value(reg, lane % kLanes));
    scales.defined[row] = warp.isDefined(reg, 1u << lane % kLanes);
    for (unsigned part = 0; part < parts; ++part) {
      const auto code = uint8_t(bits >> (8 * (byte + part) % 32));
      scales.values[row][part] =
          isE4M3 ? valuesOf(kE4M3)[code & 127] : decodeE8M0(code);
    }
  }
}

/// shape[2] is k; option[0], option[1] are the elements of A and B; kind is the
/// number of scales of a row, isSigned says that they are e4m3.
static Step multiply(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  const auto elementA = Element(inst.option[0]),
             elementB = Element(inst.option[1]);
  const unsigned k = inst.shape[2], parts = inst.kind;
  Operand a, b;
  gather(warp, inst.srcList[0], 2, k, elementA, inst.flag, a);
  gather(warp, inst.srcList[1], 1, k, elementB, inst.flag, b);
  Scales scalesA, scalesB;
  if (parts) {
    const auto &selectA = inst.srcList[3];
    checkSelectors(warp, inst, selectA[1], selectA[2], 2, parts);
    checkSelectors(warp, inst, selectA[4], selectA[5], 4, parts);
    gatherScales(warp, selectA[0], selectA[1], selectA[2], kRows, parts,
                 inst.isSigned, scalesA);
    gatherScales(warp, selectA[3], selectA[4], selectA[5], kColumns, parts,
                 inst.isSigned, scalesB);
  }
  const bool isInteger = elementA == Element::S8 || elementA == Element::U8;
  const bool cutsSums = warp.cta.device.settings.cardSums && parts == 0;
  const CardSums sums = cardSumsOf(elementA, /*isWgmma=*/false);
  for (unsigned q = 0; q < 4; ++q) {
    const Reg &from = inst.srcList[2][q], &to = inst.dstList[q];
    uint32_t defined = warp.definedLanes(from);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned row = lane / 4 + 8 * (q / 2),
                     column = lane % 4 * 2 + q % 2;
      const uint32_t addend = warp.lanesOf<uint32_t>(from)[lane];
      bool isDefined = a.defined[row] && b.defined[column];
      uint32_t result;
      if (isInteger) {
        // Each product and sum of k is exact in double.
        result =
            addend +
            uint32_t(int32_t(dotProduct(a.values[row], b.values[column], k)));
      } else {
        double sum = std::bit_cast<float>(addend);
        if (cutsSums)
          sum = addLikeCard(sums, elementA, a.values[row], elementB,
                            b.values[column], k, std::bit_cast<float>(addend));
        else if (parts == 0)
          sum += dotProduct(a.values[row], b.values[column], k);
        for (unsigned part = 0; part < parts; ++part) {
          const unsigned size = k / parts, at = part * size;
          sum += dotProduct(a.values[row] + at, b.values[column] + at, size) *
                 scalesA.values[row][part] * scalesB.values[column][part];
        }
        if (parts)
          isDefined &= scalesA.defined[row] && scalesB.defined[column];
        result = std::bit_cast<uint32_t>(float(sum));
      }
      warp.lanesOf<uint32_t>(to)[lane] = result;
      if (!isDefined)
        defined &= ~(1u << lane);
    }
    warp.setDefined(to, kAllLanes, defined);
  }
  return Step::Next;
}

/// Names end in the types of D, A, B, C, and that of the scales.
static void noteMultiply(Inst &inst, const NameParts &name) {
  const auto &parts = name.parts;
  const auto shape = std::find_if(parts.begin(), parts.end(), [](auto part) {
    return part.starts_with("m16n8k");
  });
  const bool isScaled = name.has("block_scale");
  const size_t types = parts.size() - (isScaled ? 5 : 4);
  inst.shape[2] = unsigned(std::stoi(std::string(shape->substr(6))));
  const Element a = elementOf(parts[types + 1]),
                b = elementOf(parts[types + 2]);
  inst.option[0] = unsigned(a);
  inst.option[1] = unsigned(b);
  inst.taint = Taint::Own;
  inst.mayWait = true;
  // kind::f8f6f4 and mxf8f6f4 have a byte for each element.
  inst.flag = name.has("kind::f8f6f4") || name.has("kind::mxf8f6f4");
  if (isScaled) {
    const bool isE4M3 = parts.back() == "ue4m3";
    inst.isSigned = isE4M3;
    inst.kind = name.has("scale_vec::4X")    ? 4
                : name.has("scale_vec::2X")  ? 2
                : name.has("scale_vec::1X")  ? 1
                : name.has("kind::mxf4")     ? 2
                : name.has("kind::mxf8f6f4") ? 1
                                             : 0;
    if (!inst.kind)
      throw PtxError("kind::mxf4nvf4 needs a scale vector");
    // {scale}, {byte, thread} of A, then of B, in one list.
    for (unsigned list : {4, 5, 6})
      inst.srcList[3].insert(inst.srcList[3].end(), inst.srcList[list].begin(),
                             inst.srcList[list].end());
    if (inst.srcList[3].size() != 6)
      throw PtxError("scales are {register}, {byte, thread} of A and of B");
  }
  const unsigned rowBytes =
      inst.flag ? inst.shape[2] : inst.shape[2] * bitsOf(a) / 8;
  if (inst.srcList[0].size() * 8 != rowBytes ||
      inst.srcList[1].size() * 16 != rowBytes || inst.dstList.size() != 4 ||
      inst.srcList[2].size() != 4)
    throw PtxError("another number of registers than the shape has");
}

void moec::emulator::addMmaRows(Rows &rows) {
  const std::string mma = "mma.sync.aligned.";
  const std::string small = "e4m3|e5m2|e2m1|e2m3|e3m2";
  const std::string four = "L4 K4 K4 K4";
  rows.insert(rows.end(),
              {{mma + "m16n8k8|m16n8k16.row.col.f32.f16.f16.f32", four,
                multiply, noteMultiply},
               {mma + "m16n8k8|m16n8k16.row.col.f32.bf16.bf16.f32", four,
                multiply, noteMultiply},
               {mma + "m16n8k16|m16n8k32.row.col.f32.e4m3|e5m2.e4m3|e5m2.f32",
                four, multiply, noteMultiply},
               {mma + "m16n8k16|m16n8k32.row.col.s32.s8|u8.s8|u8.s32", four,
                multiply, noteMultiply}});
  // The kind is written before or after the shape.
  auto add = [&](const std::string &shape, const std::string &kind,
                 const std::string &types, const std::string &operands) {
    for (const std::string &name :
         {shape + ".row.col." + kind, kind + "." + shape + ".row.col"})
      rows.push_back(
          {mma + name + "." + types, operands, multiply, noteMultiply});
  };
  const std::string scaled = four + " K4 K2 K4 K2",
                    smalls = "f32." + small + "." + small + ".f32",
                    fours = "f32.e2m1.e2m1.f32";
  add("m16n8k32", "kind::f8f6f4", smalls, four);
  add("m16n8k32", "kind::mxf8f6f4.block_scale.?scale_vec::1X",
      smalls + ".ue8m0", scaled);
  add("m16n8k64", "kind::mxf4.block_scale.?scale_vec::2X", fours + ".ue8m0",
      scaled);
  add("m16n8k64", "kind::mxf4nvf4.block_scale.scale_vec::2X", fours + ".ue8m0",
      scaled);
  add("m16n8k64", "kind::mxf4nvf4.block_scale.scale_vec::4X", fours + ".ue4m3",
      scaled);
}
