//===- ScaledMultiplyTest.cpp - tests of mma.sync with scales -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync of sm_120: types of 4, 6 and 8 bits, scales of blocks, and ldmatrix
// that unpacks. Fragments are laid out here by plain enumeration.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/TensorProduct.h"

using namespace moec::emulator;

namespace {
class ScaledMultiply : public PtxTest {
protected:
  ScaledMultiply() { target = "sm_120a"; }

  struct Case {
    const char *kind; ///< and the words after it
    const char *scale;
    TensorType a, b;
    unsigned depth, block;
    unsigned byteA, threadA, byteB, threadB;
  };

  /// Words of a lane: 0-3 A, 4-5 B, 6 and 7 scales; D is at word 512 on.
  static constexpr unsigned kWords = 8;

  /// Puts an element: rows of 32 bytes; a quad of lanes has a row, 4 bytes a
  /// lane and register.
  void put(const TensorType &type, bool isDense, unsigned firstWord,
           unsigned step, unsigned row, unsigned k, int value) {
    const unsigned perByte = isDense ? 2 : 1;
    const unsigned byte = k / perByte;
    const unsigned lane = row % 8 * 4 + byte % 16 / 4;
    const unsigned reg = row / 8 + byte / 16 * step;
    uint32_t code = type.encode(value);
    // Codes of 4 bits are in the middle of a byte, or two share a byte.
    if (type.bits == 4)
      code <<= isDense ? k % 2 * 4 : 2;
    words[lane * kWords + firstWord + reg] |= code << byte % 4 * 8;
  }
  static uint8_t scaleCode(const Case &one, unsigned seed, unsigned row,
                           unsigned part) {
    static constexpr uint8_t kCodes[] = {0x38, 0x3C, 0x40, 0x30};
    const unsigned step = (seed + row * 3 + part * 5) % 4;
    return one.block == 16 ? kCodes[step] : uint8_t(126 + step);
  }
  static double scaleOf(const Case &one, unsigned seed, unsigned row,
                        unsigned part) {
    static constexpr double kValues[] = {1, 1.5, 2, 0.5};
    const unsigned step = (seed + row * 3 + part * 5) % 4;
    return one.block == 16 ? kValues[step] : std::ldexp(1.0, int(step) - 1);
  }

  void layOut(const Case &one) {
    words.assign(1024, 0);
    const bool isDense = one.depth == 64;
    for (unsigned k = 0; k < one.depth; ++k) {
      for (unsigned row = 0; row < 16; ++row)
        put(one.a, isDense, 0, 2, row, k, tensorEntry(1, row, k));
      for (unsigned column = 0; column < 8; ++column)
        put(one.b, isDense, 4, 1, column, k, tensorEntry(2, column, k));
    }
    if (!one.block)
      return;
    // Lanes and bytes that must not be read hold other scales.
    for (unsigned lane = 0; lane < 32; ++lane)
      words[lane * kWords + 6] = words[lane * kWords + 7] = 0x10101010;
    auto putScales = [&](unsigned word, unsigned lane, unsigned byte,
                         unsigned seed, unsigned row) {
      for (unsigned part = 0; part < one.depth / one.block; ++part) {
        uint32_t &to = words[lane * kWords + word];
        const unsigned shift = (byte + part) * 8;
        to &= ~(255u << shift);
        to |= uint32_t(scaleCode(one, seed, row, part)) << shift;
      }
    };
    // Lanes 2 s and 2 s + 1 of the quad of a row have it and the row 8 below.
    for (unsigned quad = 0; quad < 8; ++quad) {
      putScales(6, quad * 4 + one.threadA * 2, one.byteA, 1, quad);
      putScales(6, quad * 4 + one.threadA * 2 + 1, one.byteA, 1, quad + 8);
      putScales(7, quad * 4 + one.threadB, one.byteB, 2, quad);
    }
  }

