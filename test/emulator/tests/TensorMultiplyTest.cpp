//===- TensorMultiplyTest.cpp - tests of tcgen05.mma ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kinds without scales, layouts of operands, and the order of multiplies.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/TensorProduct.h"

using namespace moec::emulator;

static constexpr unsigned kAtB = 32768;
static constexpr uint32_t kF32 = 1u << 4, kS32 = 2u << 4;

namespace {
class TensorMultiply : public TensorProduct {
protected:
  struct Case {
    const char *kind;
    TensorLayout a, b;
    unsigned m, n, depth;
    uint32_t rest = kF32;
  };

  static std::string multiply(const char *kind, const char *end = "%p5") {
    return fmt::format("@%p6 tcgen05.mma.cta_group::1.kind::{} [%r31], %d1, "
                       "%d2, %r4, {};",
                       kind, end);
  }
  static uint32_t instructionOf(const Case &one) {
    return instruction(one.a.type, one.b.type, one.m, one.n,
                       one.rest | uint32_t(one.a.isTransposed) << 15 |
                           uint32_t(one.b.isTransposed) << 16);
  }
  /// Lays the case out; all up to the multiply.
  std::string prepare(const Case &one) {
    layOut(one.a, one.b, one.m, one.n, one.depth, kAtB);
    return begin() + synchronize() +
           describe(one.a, one.b, kAtB, instructionOf(one));
  }
  std::string whole(const Case &one) {
    return prepare(one) + multiply(one.kind) + commit() + await() +
           (one.m == 128 ? give(one.n) : giveHalf(one.n)) + end();
  }
  /// The lanes of 64 rows: 16 of each quarter.
  static std::string giveHalf(unsigned columns) {
    std::string text =
        fmt::format("and.b32 %r2, %tid, 31; shr.u32 %r2, %r2, 2;"
                    "shr.u32 %r3, %tid, 5; shl.b32 %r3, %r3, 5;"
                    "add.s32 %r2, %r2, %r3; and.b32 %r3, %tid, 3;"
                    "shl.b32 %r3, %r3, 3; mul.wide.u32 %d0, %r2, {};"
                    "add.s64 %d0, %d0, %base; cvt.u64.u32 %d3, %r3;"
                    "add.s64 %d0, %d0, %d3;",
                    kColumns * 4);
    // Register q of 16x256b: row g + 8 (q / 2), column 2 t + q % 2.
    for (unsigned column = 0; column < columns; column += 8)
      text += fmt::format(
          "add.s32 %r1, %r31, {};"
          "tcgen05.ld.sync.aligned.16x256b.x1.b32 {{%r11, %r12, %r13, %r14}}, "
          "[%r1]; tcgen05.wait::ld.sync.aligned;"
          "st.global.v2.u32 [%d0+{}], {{%r11, %r12}};"
          "st.global.v2.u32 [%d0+{}], {{%r13, %r14}};",
          column, kImage + 4 * column, kImage + 4 * (column + 8 * kColumns));
    return text;
  }
  static unsigned laneOf(const Case &one, unsigned row) {
    return one.m == 128 ? row : row / 16 * 32 + row % 16;
  }
  void expectProduct(const Case &one) {
    for (unsigned row = 0; row < one.m; ++row)
      for (unsigned column = 0; column < one.n; ++column) {
        const int expected = product(one.a, one.b, row, column, one.depth);
        const uint32_t bits = result(laneOf(one, row), column);
        ASSERT_EQ(one.rest & kS32   ? float(int32_t(bits))
                  : one.rest & kF32 ? std::bit_cast<float>(bits)
                                    : decodeHalf(uint16_t(bits)),
                  float(expected))
            << one.kind << " " << one.a.type.name << " " << one.b.type.name
            << ", swizzles " << one.a.swizzle << " " << one.b.swizzle
            << ", row " << row << ", column " << column;
      }
  }
};
} // namespace

