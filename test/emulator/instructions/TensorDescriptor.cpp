//===- TensorDescriptor.cpp - descriptors of tcgen05 ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every bit is read or must be 0.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/TensorDescriptor.h"

#include "test/emulator/core/Program.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

using namespace moec::emulator;

namespace {
struct KindRow {
  std::string_view name;
  unsigned depth;
};
struct ElementRow {
  unsigned code;
  Element element;
};
} // namespace

static constexpr KindRow kKinds[] = {
    {"kind::f16", 16},      {"kind::tf32", 8},      {"kind::f8f6f4", 32},
    {"kind::i8", 32},       {"kind::mxf8f6f4", 32}, {"kind::mxf4", 64},
    {"kind::mxf4nvf4", 64},
};

TensorKind moec::emulator::tensorKindOf(std::string_view name) {
  const auto row = std::ranges::find(kKinds, name, &KindRow::name);
  if (row == std::end(kKinds))
    throw PtxError(fmt::format("{} is not covered", name));
  return TensorKind(row - kKinds);
}

unsigned moec::emulator::depthOf(TensorKind kind) {
  return kKinds[unsigned(kind)].depth;
}

static std::optional<Element> elementOfCode(TensorKind kind, unsigned code) {
  static constexpr ElementRow kHalves[] = {{0, Element::F16},
                                           {1, Element::BF16}},
                              kFloats[] = {{2, Element::TF32}},
                              kIntegers[] = {{0, Element::U8},
                                             {1, Element::S8}},
                              kSmall[] = {{0, Element::E4M3},
                                          {1, Element::E5M2},
                                          {3, Element::E2M3},
                                          {4, Element::E3M2},
                                          {5, Element::E2M1}},
                              kFours[] = {{1, Element::E2M1}};
  auto find = [&](const auto &rows) -> std::optional<Element> {
    const auto row = std::ranges::find(rows, code, &ElementRow::code);
    if (row == std::end(rows))
      return {};
    return row->element;
  };
  switch (kind) {
  case TensorKind::F16:
    return find(kHalves);
  case TensorKind::TF32:
    return find(kFloats);
  case TensorKind::I8:
    return find(kIntegers);
  case TensorKind::F8F6F4:
  case TensorKind::MXF8F6F4:
    return find(kSmall);
  default:
    return find(kFours);
  }
}

/// The sizes that a kind takes: M, then the least N and the step of N.
static std::string checkSizes(const TensorInstruction &one, unsigned group,
                              bool isInTensorMemory) {
  const bool isScaled = isBlockScaled(one.kind);
  const unsigned whole = 128 * group;
  // A pair with M 128 has another layout of scales.
  if (one.m != whole && (one.m != whole / 2 || isScaled))
    return isScaled ? fmt::format("M is {}, expected {}", one.m, whole)
                    : fmt::format("M is {}, expected {} or {}", one.m,
                                  whole / 2, whole);
  if (isInTensorMemory && group == 2 && one.m == 128)
    return "M 128 of a pair with A in tensor memory is not covered";
  unsigned step = 8 * group;
  if (one.kind == TensorKind::I8) {
    step = 16 * group;
    if (group == 1 && one.n == 8)
      return "";
  } else if (isInTensorMemory && (group == 2 || one.m == 128)) {
    step = 16 * group;
  }
  if (one.n < step || one.n > 256 || one.n % step)
    return fmt::format("N is {}, expected a multiple of {} to 256", one.n,
                       step);
  return "";
}