  static std::string multiply(const Case &one) {
    const std::string shape = one.depth == 64 ? "m16n8k64" : "m16n8k32";
    std::string text = fmt::format(
        "mul.lo.s32 %r20, %tid, 32; cvt.u64.u32 %d0, %r20;"
        "add.s64 %d0, %d0, %base;"
        "ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d0];"
        "ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d0+16];"
        "cvt.rn.f32.u32 %f0, %tid; mov.f32 %f1, %f0; mov.f32 %f2, %f0;"
        "mov.f32 %f3, %f0;"
        "mma.sync.aligned.{}.row.col.kind::{}.f32.{}.{}.f32{} {{%f4, %f5, %f6, "
        "%f7}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}",
        shape, one.kind, one.a.name, one.b.name, one.scale);
    if (one.block)
      text += fmt::format(", {{%r6}}, {{{}, {}}}, {{%r7}}, {{{}, {}}}",
                          one.byteA, one.threadA, one.byteB, one.threadB);
    return text + "; mul.wide.u32 %d0, %tid, 16; add.s64 %d0, %d0, %base;"
                  "st.global.v4.f32 [%d0+2048], {%f4, %f5, %f6, %f7};";
  }

  void expectProduct(const Case &one) {
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned column = 0; column < 8; ++column) {
        const unsigned lane = row % 8 * 4 + column / 2;
        double expected = lane;
        for (unsigned k = 0; k < one.depth; ++k)
          expected += tensorEntry(1, row, k) * tensorEntry(2, column, k) *
                      (one.block ? scaleOf(one, 1, row, k / one.block) *
                                       scaleOf(one, 2, column, k / one.block)
                                 : 1.0);
        ASSERT_EQ(std::bit_cast<float>(
                      words[512 + lane * 4 + row / 8 * 2 + column % 2]),
                  float(expected))
            << one.kind << " " << one.a.name << " " << one.b.name << ", bytes "
            << one.byteA << " " << one.byteB << ", threads " << one.threadA
            << " " << one.threadB << ", row " << row << ", column " << column;
      }
  }
};
} // namespace

TEST_F(ScaledMultiply, TypesWithoutScales) {
  const TensorType types[] = {kFp8, kFp8Wide, kFp6, kFp6Wide, kFp4};
  for (const TensorType &a : types)
    for (const TensorType &b : types) {
      const Case one = {"f8f6f4", "", a, b, 32, 0, 0, 0, 0, 0};
      layOut(one);
      expectRight(multiply(one));
      expectProduct(one);
    }
}

TEST_F(ScaledMultiply, KindsBytesAndThreads) {
  std::vector<Case> cases;
  for (unsigned threadA = 0; threadA < 2; ++threadA)
    for (unsigned threadB = 0; threadB < 4; ++threadB) {
      const TensorType &b = threadA ? kFp8Wide : kFp4;
      for (unsigned byte = 0; byte < 4; ++byte)
        cases.push_back({"mxf8f6f4.block_scale.scale_vec::1X", ".ue8m0",
                         threadB % 2 ? kFp6 : kFp8, b, 32, 32, byte, threadA,
                         3 - byte, threadB});
      for (unsigned byte = 0; byte < 4; byte += 2) {
        cases.push_back({"mxf4.block_scale", ".ue8m0", kFp4, kFp4, 64, 32, byte,
                         threadA, 2 - byte, threadB});
        cases.push_back({"mxf4nvf4.block_scale.scale_vec::2X", ".ue8m0", kFp4,
                         kFp4, 64, 32, byte, threadA, byte, threadB});
      }
      cases.push_back({"mxf4nvf4.block_scale.scale_vec::4X", ".ue4m3", kFp4,
                       kFp4, 64, 16, 0, threadA, 0, threadB});
    }
  for (const Case &one : cases) {
    layOut(one);
    settings.timing = Timing::AtOnce;
    ASSERT_TRUE(run(multiply(one))) << findings();
    expectProduct(one);
  }
  // The assembler takes one of each kind.
  for (const size_t i : {0, 4, 5, 8})
    expectAssembles(multiply(cases[i]));
}

