//===- MultiplyTest.cpp - tests of tensor core operations -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fragments are laid out here by plain enumeration of the manual's figures and
// results compared with the product of the matrices.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/Numbers.h"
#include "test/emulator/tests/RunPtx.h"

using namespace moec::emulator;

using Multiply = PtxTest;

/// A small integer that depends on all of its arguments.
static int entry(int seed, int row, int column) {
  return (seed * 7 + row * 5 + column * 3 + row * column) % 9 - 4;
}

/// Loads %r0 to %r3 (A), %r4 and %r5 (B) and %f0 to %f3 (C) of each lane, 10
/// words a lane, and stores %f4 to %f7 from word 512 on. isNarrow: rows of 16
/// bytes are half of the registers of A and B.
static std::string product(const std::string &mma, bool isNarrow = false) {
  return "mul.lo.s32 %r20, %tid, 40; cvt.u64.u32 %d0, %r20;"
         "add.s64 %d0, %d0, %base;"
         "ld.global.u32 %r0, [%d0]; ld.global.u32 %r1, [%d0+4];"
         "ld.global.u32 %r2, [%d0+8]; ld.global.u32 %r3, [%d0+12];"
         "ld.global.u32 %r4, [%d0+16]; ld.global.u32 %r5, [%d0+20];"
         "ld.global.f32 %f0, [%d0+24]; ld.global.f32 %f1, [%d0+28];"
         "ld.global.f32 %f2, [%d0+32]; ld.global.f32 %f3, [%d0+36];" +
         mma + " {%f4, %f5, %f6, %f7}, " +
         (isNarrow ? "{%r0, %r1}, {%r4},"
                   : "{%r0, %r1, %r2, %r3}, {%r4, %r5},") +
         "{%f0, %f1, %f2, %f3};"
         "mul.lo.s32 %r20, %tid, 16; cvt.u64.u32 %d0, %r20;"
         "add.s64 %d0, %d0, %base; add.s64 %d0, %d0, 2048;"
         "st.global.v4.f32 [%d0], {%f4, %f5, %f6, %f7};";
}

/// Puts A [16, k], B [8, k] and C [16, 8] into the words of their lanes;
/// `put` writes an element of `bytes` bytes.
template <typename F>
static void layOut(std::vector<uint32_t> &words, int k, int bytes, F put) {
  auto *memory = reinterpret_cast<uint8_t *>(words.data());
  const int perWord = 4 / bytes;
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < k; ++column) {
      // Quads of lanes have a row; a half of k is two registers further.
      const int word = column / perWord;
      const int lane = row % 8 * 4 + word % 4;
      const int reg = row / 8 + 2 * (word / 4);
      put(memory + (lane * 10 + reg) * 4 + column % perWord * bytes,
          entry(1, row, column));
      if (row < 8)
        put(memory + (lane * 10 + 4 + word / 4) * 4 + column % perWord * bytes,
            entry(2, row, column));
    }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      words[size_t((row % 8 * 4 + column / 2) * 10 + 6 + row / 8 * 2 +
                   column % 2)] =
          std::bit_cast<uint32_t>(float(entry(3, row, column)));
}

static void expectProduct(const std::vector<uint32_t> &words, int k) {
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      int expected = entry(3, row, column);
      for (int i = 0; i < k; ++i)
        expected += entry(1, row, i) * entry(2, column, i);
      const size_t at = size_t(512 + (row % 8 * 4 + column / 2) * 4 +
                               row / 8 * 2 + column % 2);
      EXPECT_EQ(std::bit_cast<float>(words[at]), float(expected))
          << row << ", " << column;
    }
}

