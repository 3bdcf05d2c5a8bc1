//===- TensorProduct.h - a product by tcgen05 in a few lines ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operands are laid out here by plain enumeration of the manual's canonical
// layouts. 128 threads copy them to shared memory, thread 0 multiplies, all
// give 128 lanes of D.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_TESTS_TENSORPRODUCT_H
#define MOEC_TEST_EMULATOR_TESTS_TENSORPRODUCT_H

#include "test/emulator/core/Numbers.h"
#include "test/emulator/tests/RunPtx.h"

#include <fmt/core.h>

namespace moec::emulator {

/// An element type: its code in instruction descriptors, and its bits.
struct TensorType {
  const char *name;
  unsigned code, bits;
  uint32_t (*encode)(int value);
};

inline constexpr TensorType
    kHalf = {"f16", 0, 16,
             [](int value) { return uint32_t(encodeHalf(float(value))); }},
    kBfloat = {"bf16", 1, 16,
               [](int value) { return uint32_t(encodeBfloat(float(value))); }},
    kTf32 = {"tf32", 2, 32,
             [](int value) {
               // The hardware ignores these bits.
               return std::bit_cast<uint32_t>(float(value)) | 0x1FFF;
             }},
    kUnsigned = {"u8", 0, 8, [](int value) { return uint32_t(value & 255); }},
    kSigned = {"s8", 1, 8, [](int value) { return uint32_t(value & 255); }},
    kFp8 = {"e4m3", 0, 8,
            [](int value) {
              return uint32_t(encodeSmall(float(value), kE4M3));
            }},
    kFp8Wide = {"e5m2", 1, 8,
                [](int value) {
                  return uint32_t(encodeSmall(float(value), kE5M2));
                }},
    kFp6 = {"e2m3", 3, 6,
            [](int value) {
              return uint32_t(encodeSmall(float(value), kE2M3));
            }},
    kFp6Wide = {"e3m2", 4, 6,
                [](int value) {
                  return uint32_t(encodeSmall(float(value), kE3M2));
                }},
    kFp4 = {"e2m1", 5, 4,
            [](int value) {
              return uint32_t(encodeSmall(float(value), kE2M1));
            }},
    kFp4Dense = {"e2m1", 1, 4, kFp4.encode};

/// An operand in shared memory.
struct TensorLayout {
  TensorType type;
  unsigned swizzle;          ///< [bytes], 0: none
  unsigned leading, stride;  ///< [bytes]
  bool isTransposed = false; ///< not K-major
  unsigned firstChunk = 0;   ///< of k, in chunks of 16 bytes

  /// Types of 4 and 6 bits leave the end of 16 bytes unused if the other
  /// operand has 8.
  unsigned perChunk() const {
    return type.bits < 8 && type.code != kFp4Dense.code ? 16 : 128 / type.bits;
  }
  uint64_t descriptor() const {
    const uint64_t code = swizzle == 128  ? 2
                          : swizzle == 64 ? 4
                          : swizzle == 32 ? 6
                                          : 0;
    return uint64_t(1) << 46 | uint64_t(leading / 16) << 16 |
           uint64_t(stride / 16) << 32 | code << 61;
  }

  /// Writes the element of a row and k.
  void put(uint8_t *memory, unsigned row, unsigned k, int value) const {
    const unsigned along = isTransposed ? row : k,
                   line = isTransposed ? k : row;
    unsigned chunk = along / perChunk() + (isTransposed ? 0 : firstChunk);
    unsigned at;
    if (swizzle == 0) {
      at = line % 8 * 16 + (isTransposed ? line / 8 * leading + chunk * stride
                                         : line / 8 * stride + chunk * leading);
    } else {
      const unsigned chunks = swizzle / 16;
      at = line / 8 * stride + line % 8 * swizzle;
      if (isTransposed)
        at += chunk / chunks * leading;
      // Lines of 128 bytes trade chunks: one, two or four rows are a line.
      const unsigned turn = line % 8 / (8 / chunks);
      at += (chunk % chunks ^ turn) * 16;
    }
    const unsigned bit = along % perChunk() * type.bits;
    const uint32_t code = type.encode(value);
    for (unsigned i = 0; i < type.bits; ++i)
      if (code >> i & 1)
        memory[at + (bit + i) / 8] |= uint8_t(1 << (bit + i) % 8);
  }
};

/// A small integer that depends on all of its arguments.
inline int tensorEntry(int seed, unsigned row, unsigned column) {
  return int(unsigned(seed) * 7 + row * 5 + column * 3 + row * column) % 9 - 4;
}

class TensorProduct : public PtxTest {
protected:
  static constexpr unsigned kImage = 49152, kResults = kImage / 4,
                            kColumns = 64;

  TensorProduct() {
    target = "sm_100a";
    threads = 128;
    shared = kImage + 2048;
    words.assign(kResults + 256 * kColumns, 0);
  }

  uint8_t *image() { return reinterpret_cast<uint8_t *>(words.data()); }

