//===- TensorDescriptor.h - descriptors of tcgen05 --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kinds of multiplies, and what instruction descriptors and descriptors of
// operands in shared memory say.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_TENSORDESCRIPTOR_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_TENSORDESCRIPTOR_H

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/instructions/Elements.h"

#include <string>

namespace moec::emulator {

enum class TensorKind : uint8_t {
  F16,
  TF32,
  F8F6F4,
  I8,
  MXF8F6F4,
  MXF4,
  MXF4NVF4
};

/// The kind that a part of a name says, "kind::f16".
TensorKind tensorKindOf(std::string_view name);
inline bool isBlockScaled(TensorKind kind) {
  return kind >= TensorKind::MXF8F6F4;
}
/// Elements of k of one instruction: rows have 32 bytes.
unsigned depthOf(TensorKind kind);

/// The type of D.
enum class Accumulator : uint8_t { F16, F32, S32 };

/// The 32-bit descriptor of an instruction.
struct TensorInstruction {
  TensorKind kind;
  Element a, b;
  Accumulator d = Accumulator::F32;
  bool saturates = false, negatesA = false, negatesB = false;
  bool isTransposedA = false, isTransposedB = false; ///< not K-major
  bool isE8M0 = true;                                ///< type of the scales
  unsigned scaleA = 0, scaleB = 0; ///< first byte of the scales
  unsigned m = 0, n = 0;

  /// Reads the bits; the sentence says what is wrong or not covered.
  /// `scales` of a row, 0: none; `group` CTAs; `isInTensorMemory`: A is.
  std::string read(uint32_t bits, TensorKind ofKind, unsigned scales,
                   unsigned group, bool isInTensorMemory);
};

/// The 64-bit descriptor of an operand in shared memory: bits 0-13 address /
/// 16, 16-29 leading offset / 16, 32-45 stride offset / 16, 46-48 constant 1,
/// 49-51 base offset, 52 leading mode, 61-63 swizzle.
struct TensorOperand {
  uint32_t address = 0, leading = 0, stride = 0; ///< [bytes]
  Swizzle swizzle = Swizzle::None;

  /// Reads the bits; the sentence says what is wrong or not covered.
  std::string read(uint64_t bits);

  /// The place of 16 bytes: `chunk` along the contiguous dimension, `line`
  /// along the other one. K-major operands have rows as lines.
  uint32_t place(bool isKMajor, unsigned chunk, unsigned line) const;
};

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_TENSORDESCRIPTOR_H