std::string TensorInstruction::read(uint32_t bits, TensorKind ofKind,
                                    unsigned scales, unsigned group,
                                    bool isInTensorMemory) {
  kind = ofKind;
  const bool isScaled = isBlockScaled(kind);
  auto field = [&](unsigned at, unsigned width) {
    return bits >> at & ((1u << width) - 1);
  };
  if (field(0, 3))
    return "sparse operands are not covered";
  saturates = field(3, 1);
  if (saturates && kind != TensorKind::I8)
    return "only kind::i8 saturates";
  const unsigned codeOfD = field(4, 2);
  if (isScaled) {
    scaleB = codeOfD;
    scaleA = field(29, 2);
    isE8M0 = field(23, 1);
    if (kind != TensorKind::MXF4NVF4 && !isE8M0)
      return "scales of this kind are ue8m0";
    if (kind == TensorKind::MXF4NVF4 && scales == 2 && !isE8M0)
      return "scales of blocks of 32 are ue8m0";
    if (scales == 2 && (scaleA % 2 || scaleB % 2))
      return fmt::format("ids {} and {} of the scales, expected 0 or 2", scaleA,
                         scaleB);
    if (scales == 4 && (scaleA || scaleB))
      return fmt::format("ids {} and {} of the scales, expected 0", scaleA,
                         scaleB);
    if (field(31, 1))
      return "K 96 is not covered";
    if (field(6, 1))
      return "a bit that must be 0 is set";
    m = field(24, 5) * 16;
  } else {
    const unsigned expected = kind == TensorKind::I8 ? 2 : 1;
    const bool isHalf =
        codeOfD == 0 && (kind == TensorKind::F16 || kind == TensorKind::F8F6F4);
    if (codeOfD != expected && !isHalf)
      return fmt::format("type {} of D, expected {}", codeOfD,
                         kind == TensorKind::I8     ? "s32 (2)"
                         : kind == TensorKind::TF32 ? "f32 (1)"
                                                    : "f16 (0) or f32 (1)");
    d = isHalf                   ? Accumulator::F16
        : kind == TensorKind::I8 ? Accumulator::S32
                                 : Accumulator::F32;
    if (field(30, 2))
      return "shifts of .ws are not covered";
    if (field(6, 1) || field(23, 1) || field(29, 1))
      return "a bit that must be 0 is set";
    m = field(24, 5) * 16;
  }
  const auto elementA = elementOfCode(kind, field(7, 3)),
             elementB = elementOfCode(kind, field(10, 3));
  if (!elementA || !elementB)
    return fmt::format("types {} and {} of A and B are not of this kind",
                       field(7, 3), field(10, 3));
  a = *elementA;
  b = *elementB;
  negatesA = field(13, 1);
  negatesB = field(14, 1);
  if ((negatesA || negatesB) && kind == TensorKind::I8)
    return "kind::i8 does not negate";
  isTransposedA = field(15, 1);
  isTransposedB = field(16, 1);
  if ((isTransposedA || isTransposedB) &&
      (kind == TensorKind::TF32 || kind >= TensorKind::MXF4))
    return "operands of this kind that are not K-major are not covered";
  if (isTransposedA && isInTensorMemory)
    return "A in tensor memory is K-major";
  n = field(17, 6) * 8;
  return checkSizes(*this, group, isInTensorMemory);
}

std::string TensorOperand::read(uint64_t bits) {
  auto field = [&](unsigned at, unsigned width) {
    return uint32_t(bits >> at & ((uint64_t(1) << width) - 1));
  };
  if (field(46, 3) != 1)
    return fmt::format("bits 46 to 48 are {}, expected 1", field(46, 3));
  if (field(14, 2) || field(30, 2) || field(53, 8))
    return "a bit that must be 0 is set";
  if (field(49, 3))
    return "a base offset is not covered";
  if (field(52, 1))
    return "an absolute leading offset is not covered";
  switch (field(61, 3)) {
  case 0:
    swizzle = Swizzle::None;
    break;
  case 2:
    swizzle = Swizzle::Bytes128;
    break;
  case 4:
    swizzle = Swizzle::Bytes64;
    break;
  case 6:
    swizzle = Swizzle::Bytes32;
    break;
  case 1:
    return "the swizzle of atoms of 32 bytes is not covered";
  default:
    return fmt::format("there is no swizzle {}", field(61, 3));
  }
  address = field(0, 14) << 4;
  leading = field(16, 14) << 4;
  stride = field(32, 14) << 4;
  return "";
}

uint32_t TensorOperand::place(bool isKMajor, unsigned chunk,
                              unsigned line) const {
  if (swizzle == Swizzle::None)
    return address + line % 8 * 16 +
           (isKMajor ? line / 8 * stride + chunk * leading
                     : line / 8 * leading + chunk * stride);
  const uint32_t rowBytes = 16u << unsigned(swizzle), chunks = rowBytes / 16;
  const uint32_t block = isKMajor ? 0 : chunk / chunks * leading;
  const uint32_t within = isKMajor ? chunk : chunk % chunks;
  return swizzled(address + line / 8 * stride + line % 8 * rowBytes + block +
                      within * 16,
                  swizzle);
}
