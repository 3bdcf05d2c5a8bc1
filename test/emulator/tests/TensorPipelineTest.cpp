//===- TensorPipelineTest.cpp - a whole matmul by tcgen05 -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product of nvfp4 as an engine computes it: a thread copies tiles and scales
// to a ring of two stages, a thread multiplies, all warps store. Each fault in
// it must be seen in each timing.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/tests/TensorProduct.h"

using namespace moec::emulator;

namespace {
class TensorPipeline : public PtxTest {
protected:
  static constexpr unsigned kSteps = 3, kRows = 128, kColumns = 16,
                            kRowBytes = kSteps * 128, kDepth = kRowBytes * 2;
  /// Bytes of a stage: A, B, scales of A and of B.
  static constexpr unsigned kA = kRows * 128, kB = kColumns * 128,
                            kScales = 4 * 512, kStage = kA + kB + 2 * kScales;
  /// Words of the arguments, from `origin` on.
  static constexpr unsigned kMapA = 0, kMapB = 32, kDataA = 64,
                            kDataB = kDataA + kRows * kRowBytes / 4,
                            kScalesA = kDataB + kColumns * kRowBytes / 4,
                            kScalesB = kScalesA + kSteps * kScales / 4,
                            kResult = kScalesB + kSteps * kScales / 4;

  TensorPipeline() {
    target = "sm_100a";
    threads = 128;
    shared = 2 * kStage + 2048;
    words.assign(kResult + kRows * kColumns + 16, 0);
    while (reinterpret_cast<uint64_t>(&words[origin]) % 64)
      ++origin;
    auto *bytes = reinterpret_cast<uint8_t *>(&words[origin]);
    for (unsigned k = 0; k < kDepth; ++k) {
      for (unsigned row = 0; row < kRows; ++row)
        bytes[kDataA * 4 + row * kRowBytes + k / 2] |=
            uint8_t(kFp4.encode(tensorEntry(1, row, k)) << k % 2 * 4);
      for (unsigned column = 0; column < kColumns; ++column)
        bytes[kDataB * 4 + column * kRowBytes + k / 2] |=
            uint8_t(kFp4.encode(tensorEntry(2, column, k)) << k % 2 * 4);
      // Atoms of 128 rows and 4 scales.
      const unsigned part = k / 16;
      for (unsigned row = 0; row < kRows; ++row)
        bytes[kScalesA * 4 + part / 4 * 512 + row % 32 * 16 + row / 32 * 4 +
              part % 4] = kCodes[(row + part) % 3];
      for (unsigned column = 0; column < kColumns; ++column)
        bytes[kScalesB * 4 + part / 4 * 512 + column * 16 + part % 4] =
            kCodes[(column + 2 * part) % 3];
    }
    makeMap(kMapA, kDataA, kRows);
    makeMap(kMapB, kDataB, kColumns);
  }

  /// 1, 1.5 and 0.5.
  static constexpr uint8_t kCodes[] = {0x38, 0x3C, 0x30};
  static double scaleOf(unsigned i) { return i == 0 ? 1 : i == 1 ? 1.5 : 0.5; }

  void makeMap(unsigned at, unsigned data, unsigned rows) {
    const uint64_t extents[] = {kRowBytes, rows}, strides[] = {kRowBytes};
    const uint32_t box[] = {128, rows}, steps[] = {1, 1};
    TensorMap map;
    const TensorMapRequest request{
        0,       2,       reinterpret_cast<uint64_t>(&words[origin + data]),
        extents, strides, box,
        steps,   0,       3,
        0,       0};
    ASSERT_EQ(encodeTensorMap(request, map), "");
    std::memcpy(&words[origin + at], &map, sizeof(map));
  }

  static std::string wait(const char *barrier, int parity) {
    static int number = 0;
    const std::string label = fmt::format("wait{}", number++);
    return fmt::format("{}: mbarrier.try_wait.parity.shared::cta.b64 %p1, "
                       "[{}], {}; @!%p1 bra {};\n",
                       label, barrier, parity, label);
  }

  /// The thread that copies.
  std::string producer() const {
    std::string text;
    for (unsigned step = 0; step < kSteps; ++step) {
      const unsigned stage = step % 2;
      const std::string full = fmt::format("%full{}", stage);
      if (step >= 2)
        text += wait(fmt::format("%empty{}", stage).c_str(), 0);
      text += fmt::format(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};\n"
          "mov.u32 %r1, {2}; mov.u32 %r2, 0; add.s32 %r3, %r20, {3};"
          "add.s32 %r4, %r3, {4}; add.s32 %r5, %r4, {5}; add.s32 %r6, %r5, {6};"
          "add.s64 %d3, %d0, {7}; add.s64 %d4, %d0, {8};"
          "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::"
          "complete_tx::bytes [%r3], [%d1, {{%r1, %r2}}], [{0}];\n"
          "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::"
          "complete_tx::bytes [%r4], [%d2, {{%r1, %r2}}], [{0}];\n"
          "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
          "[%r5], [%d3], {6}, [{0}];\n"
          "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
          "[%r6], [%d4], {6}, [{0}];\n",
          full, kStage, step * 128, stage * kStage, kA, kB, kScales,
          kScalesA * 4 + step * kScales, kScalesB * 4 + step * kScales);
    }
    return text;
  }