TEST_F(TensorMultiply, KindsAndLayouts) {
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  for (const auto &one : std::initializer_list<TensorMultiply::Case>{
           // K-major: swizzles, and none with blocks in any place.
           {"f16", bfloats, bfloats, 128, 16, 16},
           {"f16", {kBfloat, 128, 0, 1024, false, 4}, bfloats, 128, 40, 16},
           {"f16", {kHalf, 64, 0, 512}, {kHalf, 32, 0, 256}, 128, 24, 16},
           {"f16", {kHalf, 0, 4096, 128}, {kBfloat, 0, 128, 256}, 128, 32, 16},
           {"f16", bfloats, bfloats, 64, 24, 16},
           {"f16", bfloats, bfloats, 128, 16, 16, /*rest=*/0},
           {"tf32",
            {kTf32, 64, 0, 512, false, 2},
            {kTf32, 128, 0, 1024},
            128,
            16,
            8},
           {"i8",
            {kSigned, 128, 0, 1024},
            {kUnsigned, 64, 0, 512},
            128,
            16,
            32,
            kS32},
           {"i8",
            {kUnsigned, 32, 0, 256},
            {kSigned, 0, 128, 256},
            64,
            8,
            32,
            kS32},
           {"f8f6f4",
            {kFp8, 128, 0, 1024},
            {kFp8Wide, 128, 0, 1024, false, 6},
            128,
            16,
            32},
           {"f8f6f4", {kFp4, 128, 0, 1024}, {kFp8, 64, 0, 512}, 128, 16, 32},
           {"f8f6f4",
            {kFp6, 64, 0, 512, false, 2},
            {kFp6Wide, 32, 0, 256},
            64,
            8,
            32},
           // Not K-major.
           {"f16", {kBfloat, 128, 2048, 1024, true}, bfloats, 128, 16, 16},
           {"f16",
            {kHalf, 64, 1024, 512, true},
            {kHalf, 128, 4096, 1024, true},
            128,
            32,
            16},
           {"f16",
            {kHalf, 0, 2048, 128, true},
            {kHalf, 32, 512, 256, true},
            128,
            32,
            16},
           {"f8f6f4",
            {kFp8, 128, 4096, 1024, true},
            {kFp8, 64, 0, 512},
            128,
            16,
            32},
           {"f8f6f4",
            {kFp8, 64, 4096, 512, true},
            {kFp4, 32, 1024, 256, true},
            64,
            32,
            32},
       }) {
    expectRight(whole(one));
    expectProduct(one);
  }
}

TEST_F(TensorMultiply, AddsToAccumulators) {
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  const TensorMultiply::Case one = {"f16", bfloats, bfloats, 128, 16, 16};
  const std::string begin = prepare(one);
  expectRight(begin + multiply("f16") + multiply("f16", "%p6") +
              multiply("f16", "%p6") + commit() + await() + give(16) + end());
  EXPECT_EQ(value(9, 5), float(3 * product(one.a, one.b, 9, 5, 16)));
  // D / 2^2 is added to.
  expectRight(begin + multiply("f16") + multiply("f16", "%p6, 2") + commit() +
              await() + give(16) + end());
  EXPECT_EQ(value(9, 5), float(1.25 * product(one.a, one.b, 9, 5, 16)));
  // Bits of lanes that keep what they have: lanes 0 and 33.
  expectRight(begin + multiply("f16") +
              "mov.u32 %r5, 1; mov.u32 %r6, 2; mov.u32 %r7, 0;" +
              multiply("f16", "{%r5, %r6, %r7, %r7}, %p6") + commit() +
              await() + give(16) + end());
  for (unsigned lane = 0; lane < 128; ++lane)
    EXPECT_EQ(value(lane, 5), float((lane == 0 || lane == 33 ? 1 : 2) *
                                    product(one.a, one.b, lane, 5, 16)));
  expectFinding(begin + multiply("f16", "%p6") + commit() + await() + end(),
                "undefined", "nothing wrote lane 0, column");
  auto negated = one;
  negated.rest |= 1u << 13;
  expectRight(whole(negated));
  EXPECT_EQ(value(9, 5), float(-product(one.a, one.b, 9, 5, 16)));
  negated.rest |= 1u << 14;
  expectRight(whole(negated));
  EXPECT_EQ(value(9, 5), float(product(one.a, one.b, 9, 5, 16)));
}