TEST_F(Multiply, OfBfloats) {
  layOut(words, 16, 2, [](uint8_t *to, int value) {
    const uint16_t bits = encodeBfloat(float(value));
    std::memcpy(to, &bits, 2);
  });
  expectRight(product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"));
  expectProduct(words, 16);
}

TEST_F(Multiply, OfHalves) {
  layOut(words, 16, 2, [](uint8_t *to, int value) {
    const uint16_t bits = encodeHalf(float(value));
    std::memcpy(to, &bits, 2);
  });
  expectRight(product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
  expectProduct(words, 16);
}

TEST_F(Multiply, OfTwoFormatsOfEightBits) {
  // A's bytes are e4m3 and B's e5m2: each has a type of its own.
  int writes = 0;
  layOut(words, 32, 1, [&](uint8_t *to, int value) {
    const bool isB =
        (to - reinterpret_cast<uint8_t *>(words.data())) / 4 % 10 >= 4;
    *to = encodeSmall(float(value), isB ? kE5M2 : kE4M3);
    ++writes;
  });
  EXPECT_EQ(writes, 16 * 32 + 8 * 32);
  expectRight(product("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"));
  expectProduct(words, 32);
}

TEST_F(Multiply, OfRowsOf16Bytes) {
  layOut(words, 8, 2, [](uint8_t *to, int value) {
    const uint16_t bits = encodeHalf(float(value));
    std::memcpy(to, &bits, 2);
  });
  expectRight(
      product("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", true));
  expectProduct(words, 8);
  layOut(words, 16, 1, [&](uint8_t *to, int value) {
    *to = encodeSmall(float(value), kE4M3);
  });
  expectRight(
      product("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", true));
  expectProduct(words, 16);
}

TEST_F(Multiply, OfIntegers) {
  for (int k : {16, 32}) {
    layOut(words, k, 1, [](uint8_t *to, int value) { *to = uint8_t(value); });
    // Sums are integers, too.
    for (size_t lane = 0; lane < 32; ++lane)
      for (size_t i = 6; i < 10; ++i)
        words[lane * 10 + i] =
            uint32_t(int(std::bit_cast<float>(words[lane * 10 + i])));
    std::string text = product("mma.sync.aligned.m16n8k" + std::to_string(k) +
                                   ".row.col.s32.s8.s8.s32",
                               k == 16);
    for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos;)
      text.replace(at, 3, "u32");
    for (size_t at = 0; (at = text.find("%f", at)) != std::string::npos;)
      text.replace(at, 2, "%r1");
    expectRight(text);
    for (size_t i = 512; i < 640; ++i)
      words[i] = std::bit_cast<uint32_t>(float(int(words[i])));
    expectProduct(words, k);
  }
}

TEST_F(Multiply, UndefinedOperandsMakeUndefinedRows) {
  const std::string mma =
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, "
      "%f7}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};";
  const std::string all = "mov.u32 %r0, 0; mov.u32 %r2, 0; mov.u32 %r4, 0;"
                          "mov.u32 %r5, 0; mov.u32 %r3, 0; mov.f32 %f0, "
                          "0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0;"
                          "mov.f32 %f3, %f0;";
  // %r1 has rows 8 on: %f4 is of rows before, %f6 is not.
  expectRight(all + mma + "setp.gt.f32 %p1, %f4, %f0; @%p1 ret;");
  expectFinding(all + mma + "setp.gt.f32 %p1, %f6, %f0; @%p1 ret;", "undefined",
                "the guard");
}

TEST_F(Multiply, LoadsAndStoresOfMatrices) {
  for (uint32_t i = 0; i < words.size(); ++i)
    words[i] = i * 0x00020002 + 0x00010000; // halves 2 i and 2 i + 1
  const std::string fill =
      "mov.u32 %r21, memory; shl.b32 %r20, %tid, 4; add.s32 %r20, %r20, %r21;"
      "mul.wide.u32 %d0, %tid, 16; add.s64 %d0, %d0, %base;"
      "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0];"
      "st.shared.v4.u32 [%r20], {%r0, %r1, %r2, %r3}; bar.warp.sync -1;";
  const std::string give = "add.s64 %d0, %d0, 2048;"
                           "st.global.v4.u32 [%d0], {%r4, %r5, %r6, %r7};";
  expectRight(fill +
              "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, "
              "%r7}, [%r20];" +
              give);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t matrix = 0; matrix < 4; ++matrix)
      EXPECT_EQ(words[512 + lane * 4 + matrix],
                words[(matrix * 8 + lane / 4) * 4 + lane % 4]);
  expectRight(fill +
              "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r4, "
              "%r5, %r6, %r7}, [%r20];" +
              give);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      // Half (row, column) of matrix m is 64 m + 8 row + column.
      const uint32_t low = matrix * 64 + lane % 4 * 16 + lane / 4;
      EXPECT_EQ(words[512 + lane * 4 + matrix], low | (low + 8) << 16);
    }
  // Fewer matrices: the addresses of the first lanes count.
  expectRight(fill +
              "mov.u32 %r4, 0; mov.u32 %r7, 0;"
              "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r20];"
              "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r6, %r7}, "
              "[%r20];" +
              give);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(words[512 + lane * 4 + 1], words[lane / 4 * 4 + lane % 4]);
    for (uint32_t matrix = 0; matrix < 2; ++matrix) {
      const uint32_t low = matrix * 64 + lane % 4 * 16 + lane / 4;
      EXPECT_EQ(words[512 + lane * 4 + 2 + matrix], low | (low + 8) << 16);
    }
  }
  // The bytes come back as they were.
  expectRight(fill +
              "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r4, %r5, %r6, "
              "%r7}, [%r20]; bar.warp.sync -1;"
              "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r20+1024], "
              "{%r4, %r5, %r6, %r7}; bar.warp.sync -1;"
              "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r20+1024];" +
              give);
  for (uint32_t i = 0; i < 128; ++i)
    EXPECT_EQ(words[512 + i], words[i]);
}