  /// The thread that multiplies: D in columns 0 to 15, scales of A from 32 on,
  /// of B from 48 on.
  static std::string issuer() {
    const TensorLayout operand = {kFp4Dense, 128, 0, 1024},
                       scales = {kFp8, 0, 0, 128};
    std::string text;
    auto describe = [&](const char *reg, unsigned at, uint64_t bits) {
      text += fmt::format("add.s32 %r1, %r20, {}; shr.u32 %r1, %r1, 4;"
                          "cvt.u64.u32 {}, %r1; or.b64 {}, {}, {:#x};",
                          at, reg, reg, reg, bits);
    };
    for (unsigned step = 0; step < kSteps; ++step) {
      const unsigned stage = step % 2, at = stage * kStage;
      text += wait(fmt::format("%full{}", stage).c_str(), int(step / 2));
      text += "tcgen05.fence::after_thread_sync;";
      for (unsigned i = 0; i < 4; ++i) {
        describe("%d3", at + kA + kB + i * 512, scales.descriptor());
        describe("%d4", at + kA + kB + kScales + i * 512, scales.descriptor());
        text +=
            fmt::format("add.s32 %r2, %r31, {}; add.s32 %r3, %r31, {};\n"
                        "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r2], %d3;\n"
                        "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r3], %d4;\n",
                        32 + 4 * i, 48 + 4 * i);
      }
      for (unsigned i = 0; i < 4; ++i) {
        describe("%d3", at + i * 32, operand.descriptor());
        describe("%d4", at + kA + i * 32, operand.descriptor());
        text += fmt::format(
            "add.s32 %r2, %r31, {}; add.s32 %r3, %r31, {}; mov.u32 %r4, {:#x};"
            "setp.eq.u32 %p2, %r4, {};\n"
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 "
            "[%r31], %d3, %d4, %r4, [%r2], [%r3], %p2;\n",
            32 + 4 * i, 48 + 4 * i, what(), step + i ? "%r4" : "0");
      }
      text += fmt::format("tcgen05.commit.cta_group::1.mbarrier::arrive::one."
                          "shared::cluster.b64 [%empty{}];\n",
                          stage);
    }
    return text + "tcgen05.commit.cta_group::1.mbarrier::arrive::one."
                  "shared::cluster.b64 [%done];\n";
  }
  static uint32_t what() {
    return kFp4Dense.code << 7 | kFp4Dense.code << 10 | kColumns / 8 << 17 |
           kRows / 16 << 24;
  }

  std::string kernel() const {
    std::string text =
        ".reg .b32 %full0, %full1, %empty0, %empty1, %done;"
        "mov.u32 %r30, memory; add.s32 %full0, %r30, 16;"
        "add.s32 %full1, %r30, 24; add.s32 %empty0, %r30, 32;"
        "add.s32 %empty1, %r30, 40; add.s32 %done, %r30, 48;"
        "add.s32 %r20, %r30, 1087; and.b32 %r20, %r20, 0xFFFFFC00;"
        "setp.eq.u32 %p6, %tid, 0; setp.eq.u32 %p5, %tid, 32;"
        "setp.lt.u32 %p7, %tid, 32;\n";
    for (const char *barrier : {"full0", "full1", "empty0", "empty1", "done"})
      text += fmt::format("@%p6 mbarrier.init.shared::cta.b64 [%{}], 1;\n",
                          barrier);
    text += fmt::format(
        "@%p7 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r30], "
        "64;\n"
        "tcgen05.fence::before_thread_sync; bar.sync 0;"
        "tcgen05.fence::after_thread_sync; ld.shared.u32 %r31, [%r30];\n"
        "add.s64 %d0, %base, {}; add.s64 %d1, %d0, {}; add.s64 %d2, %d0, {};"
        "@!%p6 bra second;\n",
        origin * 4, kMapA * 4, kMapB * 4);
    text += producer() + "bra last;\nsecond: @!%p5 bra last;\n" + issuer() +
            "last: bar.warp.sync -1;\n" + wait("%done", 0) +
            "tcgen05.fence::after_thread_sync;\n";
    // Rows of 16 columns: two loads of a lane's 8.
    text += fmt::format("shr.u32 %r1, %tid, 5; shl.b32 %r1, %r1, 21;"
                        "add.s32 %r1, %r1, %r31; mul.wide.u32 %d3, %tid, 64;"
                        "add.s64 %d3, %d3, %d0;");
    for (unsigned column = 0; column < kColumns; column += 4)
      text += fmt::format(
          "add.s32 %r2, %r1, {};\n"
          "tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r3, %r4, %r5, %r6}}, "
          "[%r2];\ntcgen05.wait::ld.sync.aligned;\n"
          "st.global.v4.u32 [%d3+{}], {{%r3, %r4, %r5, %r6}};\n",
          column, (kResult + column) * 4);
    return text + "tcgen05.fence::before_thread_sync; bar.sync 0;\n"
                  "@%p7 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r31, "
                  "64;\n";
  }

