//===- Matrix.cpp - 8 x 8 matrices between shared memory and lanes --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ldmatrix, stmatrix and movmatrix of 16-bit elements. Lane 4 g + t has the
// elements 2 t and 2 t + 1 of row g. ldmatrix also unpacks rows of 16 codes of
// 4 or 6 bits to the low bits of bytes 4 t to 4 t + 3.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Converged.h"
#include "test/emulator/instructions/Elements.h"
#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

using namespace moec::emulator;

namespace {
/// A matrix and which of its elements are defined.
struct Matrix {
  uint16_t at[8][8] = {};
  bool defined[8][8] = {};
};
} // namespace

static uint32_t fragmentOf(const Matrix &matrix, unsigned lane, bool transposed,
                           bool &isDefined) {
  const unsigned row = lane / 4, column = lane % 4 * 2;
  if (transposed) {
    isDefined = matrix.defined[column][row] && matrix.defined[column + 1][row];
    return matrix.at[column][row] | uint32_t(matrix.at[column + 1][row]) << 16;
  }
  isDefined = matrix.defined[row][column] && matrix.defined[row][column + 1];
  return matrix.at[row][column] | uint32_t(matrix.at[row][column + 1]) << 16;
}

static void setFragment(Matrix &matrix, unsigned lane, bool transposed,
                        uint32_t value, bool isDefined) {
  const unsigned row = lane / 4, column = lane % 4 * 2;
  for (unsigned i = 0; i < 2; ++i) {
    const auto half = uint16_t(value >> (16 * i));
    (transposed ? matrix.at[column + i][row] : matrix.at[row][column + i]) =
        half;
    (transposed ? matrix.defined[column + i][row]
                : matrix.defined[row][column + i]) = isDefined;
  }
}

/// A row of 16 bytes; `width`: bits of codes that become bytes, or 0.
static void loadRow(const Place &place, unsigned width, Matrix &matrix,
                    unsigned row) {
  uint8_t bytes[16];
  if (width == 6)
    unpackSixBits(place.bytes, bytes);
  for (unsigned i = 0; width == 4 && i < 16; ++i)
    bytes[i] = place.bytes[i / 2] >> (i % 2 * 4) & 15;
  std::memcpy(matrix.at[row], width ? bytes : place.bytes, 16);
  for (unsigned column = 0; column < 8; ++column) {
    // The source bytes of two elements.
    const unsigned first = 2 * column, bits = width ? width : 8;
    bool isDefined = true;
    for (unsigned byte = first * bits / 8; byte * 8 < (first + 2) * bits;
         ++byte)
      isDefined &= !place.defined || place.defined[byte];
    matrix.defined[row][column] = isDefined;
  }
}

/// Lane 8 i + r has the address of row r of matrix i.
static Step loadMatrices(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  const auto count = unsigned(inst.dstList.size());
  const uint32_t used = count == 4 ? kAllLanes : (1u << 8 * count) - 1;
  requireDefined(warp, inst, inst.memory[0].base, used, "the address");
  for (unsigned i = 0; i < count; ++i) {
    Matrix matrix;
    for (unsigned row = 0; row < 8; ++row) {
      const unsigned lane = 8 * i + row;
      const Place place = accessShared(
          warp, inst, lane, uint32_t(warp.addressOf(inst.memory[0], lane)), 16,
          Access::Read);
      loadRow(place, inst.kind, matrix, row);
    }
    const Reg &to = inst.dstList[i];
    uint32_t defined = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      bool isDefined = false;
      warp.lanesOf<uint32_t>(to)[lane] =
          fragmentOf(matrix, lane, inst.flag, isDefined);
      defined |= uint32_t(isDefined) << lane;
    }
    warp.setDefined(to, kAllLanes, defined);
  }
  return Step::Next;
}

static Step storeMatrices(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  const auto count = unsigned(inst.srcList[0].size());
  const uint32_t used = count == 4 ? kAllLanes : (1u << 8 * count) - 1;
  requireDefined(warp, inst, inst.memory[0].base, used, "the address");
  const bool tracks = warp.cta.device.settings.checkUndefined;
  for (unsigned i = 0; i < count; ++i) {
    Matrix matrix;
    const Reg &from = inst.srcList[0][i];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      setFragment(matrix, lane, inst.flag, warp.lanesOf<uint32_t>(from)[lane],
                  !tracks || warp.isDefined(from, 1u << lane));
    for (unsigned row = 0; row < 8; ++row) {
      const unsigned lane = 8 * i + row;
      const Place place = accessShared(
          warp, inst, lane, uint32_t(warp.addressOf(inst.memory[0], lane)), 16,
          Access::Write);
      std::memcpy(place.bytes, matrix.at[row], 16);
      for (unsigned column = 0; place.defined && column < 8; ++column)
        place.defined[2 * column] = place.defined[2 * column + 1] =
            matrix.defined[row][column];
    }
  }
  warp.cta.device.noteEffect();
  return Step::Next;
}

static Step moveMatrix(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  const bool tracks = warp.cta.device.settings.checkUndefined;
  Matrix matrix;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    setFragment(matrix, lane, /*transposed=*/false,
                warp.lanesOf<uint32_t>(inst.src[0])[lane],
                !tracks || warp.isDefined(inst.src[0], 1u << lane));
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    bool isDefined = false;
    warp.lanesOf<uint32_t>(inst.dst[0])[lane] =
        fragmentOf(matrix, lane, /*transposed=*/true, isDefined);
    warp.setDefined(inst.dst[0], 1u << lane, isDefined ? kAllLanes : 0);
  }
  return Step::Next;
}

static void noteMatrix(Inst &inst, const NameParts &name) {
  inst.taint = Taint::Own;
  inst.mayWait = true;
  inst.space = Space::Shared;
  inst.flag = name.has("trans");
  inst.kind = name.has("b4x16_p64") ? 4 : name.has("b6x16_p32") ? 6 : 0;
  const size_t count = name.has("x4") ? 4 : name.has("x2") ? 2 : 1;
  const auto &list = name.has("ldmatrix") ? inst.dstList : inst.srcList[0];
  if (!name.has("movmatrix") && list.size() != count)
    throw PtxError("another number of registers than matrices");
}

void moec::emulator::addMatrixRows(Rows &rows) {
  const std::string end =
      ".sync.aligned.m8n8.x1|x2|x4.?trans.shared|shared::cta.b16";
  rows.insert(rows.end(),
              {{"ldmatrix" + end, "L4 m", loadMatrices, noteMatrix},
               {"ldmatrix.sync.aligned.m8n16.x1|x2|x4.shared|shared::cta."
                "b8x16.b4x16_p64|b6x16_p32",
                "L4 m", loadMatrices, noteMatrix},
               {"stmatrix" + end, "m K4", storeMatrices, noteMatrix},
               {"movmatrix.sync.aligned.m8n8.trans.b16", "d4 s4", moveMatrix,
                noteMatrix}});
}
