//===- TensorPairTest.cpp - tests of pairs of CTAs ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cta_group::2: each CTA has a half of the rows of A and of the columns of B.
// The CTA of rank 0 multiplies.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/TensorProduct.h"

using namespace moec::emulator;

static constexpr unsigned kAtB = 32768, kScalesA = 40960, kScalesB = 41472;

namespace {
class TensorPair : public TensorProduct {
protected:
  static constexpr unsigned kWordsOfCta = kResults + 128 * kColumns;

  TensorPair() {
    ctas = cluster = 2;
    words.assign(2 * kWordsOfCta, 0);
  }

  static std::string paired(std::string text) {
    for (size_t at = 0;
         (at = text.find("cta_group::1", at)) != std::string::npos;)
      text[at + 11] = '2';
    return text;
  }
  static std::string cluster_() {
    return "tcgen05.fence::before_thread_sync;"
           "barrier.cluster.arrive.release.aligned;"
           "barrier.cluster.wait.acquire.aligned;"
           "tcgen05.fence::after_thread_sync;\n";
  }
  /// %p6 is true in thread 0 of the CTA of rank 0, %p4 in that of both.
  static std::string beginPair() {
    return fmt::format("mov.u32 %r26, %cluster_ctarank;"
                       "mul.wide.u32 %d4, %r26, {}; add.s64 %base, %base, %d4;",
                       kWordsOfCta * 4) +
           paired(begin()) +
           "fence.proxy.async.shared::cta; mov.pred %p4, %p6;"
           "setp.eq.and.u32 %p6, %r26, 0, %p6;" +
           cluster_() + "ld.shared.u32 %r31, [%r30];";
  }
  static std::string multiply(const std::string &kind,
                              const std::string &rest = "%p5") {
    return fmt::format("@%p6 tcgen05.mma.cta_group::2.kind::{} [%r31], %d1, "
                       "%d2, %r4, {};\n",
                       kind, rest);
  }
  static std::string commitPair(int mask = 3) {
    return fmt::format("mov.u16 %h0, {}; @%p6 tcgen05.commit.cta_group::2."
                       "mbarrier::arrive::one.shared::cluster."
                       "multicast::cluster.b64 [%r10], %h0;\n",
                       mask);
  }
  static std::string endPair() {
    return cluster_() + "@%p7 tcgen05.dealloc.cta_group::2.sync.aligned.b32 "
                        "%r31, 128;\n";
  }

  uint8_t *imageOf(unsigned cta) {
    return reinterpret_cast<uint8_t *>(&words[cta * kWordsOfCta]);
  }
  float valueOf(unsigned cta, unsigned lane, unsigned column) const {
    return std::bit_cast<float>(
        words[cta * kWordsOfCta + kResults + lane * kColumns + column]);
  }
  void layOutPair(const TensorLayout &a, const TensorLayout &b, unsigned m,
                  unsigned n, unsigned depth) {
    std::fill(words.begin(), words.end(), 0);
    for (unsigned k = 0; k < depth; ++k) {
      for (unsigned row = 0; row < m; ++row)
        a.put(imageOf(row / (m / 2)), row % (m / 2), k, valueOfA(a, row, k));
      for (unsigned column = 0; column < n; ++column)
        b.put(imageOf(column / (n / 2)) + kAtB, column % (n / 2), k,
              valueOfA(b, column + 1000, k));
    }
  }
};
} // namespace

static const TensorLayout kBfloats = {kBfloat, 128, 0, 1024},
                          kBytes = {kFp8, 64, 0, 512};

TEST_F(TensorPair, EachHasHalfOfTheRows) {
  layOutPair(kBfloats, kBfloats, 256, 48, 16);
  expectRight(beginPair() +
              describe(kBfloats, kBfloats, kAtB,
                       instruction(kBfloat, kBfloat, 256, 48, 1u << 4)) +
              multiply("f16") + commitPair() + await() + give(48) + endPair());
  for (unsigned row = 0; row < 256; ++row)
    for (unsigned column = 0; column < 48; ++column)
      ASSERT_EQ(valueOf(row / 128, row % 128, column),
                float(product(kBfloats, kBfloats, row, column, 16)))
          << row << ", " << column;
}

TEST_F(TensorPair, LanesThatAreNotWritten) {
  layOutPair(kBfloats, kBfloats, 256, 32, 16);
  // Lane 2 of the first CTA, lane 33 of the second one.
  expectRight(beginPair() +
              describe(kBfloats, kBfloats, kAtB,
                       instruction(kBfloat, kBfloat, 256, 32, 1u << 4)) +
              multiply("f16") + "mov.u32 %r5, 4; mov.u32 %r6, 2;" +
              "mov.u32 %r7, 0;" +
              multiply("f16", "{%r5, %r7, %r7, %r7, %r7, %r6, %r7, %r7}, %p6") +
              commitPair() + await() + give(8) + endPair());
  for (unsigned row = 0; row < 256; ++row)
    ASSERT_EQ(valueOf(row / 128, row % 128, 3),
              float((row == 2 || row == 128 + 33 ? 1 : 2) *
                    product(kBfloats, kBfloats, row, 3, 16)))
        << row;
}