TEST_F(TensorMultiply, SaturatesIntegers) {
  TensorMultiply::Case one = {
      "i8", {kSigned, 128, 0, 1024}, {kSigned, 128, 0, 1024}, 128, 16, 32,
      kS32};
  for (const bool saturates : {false, true}) {
    one.rest = kS32 | uint32_t(saturates) << 3;
    const std::string body = prepare(one);
    // Sums begin near the largest number.
    const std::string set =
        ".reg .b32 %big; mov.u32 %big, 0x7FFFFFF0;"
        "tcgen05.st.sync.aligned.32x32b.x16.b32 [%r31], {%big, %big, %big, "
        "%big, %big, %big, %big, %big, %big, %big, %big, %big, %big, %big, "
        "%big, %big}; tcgen05.wait::st.sync.aligned;" +
        synchronize();
    expectRight(body + set + multiply("i8", "%p6") + commit() + await() +
                give(16) + end());
    for (unsigned lane = 0; lane < 128; ++lane) {
      const int64_t sum = 0x7FFFFFF0ll + product(one.a, one.b, lane, 3, 32);
      EXPECT_EQ(int32_t(result(lane, 3)),
                saturates ? int32_t(std::min<int64_t>(sum, INT32_MAX))
                          : int32_t(sum));
    }
  }
}

TEST_F(TensorMultiply, TakesAFromTensorMemory) {
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  const TensorMultiply::Case one = {"f16", bfloats, bfloats, 128, 16, 16};
  const std::string begin = prepare(one);
  // Each thread makes its row of A: value k in half k of 8 columns from 64 on.
  std::string row = "add.s32 %r29, %r31, 64;";
  for (unsigned i = 0; i < 8; ++i)
    row += fmt::format("add.s32 %r{0}, %tid, {1}; and.b32 %r{0}, %r{0}, 3;"
                       "cvt.rn.f32.u32 %f0, %r{0}; mov.b32 %r{0}, %f0;"
                       "and.b32 %r{0}, %r{0}, 0xFFFF0000;",
                       11 + i, i);
  const std::string store =
      "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r29], {%r11, %r12, %r13, %r14, "
      "%r15, %r16, %r17, %r18};";
  const std::string wait = "tcgen05.wait::st.sync.aligned;";
  const std::string fromMemory =
      "@%p6 tcgen05.mma.cta_group::1.kind::f16 [%r31], [%r29], %d2, %r4, %p5;";
  expectRight(begin + row + store + wait + synchronize() + fromMemory +
              commit() + await() + give(16) + end());
  for (unsigned lane = 0; lane < 128; ++lane)
    for (unsigned column = 0; column < 16; ++column) {
      int expected = 0;
      for (unsigned i = 0; i < 8; ++i)
        expected +=
            int((lane + i) % 4) * valueOfA(one.b, column + 1000, 2 * i + 1);
      ASSERT_EQ(value(lane, column), float(expected)) << lane;
    }
  expectFinding(begin + row + store + synchronize() + wait + fromMemory +
                    commit() + await() + end(),
                "tcgen05", "without a tcgen05.wait::st");
  expectFinding(begin + row + store + wait + fromMemory + commit() + await() +
                    end(),
                "race", "read without synchronization after the store");
  // A of one multiply is what another one is computing.
  expectFinding(
      begin + multiply("f16") +
          "@%p6 tcgen05.mma.cta_group::1.kind::f16 [%r29], [%r31], %d2, %r4, "
          "%p5;" +
          commit() + await() + end(),
      "race", "read that no commit to an mbarrier orders after the multiply");
}

TEST_F(TensorMultiply, Takes64RowsFromTensorMemory) {
  const TensorLayout bytes = {kFp8, 128, 0, 1024};
  const TensorMultiply::Case one = {"f8f6f4", bytes, bytes, 64, 8, 32};
  const std::string begin = prepare(one);
  for (const unsigned half : {0u, 16u}) {
    // Warp w stores 1 to rows 16 w on: 8 columns of 16 lanes of its quarter.
    const std::string store = fmt::format(
        ".reg .b32 %ones, %d, %a; mov.u32 %ones, 0x38383838;"
        "add.s32 %d, %r31, {0}; add.s32 %a, %r31, {1};"
        "shr.u32 %r1, %tid, 5; shl.b32 %r1, %r1, 21; add.s32 %r1, %r1, %a;"
        "tcgen05.st.sync.aligned.16x64b.x4.b32 [%r1], {{%ones, %ones, %ones, "
        "%ones}}; tcgen05.wait::st.sync.aligned;",
        half << 16, 64 + (half << 16));
    const std::string mma = "@%p6 tcgen05.mma.cta_group::1.kind::f8f6f4 [%d], "
                            "[%a], %d2, %r4, %p5;\n";
    expectRight(begin + store + synchronize() + mma + commit() + await() +
                "mov.u32 %r31, %d;" + giveHalf(8) +
                "ld.shared.u32 %r31, [%r30];" + end());
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned column = 0; column < 8; ++column) {
        int expected = 0;
        for (unsigned k = 0; k < 32; ++k)
          expected += valueOfA(one.b, column + 1000, k);
        ASSERT_EQ(value(laneOf(one, row), column), float(expected)) << row;
      }
    expectFinding(begin + store + synchronize() + "xor.b32 %a, %a, 0x100000;" +
                      mma + commit() + await() + end(),
                  "tcgen05", "A: lane");
  }
}