TEST_F(ScaledMultiply, SelectorsThatDoNotExist) {
  Case one = {"mxf4.block_scale", ".ue8m0", kFp4, kFp4, 64, 32, 1, 0, 0, 0};
  layOut(one);
  expectFinding(multiply(one), "mma", "scales of byte 1 and thread 0");
  one.byteA = 0;
  one.threadA = 2;
  expectFinding(multiply(one), "mma", "and at most 1");
  one.threadA = 0;
  one.threadB = 4;
  expectFinding(multiply(one), "mma", "and at most 3");
  EXPECT_THAT(refusal("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4."
                      "block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0 {%f4, "
                      "%f5, %f6, %f7}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, "
                      "%f1, %f2, %f3}, {%r6}, {0, 0}, {%r7}, {0, 0};"),
              testing::HasSubstr("is not covered"));
}

TEST_F(ScaledMultiply, ScalesThatNothingWrote) {
  const Case one = {
      "mxf4.block_scale", ".ue8m0", kFp4, kFp4, 64, 32, 0, 0, 0, 0};
  layOut(one);
  std::string body = multiply(one);
  // Only lanes 0 and 1 of each quad have scales of A.
  const std::string guard =
      "and.b32 %r21, %tid, 3; setp.lt.u32 %p1, %r21, {}; mov.b32 %r22, %r6;"
      "@%p1 mov.b32 %r23, %r22;";
  body.replace(body.find("{%r6}"), 5, "{%r23}");
  const size_t at = body.find("mma.sync");
  const std::string use = "setp.gt.f32 %p2, %f6, %f0; @%p2 ret;";
  auto with = [&](const char *lanes) {
    std::string text = body;
    std::string fill = guard;
    fill.replace(fill.find("{}"), 2, lanes);
    return text.insert(at, fill) + use;
  };
  expectRight(with("2"));
  expectFinding(with("1"), "undefined", "the guard");
}

TEST_F(ScaledMultiply, MatricesOfFourAndSixBits) {
  for (const unsigned width : {4u, 6u}) {
    words.assign(1024, 0);
    auto *bytes = reinterpret_cast<uint8_t *>(words.data());
    auto codeOf = [&](unsigned row, unsigned i) {
      return (row * 7 + i * 3 + 1) % (1u << width);
    };
    for (unsigned row = 0; row < 32; ++row)
      for (unsigned i = 0; i < 16; ++i)
        for (unsigned bit = 0; bit < width; ++bit) {
          const unsigned place = i * width + bit;
          if (codeOf(row, i) >> bit & 1)
            bytes[row * 16 + place / 8] |= uint8_t(1 << place % 8);
        }
    // The gap of each row is never written.
    const std::string store = width == 4
                                  ? "st.shared.v2.u32 [%r20], {%r0, %r1};"
                                  : "st.shared.v2.u32 [%r20], {%r0, %r1};"
                                    "st.shared.u32 [%r20+8], %r2;";
    const std::string name =
        width == 4 ? ".b8x16.b4x16_p64" : ".b8x16.b6x16_p32";
    expectRight(
        "mov.u32 %r21, memory; shl.b32 %r20, %tid, 4; add.s32 %r20, %r20, "
        "%r21; mul.wide.u32 %d0, %tid, 16; add.s64 %d0, %d0, %base;"
        "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0];" +
        store +
        "bar.warp.sync -1;"
        "ldmatrix.sync.aligned.m8n16.x4.shared" +
        name +
        " {%r4, %r5, %r6, %r7}, [%r20]; setp.eq.u32 %p1, %r4, %r5;"
        "@%p1 bra next; next: st.global.v4.u32 [%d0+2048], {%r4, %r5, %r6, "
        "%r7};");
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned matrix = 0; matrix < 4; ++matrix)
        for (unsigned i = 0; i < 4; ++i)
          ASSERT_EQ(words[512 + lane * 4 + matrix] >> i * 8 & 255,
                    codeOf(matrix * 8 + lane / 4, lane % 4 * 4 + i))
              << width << ", lane " << lane << ", matrix " << matrix;
  }
}