TEST_F(TensorPair, FoldsTheColumnsOf64Rows) {
  layOutPair(kBytes, kBytes, 128, 32, 32);
  expectRight(beginPair() +
              describe(kBytes, kBytes, kAtB,
                       instruction(kFp8, kFp8, 128, 32, 1u << 4)) +
              multiply("f8f6f4") + commitPair() + await() + give(16) +
              endPair());
  for (unsigned row = 0; row < 128; ++row)
    for (unsigned column = 0; column < 32; ++column)
      ASSERT_EQ(valueOf(row / 64, row % 64 + column / 16 * 64, column % 16),
                float(product(kBytes, kBytes, row, column, 32)))
          << row << ", " << column;
}

TEST_F(TensorPair, ScalesOfBothCtas) {
  layOutPair(kBytes, kBytes, 256, 32, 32);
  auto scaleOf = [](unsigned row) { return 1 << (row * 3 + row / 32) % 4; };
  for (unsigned row = 0; row < 256; ++row)
    imageOf(row / 128)[kScalesA + row % 32 * 16 + row % 128 / 32 * 4] =
        uint8_t(127 + (row * 3 + row / 32) % 4);
  for (unsigned cta = 0; cta < 2; ++cta)
    for (unsigned column = 0; column < 32; ++column)
      imageOf(cta)[kScalesB + column * 16] =
          uint8_t(127 + (column * 3 + column / 32) % 4);
  auto copy = [](unsigned at, unsigned column) {
    return fmt::format(
        "add.s32 %r21, %r20, {}; shr.u32 %r21, %r21, 4;"
        "cvt.u64.u32 %d3, %r21; or.b64 %d3, %d3, {:#x};"
        "add.s32 %r21, %r31, {};"
        "@%p6 tcgen05.cp.cta_group::2.32x128b.warpx4 [%r21], %d3;",
        at, TensorLayout{kFp8, 0, 0, 128}.descriptor(), column);
  };
  expectRight(beginPair() +
              describe(kBytes, kBytes, kAtB,
                       instruction(kFp8, kFp8, 256, 32, 1u << 23)) +
              copy(kScalesA, 64) + copy(kScalesB, 68) +
              "add.s32 %r24, %r31, 64; add.s32 %r25, %r31, 68;" +
              multiply("mxf8f6f4.block_scale", "[%r24], [%r25], %p5") +
              commitPair() + await() + give(32) + endPair());
  for (unsigned row = 0; row < 256; ++row)
    for (unsigned column = 0; column < 32; ++column)
      ASSERT_EQ(valueOf(row / 128, row % 128, column),
                float(product(kBytes, kBytes, row, column, 32) * scaleOf(row) *
                      scaleOf(column)))
          << row << ", " << column;
}

TEST_F(TensorPair, NeedsBothCtas) {
  layOutPair(kBfloats, kBfloats, 256, 32, 16);
  const std::string description =
      describe(kBfloats, kBfloats, kAtB,
               instruction(kBfloat, kBfloat, 256, 32, 1u << 4));
  const std::string begin_ = beginPair() + description;
  expectFinding(begin_ + "setp.eq.and.u32 %p6, %r26, 1, %p4;" +
                    multiply("f16") + commitPair() + await() + endPair(),
                "tcgen05", "the CTA with the even rank of a pair issues this");
  // Without the multicast the other CTA hears nothing.
  expectFinding(begin_ + multiply("f16") + commitPair(1) + await() + endPair(),
                "deadlock", "mbarrier.try_wait");
  // The other CTA's results before its mbarrier.
  expectFinding(begin_ + multiply("f16") + cluster_() + give(8) + commitPair() +
                    await() + endPair(),
                "race", "read that no commit to an mbarrier orders after");
  // The other CTA has not filled its shared memory.
  std::string early = beginPair();
  early.replace(early.rfind(cluster_()), cluster_().size(),
                "bar.sync 0; tcgen05.fence::after_thread_sync;\n");
  expectFinding(early + description + multiply("f16") + commitPair() + await() +
                    endPair(),
                "race", "the asynchronous proxy reads");
  expectFinding(begin_ + multiply("f16") + commitPair() + await() + cluster_() +
                    "setp.eq.and.u32 %p7, %r26, 0, %p7;"
                    "@%p7 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r31, "
                    "128;\n",
                "deadlock", "tcgen05.dealloc");
  // A fence of the proxies by those that write, or by the thread that
  // multiplies.
  std::string unfenced = beginPair();
  const std::string fence = "fence.proxy.async.shared::cta;";
  unfenced.insert(unfenced.find(fence), "setp.eq.u32 %p1, %r26, 0; @%p1 ");
  const std::string rest =
      description + multiply("f16") + commitPair() + await() + endPair();
  expectFinding(unfenced + rest, "proxy", "of CTA 1: the asynchronous proxy");
  expectRight(unfenced + "fence.proxy.async;" + rest);
  ctas = cluster = 1;
  expectFinding(begin_ + multiply("f16") + commitPair(1) + endPair(), "tcgen05",
                "the other CTA of the pair does not exist");
}
