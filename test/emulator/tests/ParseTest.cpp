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

/// Null, or why the emulator does not take an instruction.
static std::string faultOf(const std::string &instruction) {
  try {
    parsePtx(R"(.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 128 .b8 memory[];
.visible .entry k(.param .align 64 .b8 k_param_0[4096])
{
.reg .pred %p<4>; .reg .b16 %rs<8>; .reg .b32 %r<40>; .reg .b64 %rd<8>;
.reg .f32 %f<40>;
)" + instruction +
             ";\nret;\n}\n");
  } catch (const PtxError &error) {
    return error.what();
  }
  return "";
}

TEST_F(Parse, TakesFormsOfTensorMemory) {
  for (const std::string group : {"cta_group::1", "cta_group::2"}) {
    std::vector<std::string> forms = {
        "tcgen05.alloc.GROUP.sync.aligned.shared::cta.b32 [%r1], %r2",
        "tcgen05.dealloc.GROUP.sync.aligned.b32 %r1, 64",
        "tcgen05.relinquish_alloc_permit.GROUP.sync.aligned",
        "tcgen05.commit.GROUP.mbarrier::arrive::one.b64 [%r1]",
        "tcgen05.commit.GROUP.mbarrier::arrive::one.shared::cluster."
        "multicast::cluster.b64 [%r1], %rs1",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
        "complete_tx::bytes.GROUP [%r1], [%rd1, {%r2, %r3}], [%r4]",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4."
        "mbarrier::complete_tx::bytes.GROUP [%r1], [%rd1, {%r2, %r3, %r4, %r5, "
        "%r6}], [%r7]",
    };
    forms.push_back("cp.async.bulk.tensor.2d.GROUP.shared::cluster.global."
                    "mbarrier::complete_tx::bytes.multicast::cluster "
                    "[%r1], [%rd1, {%r2, %r3}], [%r4], %rs1");
    for (const char *kind : {"f16", "tf32", "f8f6f4", "i8"})
      for (const char *a : {"%rd1", "[%r2]"})
        forms.push_back(std::string("tcgen05.mma.GROUP.kind::") + kind +
                        " [%r1], " + a + ", %rd2, %r3, %p1");
    for (const char *kind :
         {"mxf8f6f4.block_scale", "mxf8f6f4.block_scale.block32",
          "mxf8f6f4.block_scale.scale_vec::1X", "mxf4.block_scale",
          "mxf4.block_scale.block32", "mxf4.block_scale.scale_vec::2X",
          "mxf4nvf4.block_scale.block16", "mxf4nvf4.block_scale.block32",
          "mxf4nvf4.block_scale.scale_vec::2X",
          "mxf4nvf4.block_scale.scale_vec::4X"})
      forms.push_back(std::string("tcgen05.mma.GROUP.kind::") + kind +
                      " [%r1], %rd1, %rd2, %r3, [%r4], [%r5], %p1");
    for (const char *shape :
         {"128x256b", "128x128b", "4x256b", "64x128b.warpx2::02_13",
          "64x128b.warpx2::01_23", "32x128b.warpx4"})
      for (const char *format : {"", ".b8x16.b4x16_p64", ".b8x16.b6x16_p32"})
        forms.push_back(std::string("tcgen05.cp.GROUP.") + shape + format +
                        " [%r1], %rd1");
    for (std::string form : forms) {
      form.replace(form.find("GROUP"), 5, group);
      EXPECT_EQ(faultOf(form), "") << form;
    }
  }
  for (const char *form :
       {"tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3]",
        "tcgen05.ld.sync.aligned.16x64b.x1.pack::16b.b32 {%r1}, [%r3]",
        "tcgen05.ld.sync.aligned.16x128b.x1.b32 {%r1, %r2}, [%r3]",
        "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2, %r3, %r4}, [%r5]",
        "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r3], 16",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r3], {%r1, %r2}",
        "tcgen05.st.sync.aligned.16x256b.x1.b32 [%r5], {%r1, %r2, %r3, %r4}",
        "tcgen05.wait::ld.sync.aligned", "tcgen05.wait::st.sync.aligned",
        "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync",
        "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%r1, %r2, %r3, "
        "%r4}, [%r5]",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r1}, [%r5]",
        "setmaxnreg.inc.sync.aligned.u32 216"})
    EXPECT_EQ(faultOf(form), "") << form;
}

TEST_F(Parse, TakesScaledFormsOfMmaSync) {
  const std::string
      operands =
          " {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, "
          "%f2, %f3}",
      scales = ", {%r6}, {%rs0, %rs1}, {%r7}, {%rs2, %rs3}";
  for (const char *form :
       {"m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1."
        "e2m1.f32.ue4m3",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1."
        "e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1."
        "f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"})
    EXPECT_EQ(
        faultOf(std::string("mma.sync.aligned.") + form + operands + scales),
        "")
        << form;
  for (const std::string a : {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"})
    for (const std::string b : {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"}) {
      const std::string types = "f32." + a + "." + b + ".f32",
                        shape = "mma.sync.aligned.m16n8k32.row.col.kind::";
      EXPECT_EQ(faultOf(shape + "f8f6f4." + types + operands), "") << types;
      for (const char *scale : {"", "scale_vec::1X."})
        EXPECT_EQ(faultOf(shape + "mxf8f6f4.block_scale." + scale + types +
                          ".ue8m0" + operands + scales),
                  "")
            << types;
    }
}

TEST_F(Parse, NamesFormsOfTensorMemoryThatAreNotCovered) {
  for (const char *form :
       {"tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %p1",
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r2], %r3, "
        "%p1",
        "tcgen05.shift.cta_group::1.down [%r1]",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r1, %r2}, %r4, [%r3]",
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_"
        "tx::bytes.b128 [%r1], [%r2]",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3]"}) {
    const std::string name(form, std::string_view(form).find(' '));
    EXPECT_THAT(faultOf(form), HasSubstr("'" + name + "' is not covered"));
  }
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
