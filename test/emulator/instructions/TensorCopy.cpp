//===- TensorCopy.cpp - copies from shared to tensor memory ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tcgen05.cp: rows of 16 or 32 bytes, as a K-major descriptor has them, to
// lanes of 4 or 8 columns:
//
//   128x256b, 128x128b     row r to lane r
//   64x128b.warpx2::02_13  row r to lanes r and 64 + r
//   64x128b.warpx2::01_23  row r to lanes 64 (r / 32) + r % 32, and 32 further
//   32x128b.warpx4         row r to lane r of each quarter
//   4x256b                 row r to lane 32 r
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/TensorDescriptor.h"
#include "test/emulator/instructions/TensorWork.h"
#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

namespace {
struct CopyShape {
  std::string_view shape, multicast;
  unsigned rows, bytes;      ///< of a row
  unsigned every, first;     ///< row r: lane r / every * first + r % every
  unsigned copies, distance; ///< of lanes
};
} // namespace

static constexpr CopyShape kShapes[] = {
    {"128x256b", "", 128, 32, 128, 0, 1, 0},
    {"128x128b", "", 128, 16, 128, 0, 1, 0},
    {"64x128b", "warpx2::02_13", 64, 16, 64, 0, 2, 64},
    {"64x128b", "warpx2::01_23", 64, 16, 32, 64, 2, 32},
    {"32x128b", "warpx4", 32, 16, 32, 0, 4, 32},
    {"4x256b", "", 4, 32, 1, 32, 1, 0},
};

/// Widths of the codes of 16 elements that become a byte each; 8 copies bytes.
static constexpr unsigned kPlain = 8;

/// 16 bytes as tensor memory gets them.
static void unpack(const uint8_t *from, unsigned width, uint8_t *to) {
  if (width == kPlain) {
    std::memcpy(to, from, 16);
  } else if (width == 6) {
    unpackSixBits(from, to);
  } else {
    // Codes of 4 bits occupy the bits of sign and exponent of 6-bit codes.
    for (unsigned i = 0; i < 16; ++i)
      to[i] = uint8_t((from[i / 2] >> (i % 2 * 4) & 15) << 2);
  }
}

static void copyRows(Cta &cta, const CopyShape &shape, unsigned width,
                     const TensorOperand &operand, unsigned lane,
                     unsigned column) {
  TensorMemory &memory = *cta.tensor.memory;
  for (unsigned row = 0; row < shape.rows; ++row)
    for (unsigned chunk = 0; chunk < shape.bytes / 16; ++chunk) {
      const uint32_t at = operand.place(true, chunk, row);
      uint32_t words[4];
      unpack(&cta.shared[at], width, reinterpret_cast<uint8_t *>(words));
      for (unsigned i = 0; i < 4; ++i) {
        // Bytes that a word is made of.
        const unsigned begin = i * width / 2, end = (i + 1) * width / 2;
        const bool isDefined = std::all_of(
            &cta.sharedDefined[at + begin], &cta.sharedDefined[at + end],
            [](uint8_t byte) { return byte != 0; });
        for (unsigned copy = 0; copy < shape.copies; ++copy) {
          const unsigned to = lane + row / shape.every * shape.first +
                              row % shape.every + copy * shape.distance;
          memory.word(to, column + 4 * chunk + i) = words[i];
          memory.content(to, column + 4 * chunk + i) =
              isDefined ? Content::Defined : Content::Undefined;
        }
      }
    }
}

/// Checks what a copy of one CTA touches.
static bool checkCopy(Warp &warp, const Inst &inst, unsigned lane, Cta &cta,
                      const CopyShape &shape, const TensorOperand &operand,
                      unsigned to, unsigned column) {
  const unsigned columns = shape.bytes / 4;
  if (!ownsColumns(warp, inst, cta, column, columns))
    return false;
  const TensorThread &thread = issuerOf(warp, lane);
  for (unsigned row = 0; row < shape.rows; ++row)
    for (unsigned chunk = 0; chunk < shape.bytes / 16; ++chunk) {
      const uint32_t at = operand.place(true, chunk, row);
      if (at + 16 > cta.shared.size()) {
        cta.device.report("bounds", &warp, &inst, lane,
                          fmt::format("row {} is at shared address {:#x}, of "
                                      "{} bytes",
                                      row, at, cta.shared.size()));
        return false;
      }
      if (cta.shadow)
        cta.shadow->readTensor({warp, inst, lane}, at, 16, thread.agent,
                               thread.commit);
    }
  const TensorAccess access = issuedAccess(warp, inst, lane, TensorRole::Copy);
  if (shape.rows == 4)
    for (unsigned row = 0; row < 4; ++row)
      noteAccess(warp, inst, lane, cta, access,
                 {to + 32 * row, 1, column, columns}, /*isWrite=*/true);
  else
    noteAccess(warp, inst, lane, cta, access,
               {0, TensorMemory::kLanes, column, columns}, /*isWrite=*/true);
  return true;
}

/// kind is the shape, shape[0] the width of a code.
static Step copy(Warp &warp, const Inst &inst, uint32_t lanes) {
  Cta *peer = checkGroup(warp, inst);
  if (inst.option[0] == 2 && !peer)
    return Step::Next;
  const CopyShape &shape = kShapes[inst.kind];
  forIssuer(warp, inst, lanes, [&](unsigned lane) {
    requireDefined(warp, inst, inst.memory[0].base, 1u << lane, "the address");
    requireDefined(warp, inst, inst.src[0], 1u << lane, "the descriptor");
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    const unsigned to = address >> 16, column = address & 0xFFFF;
    Device &device = warp.cta.device;
    if (to != 0 && (shape.rows != 4 || to >= 32)) {
      device.report("tcgen05", &warp, &inst, lane,
                    fmt::format("lane {} of tensor memory, expected {}", to,
                                shape.rows == 4 ? "0 to 31" : "0"));
      return;
    }
    TensorOperand operand;
    if (std::string fault = operand.read(warp.value(inst.src[0], lane));
        !fault.empty()) {
      device.report("tcgen05", &warp, &inst, lane, "the descriptor: " + fault);
      return;
    }
    const std::array<Cta *, 2> ctas = {&warp.cta, peer};
    for (Cta *cta : ctas)
      if (cta && !checkCopy(warp, inst, lane, *cta, shape, operand, to, column))
        return;
    issueWork(warp, inst, lane,
              [ctas, &shape, width = inst.shape[0], operand, to, column] {
                for (Cta *cta : ctas)
                  if (cta)
                    copyRows(*cta, shape, width, operand, to, column);
              });
  });
  return Step::Next;
}

static void noteCopy(Inst &inst, const NameParts &name) {
  noteGroup(inst, name);
  inst.taint = Taint::Own;
  const auto row = std::ranges::find_if(kShapes, [&](const CopyShape &shape) {
    return name.parts[3] == shape.shape &&
           (shape.multicast.empty() || name.has(shape.multicast));
  });
  inst.kind = uint8_t(row - kShapes);
  inst.shape[0] = name.has("b4x16_p64")   ? 4
                  : name.has("b6x16_p32") ? 6
                                          : kPlain;
}

void moec::emulator::addTensorCopyRows(Rows &rows) {
  for (const CopyShape &shape : kShapes) {
    std::string name =
        "tcgen05.cp." + kCtaGroups + "." + std::string(shape.shape);
    if (!shape.multicast.empty())
      name += "." + std::string(shape.multicast);
    rows.push_back({name, "m s8", copy, noteCopy});
    rows.push_back(
        {name + ".b8x16.b4x16_p64|b6x16_p32", "m s8", copy, noteCopy});
  }
}