TEST_F(TensorMultiply, OrderOfMultiplies) {
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  const TensorMultiply::Case one = {"f16", bfloats, bfloats, 128, 16, 16};
  const std::string begin = prepare(one), mma = multiply("f16");
  const std::string wait = "wait: mbarrier.try_wait.parity.shared::cta.b64 "
                           "%p1, [%r10], 0; @!%p1 bra wait;";
  expectFinding(
      begin + mma + "bar.sync 0;\n" + give(16) + commit() + await() + end(),
      "race", "read that no commit to an mbarrier orders after the multiply");
  expectFinding(begin + mma + commit() + wait + give(16) + end(), "tcgen05",
                "without a tcgen05.fence::after_thread_sync");
  // A plain arrival says nothing of the multiply.
  expectFinding(begin + mma +
                    "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r10];" +
                    await() + give(16) + end() + commit(),
                "race", "read that no commit to an mbarrier orders after");
  expectFinding(begin + mma + end(), "async",
                "ended before a tcgen05.commit for this");
  expectFinding(begin + mma + commit() + end(), "async",
                "given back, which no commit to an mbarrier orders after");
  // A commit of another thread covers nothing.
  expectFinding(begin + mma +
                    "setp.eq.u32 %p4, %tid, 32; @%p4 tcgen05.commit."
                    "cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
                    "[%r10];" +
                    await() + give(16) + end() + commit(),
                "race", "read that no commit to an mbarrier orders after");
  // Accumulators of another shape over those in flight.
  auto wide = one;
  wide.n = 24;
  const std::string other =
      fmt::format("mov.u32 %r4, {:#x};", instructionOf(wide));
  expectFinding(begin + mma + other + mma + commit() + await() + end(), "race",
                "write that no commit to an mbarrier orders after the "
                "multiply");
  expectRight(begin + mma + commit() + await() + "bar.sync 0;" + other + mma +
              commit() + await(1) + end());
  // Loads of the accumulators before the next multiply.
  const std::string load =
      "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r31];";
  const std::string loadAndWait = load + "tcgen05.wait::ld.sync.aligned;";
  expectRight(begin + mma + commit() + await() + loadAndWait + synchronize() +
              mma + commit() + await(1) + end());
  expectFinding(begin + mma + commit() + await() + "bar.sync 0;" + loadAndWait +
                    mma + commit() + await(1) + end(),
                "race", "tensor memory of CTA 0");
  expectFinding(begin + mma + commit() + await() + load + synchronize() + mma +
                    "tcgen05.wait::ld.sync.aligned;" + commit() + await(1) +
                    end(),
                "async", "write before a tcgen05.wait::ld for the load");
}

TEST_F(TensorMultiply, OperandsInSharedMemory) {
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  const TensorMultiply::Case one = {"f16", bfloats, bfloats, 128, 16, 16};
  layOut(one.a, one.b, one.m, one.n, one.depth, kAtB);
  const std::string description =
      describe(bfloats, bfloats, kAtB, instructionOf(one));
  const std::string mma = multiply("f16");
  expectFinding(begin() + "bar.sync 0; ld.shared.u32 %r31, [%r30];" +
                    description + mma + commit() + await() + end(),
                "proxy", "without a fence.proxy.async");
  expectFinding(begin() +
                    "fence.proxy.async.shared::cta;\n ld.shared.u32 %r31, "
                    "[%r30];\n" +
                    description + mma + commit() + await() + end(),
                "race", "the asynchronous proxy reads");
  // Writes over operands that may still be read.
  const std::string write = "@%p6 st.shared.u32 [%r20], 0;";
  expectFinding(begin() + synchronize() + description + mma + write + commit() +
                    await() + end(),
                "race", "write without synchronization after a read by");
  expectRight(begin() + synchronize() + description + mma + commit() + await() +
              write + end());
  const std::string load =
      "add.s32 %r11, %r30, 24; @%p6 mbarrier.init.shared::cta.b64 [%r11], 1;"
      "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 256;"
      "@%p6 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
      "[%r20], [%base], 256, [%r11];";
  expectFinding(begin() + synchronize() + description + mma + load + commit() +
                    await() + end(),
                "race", "write without synchronization after a read by");
  expectRight(begin() + synchronize() + description + mma + commit() + await() +
              load + end());
}