  /// Writes A at byte 0 of the image, B at `atB`.
  void layOut(const TensorLayout &a, const TensorLayout &b, unsigned rows,
              unsigned columns, unsigned depth, unsigned atB) {
    std::fill(words.begin(), words.end(), 0);
    for (unsigned k = 0; k < depth; ++k) {
      for (unsigned row = 0; row < rows; ++row)
        a.put(image(), row, k, valueOfA(a, row, k));
      for (unsigned column = 0; column < columns; ++column)
        b.put(image() + atB, column, k, valueOfA(b, column + 1000, k));
    }
  }
  static int valueOfA(const TensorLayout &layout, unsigned row, unsigned k) {
    const int value = tensorEntry(3, row, k);
    return layout.type.encode == kUnsigned.encode ? value + 4 : value;
  }
  static int product(const TensorLayout &a, const TensorLayout &b, unsigned row,
                     unsigned column, unsigned depth) {
    int sum = 0;
    for (unsigned k = 0; k < depth; ++k)
      sum += valueOfA(a, row, k) * valueOfA(b, column + 1000, k);
    return sum;
  }

  /// Bits of an instruction descriptor.
  static uint32_t instruction(const TensorType &a, const TensorType &b,
                              unsigned m, unsigned n, uint32_t rest = 0) {
    return a.code << 7 | b.code << 10 | n / 8 << 17 | m / 16 << 24 | rest;
  }

  /// The image is at %r20, tensor memory of 128 columns at %r31, an mbarrier
  /// of one arrival at %r10; %p7 is true in warp 0, %p6 in thread 0, %p5
  /// nowhere.
  static std::string begin() {
    std::string text =
        "mov.u32 %r30, memory; setp.lt.u32 %p7, %tid, 32;"
        "setp.eq.u32 %p6, %tid, 0; setp.ne.u32 %p5, %tid, %tid;"
        "@%p7 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r30], "
        "128; add.s32 %r10, %r30, 16;"
        "@%p6 mbarrier.init.shared::cta.b64 [%r10], 1;"
        "add.s32 %r20, %r30, 1087; and.b32 %r20, %r20, 0xFFFFFC00;"
        "shl.b32 %r21, %tid, 4; add.s32 %r22, %r20, %r21;"
        "cvt.u64.u32 %d0, %r21; add.s64 %d0, %d0, %base; mov.u32 %r23, 0;"
        "fill: ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0];"
        "st.shared.v4.u32 [%r22], {%r0, %r1, %r2, %r3};"
        "add.s64 %d0, %d0, 2048; add.s32 %r22, %r22, 2048;"
        "add.s32 %r23, %r23, 1; setp.lt.u32 %p1, %r23, " +
        std::to_string(kImage / 2048) + "; @%p1 bra fill;";
    return text;
  }
  static std::string synchronize() {
    return "fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync;"
           "bar.sync 0; tcgen05.fence::after_thread_sync;"
           "ld.shared.u32 %r31, [%r30];";
  }
  /// Thread 0's descriptors of A in %d1, of B in %d2 and the instruction in
  /// %r4.
  static std::string describe(const TensorLayout &a, const TensorLayout &b,
                              unsigned atB, uint32_t what) {
    auto one = [](const char *reg, unsigned at, const TensorLayout &layout) {
      return fmt::format("add.s32 %r21, %r20, {}; shr.u32 %r21, %r21, 4;"
                         "cvt.u64.u32 {}, %r21; or.b64 {}, {}, {:#x};",
                         at + layout.firstChunk * 16, reg, reg, reg,
                         layout.descriptor());
    };
    return one("%d1", 0, a) + one("%d2", atB, b) +
           fmt::format("mov.u32 %r4, {:#x};\n", what);
  }
  static std::string commit() {
    return "@%p6 tcgen05.commit.cta_group::1.mbarrier::arrive::one."
           "shared::cluster.b64 [%r10];";
  }
  static std::string await(int parity = 0) {
    return fmt::format(
        "\nwait{}: mbarrier.try_wait.parity.shared::cta.b64 %p1, "
        "[%r10], {}; @!%p1 bra wait{};"
        "tcgen05.fence::after_thread_sync;",
        parity, parity, parity);
  }
  /// Each thread gives `columns` columns of its lane, from column 0 on.
  static std::string give(unsigned columns) {
    std::string text = fmt::format(
        "mul.wide.u32 %d0, %tid, {}; add.s64 %d0, %d0, %base;", kColumns * 4);
    for (unsigned column = 0; column < columns; column += 8) {
      text += fmt::format("add.s32 %r1, %r31, {};"
                          "tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%r11, %r12, "
                          "%r13, %r14, %r15, %r16, %r17, %r18}}, [%r1];"
                          "tcgen05.wait::ld.sync.aligned;",
                          column);
      for (unsigned i = 0; i < 8; ++i)
        text += fmt::format("st.global.u32 [%d0+{}], %r{};",
                            kImage + 4 * (column + i), 11 + i);
    }
    return text;
  }
  static std::string end() {
    return "\ntcgen05.fence::before_thread_sync; bar.sync 0;"
           "@%p7 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r31, 128;";
  }

  uint32_t result(unsigned lane, unsigned column) const {
    return words[kResults + lane * kColumns + column];
  }
  float value(unsigned lane, unsigned column) const {
    return std::bit_cast<float>(result(lane, column));
  }
};

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_TESTS_TENSORPRODUCT_H