TEST_F(Multiply, WarpgroupReadsSwizzledRows) {
  // A of 64 and B of 8 rows of 64 elements, of which the first 16 count, with
  // the swizzle of 128 bytes, in shared memory from 1024 on.
  threads = 128;
  shared = 20480;
  words.assign(4096, 0);
  auto place = [&](int row, int column) {
    const int byte = row * 128 + column * 2;
    const int chunk = byte / 16 % 8 ^ row % 8;
    return size_t(byte / 128 * 64 + chunk * 8 + byte % 16 / 2);
  };
  auto *halves = reinterpret_cast<uint16_t *>(words.data());
  for (int row = 0; row < 72; ++row)
    for (int column = 0; column < 16; ++column)
      halves[place(row, column)] = encodeBfloat(
          float(row < 64 ? entry(1, row, column) : entry(2, row - 64, column)));
  // 72 rows of 128 bytes, 16 bytes a thread and turn.
  std::string body = "mov.u32 %r20, memory; add.s32 %r20, %r20, 1023;"
                     "and.b32 %r20, %r20, 0xFFFFFC00; shl.b32 %r21, %tid, 4;"
                     "add.s32 %r22, %r20, %r21; cvt.u64.u32 %d0, %r21;"
                     "add.s64 %d0, %d0, %base;";
  for (int turn = 0; turn < 5; ++turn) {
    const std::string at = std::to_string(turn * 2048);
    body += (turn == 4 ? "setp.lt.u32 %p1, %tid, 64; @!%p1 bra filled;" : "") +
            std::string("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0+") + at +
            "]; st.shared.v4.u32 [%r22+" + at + "], {%r0, %r1, %r2, %r3};";
  }
  const std::string fence = "filled: fence.proxy.async.shared::cta;";
  const std::string rest =
      "bar.sync 0; shr.u32 %r20, %r20, 4; cvt.u64.u32 %d1, %r20;"
      // Stride of 8 rows 1024, swizzle of 128 bytes.
      "or.b64 %d1, %d1, 0x4000004000010000; add.s64 %d2, %d1, 512;"
      "setp.ne.u32 %p2, %tid, %tid; wgmma.fence.sync.aligned;"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, "
      "%f3}, %d1, %d2, %p2, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;";
  const std::string give =
      "mul.wide.u32 %d0, %tid, 16; add.s64 %d0, %d0, %base;"
      "st.global.v4.f32 [%d0+12288], {%f0, %f1, %f2, %f3};";
  const std::string wait = "wgmma.wait_group.sync.aligned 0;";
  expectRight(body + fence + rest + wait + give);
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < 8; ++column) {
      int expected = 0;
      for (int i = 0; i < 16; ++i)
        expected += entry(1, row, i) * entry(2, column, i);
      const int thread = row / 16 * 32 + row % 8 * 4 + column / 2;
      EXPECT_EQ(
          std::bit_cast<float>(
              words[size_t(3072 + thread * 4 + row % 16 / 8 * 2 + column % 2)]),
          float(expected))
          << row << ", " << column;
    }
  expectFinding(body + "filled:" + rest + wait + give, "proxy",
                "without a fence.proxy.async");
  // Sums are undefined until they are awaited.
  expectFinding(body + fence + rest +
                    "setp.gt.f32 %p3, %f0, 0f00000000;"
                    "@%p3 ret;" +
                    wait,
                "undefined", "the guard");
  expectFinding(body + fence + rest, "async",
                "the warp ended before this multiply was awaited");
}