TEST_F(TensorMultiply, UndefinedOperandsMakeUndefinedRows) {
  // Threads from 8 on leave their 16 bytes of the first row of 1,024 away.
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  const TensorMultiply::Case one = {"f16", bfloats, bfloats, 128, 16, 16};
  std::string body = prepare(one);
  const std::string store = "st.shared.v4.u32 [%r22]";
  body.replace(body.find(store), store.size(),
               "setp.ge.u32 %p2, %r23, 1; setp.lt.or.u32 %p2, %tid, 8, %p2;"
               "@%p2 " +
                   store);
  const std::string load =
      multiply("f16") + commit() + await() +
      "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r31];"
      "tcgen05.wait::ld.sync.aligned; setp.ne.u32 %p2, %tid, {};"
      "@%p2 bra skip; setp.eq.u32 %p3, %r11, 0; @%p3 bra skip; skip:";
  auto use = [&](const char *lane) {
    std::string text = body + load + end();
    return text.replace(text.find("{};"), 3, std::string(lane) + ";");
  };
  // Row 0 is whole, row 1 begins 128 bytes on.
  expectRight(use("0"));
  expectFinding(use("1"), "undefined", "the guard");
  expectRight(use("16"));
}

TEST_F(TensorMultiply, RefusesDescriptors) {
  const TensorLayout bfloats = {kBfloat, 128, 0, 1024};
  const TensorMultiply::Case one = {"f16", bfloats, bfloats, 128, 16, 16};
  layOut(one.a, one.b, one.m, one.n, one.depth, kAtB);
  const std::string begin_ = begin() + synchronize();
  const uint32_t what = instructionOf(one);
  auto expect = [&](const std::string &change, const std::string &text) {
    expectFinding(begin_ + describe(bfloats, bfloats, kAtB, what) + change +
                      multiply("f16") + commit() + await() + end(),
                  "tcgen05", text);
  };
  auto expectWhat = [&](uint32_t bits, const std::string &text) {
    expect(fmt::format("mov.u32 %r4, {:#x};", bits), text);
  };
  expect("xor.b64 %d1, %d1, 0x400000000000;", "bits 46 to 48 are 0");
  expect("or.b64 %d2, %d2, 0x2000000000000;", "a base offset is not covered");
  expect("or.b64 %d2, %d2, 0x2000000000000000;", "there is no swizzle 3");
  expect("xor.b64 %d2, %d2, 0x6000000000000000;", "atoms of 32 bytes");
  expect("or.b64 %d2, %d2, 0x4000;", "a bit that must be 0");
  expectWhat(what ^ kF32 ^ kS32, "type 2 of D, expected f16 (0) or f32 (1)");
  expectWhat(what | 1u << 9, "types 5 and 1 of A and B");
  expectWhat(what | 1u << 2, "sparse operands");
  expectWhat(what | 1u << 3, "only kind::i8 saturates");
  expectWhat(what | 1u << 29, "a bit that must be 0");
  expectWhat(instruction(kBfloat, kBfloat, 96, 16, kF32),
             "M is 96, expected 64 or 128");
  expectWhat(instruction(kBfloat, kBfloat, 128, 264, kF32), "N is 264");
  expectWhat(instruction(kBfloat, kBfloat, 128, 0, kF32), "N is 0");
  expect("add.s32 %r31, %r31, 0x100000;",
         "lane 16 of tensor memory, expected 0");
  expect("add.s32 %r31, %r31, 120;", "has not allocated column");
  expectFinding(begin_ + describe(bfloats, bfloats, kAtB + 20000, what) +
                    multiply("f16") + commit() + await() + end(),
                "bounds", "of an operand is at shared address");
  expectFinding(begin_ + describe(bfloats, bfloats, kAtB, what) +
                    "tcgen05.mma.cta_group::1.kind::f16 [%r31], %d1, %d2, %r4, "
                    "%p5;" +
                    commit() + await() + end(),
                "tcgen05", "32 lanes issue this");
}