  bool isRight() const {
    for (unsigned row = 0; row < kRows; ++row)
      for (unsigned column = 0; column < kColumns; ++column)
        if (std::bit_cast<float>(
                words[origin + kResult + row * kColumns + column]) !=
            expected(row, column))
          return false;
    return true;
  }
  static float expected(unsigned row, unsigned column) {
    double sum = 0;
    for (unsigned k = 0; k < kDepth; ++k)
      sum += tensorEntry(1, row, k) * tensorEntry(2, column, k) *
             scaleOf((row + k / 16) % 3) * scaleOf((column + 2 * (k / 16)) % 3);
    return float(sum);
  }

  unsigned origin = 0;
};
} // namespace

TEST_F(TensorPipeline, IsRight) {
  expectRight(kernel());
  EXPECT_TRUE(isRight());
}

TEST_F(TensorPipeline, FaultsAreSeen) {
  struct Fault {
    const char *from, *to;
    /// A word of the report; "" where only values are wrong.
    const char *seen;
  };
  const std::string text = kernel();
  const Fault faults[] = {
      {"b32 [%r30], 64;", "b32 [%r30], 32;", "has not allocated column"},
      {"setp.eq.u32 %p5, %tid, 32;", "setp.ge.u32 %p5, %tid, 32;",
       "lanes issue this"},
      {"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
       "[%empty0]",
       "mbarrier.arrive.shared::cta.b64 _, [%empty0]",
       "without synchronization after a read"},
      {"[%done];", "[%empty1];", "deadlock"},
      {"32x128b.warpx4", "64x128b.warpx2::02_13", "asynchronous proxy"},
      {"block16", "block32", "are ue8m0"},
      {"mov.u32 %r4, 0x", "mov.u32 %r4, 0x8", "K 96"},
      {"22528;", "22016;", "asynchronous proxy"},
      {"%d3, %d4, %r4, [%r2], [%r3]", "%d3, %d4, %r4, [%r3], [%r2]", ""},
      {"%d3, %d4, %r4,", "%d3, %d3, %r4,", ""},
      {"setp.eq.u32 %p2, %r4, 0;", "setp.eq.u32 %p2, %r4, %r4;",
       "nothing wrote lane"},
      {"setp.eq.u32 %p2, %r4, %r4;", "setp.eq.u32 %p2, %r4, 0;", ""},
      {"tcgen05.wait::ld.sync.aligned;", "", "before the tcgen05.wait::ld"},
      {"shl.b32 %r1, %r1, 21;", "shl.b32 %r1, %r1, 20;", "may begin at lane"},
      {"shr.u32 %r1, %tid, 5;", "mov.u32 %r1, 0;", nullptr},
      {"@%p7 tcgen05.dealloc", "@%p5 bra never; never: @%p4 tcgen05.dealloc",
       "allocated"},
  };
  const auto begin = words;
  for (const Fault &fault : faults) {
    std::string body = text;
    size_t count = 0;
    for (size_t at = 0; (at = body.find(fault.from, at)) != std::string::npos;
         at += std::strlen(fault.to), ++count)
      body.replace(at, std::strlen(fault.from), fault.to);
    ASSERT_GT(count, 0u) << fault.from;
    for (Timing timing : {Timing::AtOnce, Timing::Late, Timing::Random}) {
      settings.timing = timing;
      words = begin;
      run(body);
      // The address of a warp's lanes may be left away.
      if (!fault.seen) {
        EXPECT_TRUE(isRight() && findings().empty()) << findings();
        continue;
      }
      EXPECT_FALSE(isRight() && findings().empty()) << fault.to;
      EXPECT_THAT(findings(), testing::HasSubstr(fault.seen)) << fault.to;
    }
  }
}
