//===- ArithmeticTest.cpp - tests of what lanes compute -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One instruction each, with the value that the manual gives.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/Numbers.h"
#include "test/emulator/tests/RunPtx.h"

#include <cmath>

using namespace moec::emulator;

namespace {
struct Case {
  const char *name, *body; ///< the result is in %r0
  uint32_t expected;
};

class Arithmetic : public PtxTest, public testing::WithParamInterface<Case> {};
} // namespace

TEST_P(Arithmetic, HasTheManualsValue) {
  expectRight(std::string(GetParam().body) + "\nst.global.u32 [%mine], %r0;");
  EXPECT_EQ(words[0], GetParam().expected) << GetParam().body;
  EXPECT_EQ(words[31], GetParam().expected) << GetParam().body;
}

#define F(value) std::bit_cast<uint32_t>(float(value))

static const Case kCases[] = {
    {"AddWraps", "mov.u32 %r1, -1; add.s32 %r0, %r1, 3;", 2},
    {"AddSat", "mov.u32 %r1, 0x7FFFFFFF; add.sat.s32 %r0, %r1, 3;", 0x7FFFFFFF},
    {"MulHiU16",
     "mov.u16 %h1, 0x8001; mul.hi.u16 %h2, %h1, 0x8002; cvt.u32.u16 %r0, %h2;",
     0x4001},
    {"MulHiS16",
     "mov.u16 %h1, -2; mul.hi.s16 %h2, %h1, 0x4000; cvt.u32.u16 %r0, %h2;",
     0xFFFF},
    {"MulHiU32", "mov.u32 %r1, -1; mul.hi.u32 %r0, %r1, 16;", 15},
    {"MadHi", "mov.u32 %r1, -1; mad.hi.u32 %r0, %r1, 16, 5;", 20},
    {"MulWide",
     "mov.u32 %r1, -3; mul.wide.s32 %d1, %r1, 5; cvt.u32.u64 %r0, %d1;",
     uint32_t(-15)},
    {"DivByZero", "mov.u32 %r1, 7; mov.u32 %r2, 0; div.u32 %r0, %r1, %r2;",
     0xFFFFFFFF},
    {"RemSigned", "mov.u32 %r1, -7; rem.s32 %r0, %r1, 4;", uint32_t(-3)},
    {"Dp4a", "mov.u32 %r1, 0xFF020304; dp4a.s32.s32 %r0, %r1, 0x01010101, 10;",
     18},
    {"BfindSigned", "mov.u32 %r1, -5; bfind.s32 %r0, %r1;", 2},
    {"BfindShift", "mov.u32 %r1, 0x100; bfind.shiftamt.u32 %r0, %r1;", 23},
    {"BfeSigned", "mov.u32 %r1, 0xF0; bfe.s32 %r0, %r1, 4, 4;", 0xFFFFFFFF},
    {"BfeBeyond", "mov.u32 %r1, 0x80000000; bfe.s32 %r0, %r1, 28, 8;",
     0xFFFFFFF8},
    {"Bfi", "mov.u32 %r1, 0xAB; bfi.b32 %r0, %r1, 0, 8, 8;", 0xAB00},
    {"PrmtSign", "mov.u32 %r1, 0x80; prmt.b32 %r0, %r1, 0, 0x0008;",
     0x808080FF},
    {"Lop3", "mov.u32 %r1, 12; lop3.b32 %r0, %r1, 10, 3, 0xEA;", 11},
    {"ShiftOut", "mov.u32 %r1, -1; mov.u32 %r2, 32; shr.u32 %r0, %r1, %r2;", 0},
    {"ShiftSign", "mov.u32 %r1, -8; mov.u32 %r2, 99; shr.s32 %r0, %r1, %r2;",
     0xFFFFFFFF},
    {"FunnelLeft", "mov.u32 %r1, 0x80000000; shf.l.wrap.b32 %r0, %r1, 1, 1;",
     3},
    {"AddToZero",
     "mov.f32 %f1, 0f3F800000; add.rz.f32 %f2, %f1, 0f33FFFFFF;"
     "mov.b32 %r0, %f2;",
     F(1)},
    {"FmaDown",
     "mov.f32 %f1, 0f3F800001; fma.rm.f32 %f2, %f1, %f1, 0f00000000;"
     "mov.b32 %r0, %f2;",
     0x3F800002},
    {"FmaUp",
     "mov.f32 %f1, 0f3F800001; fma.rp.f32 %f2, %f1, %f1, 0f00000000;"
     "mov.b32 %r0, %f2;",
     0x3F800003},
    {"AddSaturated",
     "mov.f32 %f1, 0f40000000; add.sat.f32 %f2, %f1, %f1; mov.b32 %r0, %f2;",
     F(1)},
    {"MaxNan",
     "mov.f32 %f1, 0f7FC00000; max.NaN.f32 %f2, %f1, 0f3F800000;"
     "mov.b32 %r0, %f2;",
     0x7FFFFFFF},
    {"MaxNumber",
     "mov.f32 %f1, 0f7FC00000; max.f32 %f2, %f1, 0f3F800000;"
     "mov.b32 %r0, %f2;",
     F(1)},
    {"Ex2Flushes",
     "mov.f32 %f1, 0fC3020000; ex2.approx.ftz.f32 %f2, %f1; mov.b32 %r0, %f2;",
     0},
    {"CvtRmi", "mov.f32 %f1, 0fBFC00000; cvt.rmi.s32.f32 %r0, %f1;",
     uint32_t(-2)},
    {"CvtRpiFloat",
     "mov.f32 %f1, 0f3FA00000; cvt.rpi.f32.f32 %f2, %f1; mov.b32 %r0, %f2;",
     F(2)},
    {"CvtRniEven", "mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r0, %f1;", 2},
    {"CvtSaturates", "mov.f32 %f1, 0f7F000000; cvt.rzi.s32.f32 %r0, %f1;",
     0x7FFFFFFF},
    {"CvtSatInteger", "mov.u32 %r1, 300; cvt.sat.u8.s32 %r0, %r1;", 255},
    {"CvtSignExtends",
     "mov.u16 %h1, 0x80; cvt.s16.s8 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0xFF80},
    {"CvtHalfPair",
     "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;"
     "cvt.rn.f16x2.f32 %r0, %f1, %f2;",
     0x3C004000},
    {"CvtBfloatTies",
     "mov.f32 %f1, 0f3F808000; mov.f32 %f2, 0f3F818000;"
     "cvt.rn.bf16x2.f32 %r0, %f1, %f2;",
     0x3F803F82},
    {"CvtE4M3",
     "mov.f32 %f1, 0f44000000; mov.f32 %f2, 0f3F880000;"
     "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r0, %h1;",
     0x7E38},
    {"CvtFromE4M3", "mov.u16 %h1, 0x7E38; cvt.rn.f16x2.e4m3x2 %r0, %h1;",
     0x5F003C00},
    {"FmaHalves", "mov.u32 %r1, 0x3C003C00; fma.rn.f16x2 %r0, %r1, %r1, %r1;",
     0x40004000},
    {"MulBfloats", "mov.u32 %r1, 0x3FC03F80; mul.rn.bf16x2 %r0, %r1, %r1;",
     0x40103F80},
    {"SelectAnd",
     "mov.u32 %r1, 3; setp.lt.s32 %p1, %r1, 4;"
     "setp.gt.and.s32 %p2, %r1, 5, %p1; selp.b32 %r0, 1, 2, %p2;",
     2},
    {"EqualUnordered",
     "mov.f32 %f1, 0f7FC00000; setp.equ.f32 %p1, %f1, %f1;"
     "selp.b32 %r0, 1, 2, %p1;",
     1},
    {"NotEqualOrdered",
     "mov.f32 %f1, 0f7FC00000; setp.ne.f32 %p1, %f1, %f1;"
     "selp.b32 %r0, 1, 2, %p1;",
     2},
    {"FmaTwice",
     "mov.b64 %d1, 0x4000000040400000; mov.b64 %d2, 0x3F800000BF800000;"
     "fma.rn.f32x2 %d3, %d1, %d1, %d2; mul.rn.f32x2 %d3, %d3, %d2;"
     "sub.rn.f32x2 %d3, %d3, %d1; mov.b64 {%f1, %f2}, %d3;"
     // 3 * 3 - 1, negated, less 3; 2 * 2 + 1, less 2.
     "mul.f32 %f1, %f1, %f2; mov.b32 %r0, %f1;",
     F(-33)},
    {"ReduxXor", "redux.sync.xor.b32 %r0, %tid, -1;", 0},
    {"Unpack",
     "mov.u32 %r1, 0x12345678; mov.b32 {_, %h1}, %r1;"
     "cvt.u32.u16 %r0, %h1;",
     0x1234},
};

INSTANTIATE_TEST_SUITE_P(Rows, Arithmetic, testing::ValuesIn(kCases),
                         [](const auto &one) {
                           return std::string(one.param.name);
                         });

TEST(Numbers, EverySmallCodeComesBack) {
  for (const SmallFormat &format : {kE4M3, kE5M2, kE2M1, kE2M3, kE3M2}) {
    const SmallTable &values = valuesOf(format);
    const int codes = 2 << (format.exponentBits + format.mantissaBits);
    for (int code = 0; code < codes; ++code)
      if (std::isfinite(values[size_t(code)])) {
        EXPECT_EQ(encodeSmall(values[size_t(code)], format), code);
      }
  }
}

TEST(Numbers, EveryHalfComesBack) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits)
    if (!std::isnan(decodeHalf(uint16_t(bits)))) {
      ASSERT_EQ(encodeHalf(decodeHalf(uint16_t(bits))), bits);
    }
  // A tie to even, and what rounds to infinity.
  EXPECT_EQ(encodeHalf(2049), encodeHalf(2048));
  EXPECT_EQ(encodeHalf(65519.99f), 0x7BFF);
  EXPECT_EQ(encodeHalf(65520), 0x7C00);
}
