//===- ParseTest.cpp - tests of what is refused ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nothing of a name or an operand is ignored, and the sentence names kernel
// and line.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/RunPtx.h"

#include <cstdlib>
#include <fstream>

using namespace moec::emulator;
using testing::HasSubstr;

using Parse = PtxTest;

TEST_F(Parse, NamesKernelAndLine) {
  EXPECT_EQ(refusal("frobnicate.u32 %r0, %r1;"),
            "kernel k, line 18: instruction 'frobnicate.u32' is not covered");
}

TEST_F(Parse, TakesWhatKernelsHave) {
  std::ifstream list(std::string(std::getenv("MOEC_SOURCE_DIR")) +
                     "/test/golden/instructions.txt");
  size_t count = 0;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    ++count;
    try {
      parsePtx(R"(.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 memory[];
.visible .entry k(.param .align 64 .b8 k_param_0[4096])
{
.reg .pred %p<2>; .reg .b16 %rs<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
.reg .f32 %f<2>; .reg .f64 %fd<2>;
)" + line + ";\ndone: ret;\n}\n");
    } catch (const PtxError &error) {
      ADD_FAILURE() << line << ": " << error.what();
    }
  }
  EXPECT_GT(count, 400u);
}

TEST_F(Parse, RefusesModifiersThatNoRowHas) {
  for (const char *body :
       {"add.rq.f32 %f0, %f1, %f2;", "add.f32.rn %f0, %f1, %f2;",
        "ld.global.nc.weird.u32 %r0, [%base];",
        "atom.global.frob.u32 %r0, "
        "[%base], %r1;",
        "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32 {%f0, %f1, %f2, "
        "%f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};",
        "bar.sync.unaligned 0;", "shfl.sync.rotate.b32 %r0, %r1, 1, 31, -1;"})
    EXPECT_THAT(refusal(body), HasSubstr("is not covered")) << body;
}

TEST_F(Parse, RefusesOperandsOfAnotherSizeOrNumber) {
  EXPECT_THAT(refusal("add.s32 %r0, %r1, %d0;"),
              HasSubstr("%d0 has 8 bytes, 4 are taken"));
  EXPECT_THAT(refusal("add.s32 %r0, %r1;"), HasSubstr("are not covered"));
  EXPECT_THAT(refusal("add.s32 %r0, %r1, %unknown;"),
              HasSubstr("special register %unknown is not covered"));
  EXPECT_THAT(refusal("mov.u32 %tid.x, 1;"), HasSubstr("cannot be written"));
  EXPECT_THAT(refusal("bra nowhere;"), HasSubstr("no label nowhere"));
}

TEST_F(Parse, RefusesWhatWgmmaDoesNotCompute) {
  const std::string mma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                          "{%f0, %f1, %f2, %f3}, %d0, %d1, %p0, ";
  EXPECT_EQ(refusal("setp.eq.u32 %p0, %tid, %tid; mov.u64 %d0, 0;"
                    "mov.u64 %d1, 0; @%p1 " +
                    mma + "1, 1, 0, 0;"),
            "taken");
  EXPECT_THAT(refusal(mma + "1, 1, 1, 0;"), HasSubstr("are not covered"));
  EXPECT_THAT(refusal(mma + "-1, 1, 0, 0;"), HasSubstr("are not covered"));
}

TEST_F(Parse, KeepsScopesOfInlineAssembly) {
  expectRight("mov.u32 %r0, 1; { .reg .b32 %r0; mov.u32 %r0, 5; bra done; "
              "done: }\n st.global.u32 [%mine], %r0;");
  EXPECT_EQ(words[0], 1u);
}
