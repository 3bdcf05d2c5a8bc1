//===- ProgressDisplayTest.cpp - lines of terminals and logs --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/ProgressDisplay.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace std::chrono_literals;

using Style = ProgressText::Style;

static const Clock::time_point kStart;

TEST(ProgressText, ALogGetsALineEachInterval) {
  ProgressText text(Style::Log, 30s, kStart);
  EXPECT_EQ(text.update("kernels", 0, 8, kStart + 50s), "");
  EXPECT_EQ(text.update("kernels", 1, 8, kStart + 79s), "");
  EXPECT_EQ(text.update("kernels", 2, 8, kStart + 80s),
            "[2/8] kernels, about 90 s left\n");
  EXPECT_EQ(text.update("kernels", 3, 8, kStart + 109s), "");
  EXPECT_EQ(text.update("kernels", 6, 8, kStart + 110s),
            "[6/8] kernels, about 20 s left\n");
  EXPECT_EQ(text.update("kernels", 8, 8, kStart + 150s), "");
}

TEST(ProgressText, ALogGetsNothingOfShortSteps) {
  ProgressText text(Style::Log, 30s, kStart);
  for (int i = 0; i < 5; ++i) {
    const Clock::time_point begin = kStart + i * 29s;
    EXPECT_EQ(text.update("kernels", 0, 2, begin), "");
    EXPECT_EQ(text.update("kernels", 1, 2, begin + 20s), "");
    EXPECT_EQ(text.update("kernels", 2, 2, begin + 29s), "");
  }
}

TEST(ProgressText, PartsDoNotDelayTheLinesOfAStep) {
  ProgressText text(Style::Log, 30s, kStart);
  EXPECT_EQ(text.update("layers", 0, 4, kStart), "");
  for (int64_t layer = 1; layer < 3; ++layer) {
    const Clock::time_point begin = kStart + layer * 20s;
    EXPECT_EQ(text.update("experts", 0, 1, begin - 20s), "");
    EXPECT_EQ(text.update("experts", 1, 1, begin), "");
    EXPECT_EQ(text.update("layers", layer, 4, begin),
              layer == 2 ? "[2/4] layers, about 40 s left\n" : "");
  }
}

TEST(ProgressText, ATerminalHasOneLineThatIsCleared) {
  ProgressText text(Style::Terminal, 30s, kStart);
  EXPECT_EQ(text.update("kernels", 0, 8, kStart + 50ms), "");
  EXPECT_EQ(text.update("kernels", 1, 8, kStart + 100ms),
            "\r[1/8] kernels\x1b[K");
  EXPECT_EQ(text.update("kernels", 2, 8, kStart + 150ms), "");
  EXPECT_EQ(text.update("kernels", 8, 8, kStart + 160ms), "\r\x1b[K");
  EXPECT_EQ(text.update("others", 0, 8, kStart + 170ms), "");
  EXPECT_EQ(text.update("others", 8, 8, kStart + 180ms), "");
  // A step whose first part takes long is shown before the part is done.
  EXPECT_EQ(text.update("schedules", 0, 3, kStart + 1s),
            "\r[0/3] schedules\x1b[K");
}

TEST(ProgressText, TimeLeft) {
  const auto lineAfter = [](Clock::duration elapsed, int64_t done) {
    ProgressText text(Style::Terminal, 30s, kStart);
    text.update("kernels", 0, 100, kStart);
    return text.update("kernels", done, 100, kStart + elapsed);
  };
  EXPECT_EQ(lineAfter(2s, 50), "\r[50/100] kernels\x1b[K");
  EXPECT_EQ(lineAfter(10s, 0), "\r[0/100] kernels\x1b[K");
  EXPECT_EQ(lineAfter(3s, 50), "\r[50/100] kernels, about 3 s left\x1b[K");
  EXPECT_EQ(lineAfter(119s, 50), "\r[50/100] kernels, about 119 s left\x1b[K");
  EXPECT_EQ(lineAfter(150s, 20), "\r[20/100] kernels, about 10 min left\x1b[K");
  EXPECT_EQ(lineAfter(5min, 1), "\r[1/100] kernels, about 8 h left\x1b[K");
}

static std::string contents(std::FILE *file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
    text += static_cast<char>(c);
  return text;
}

TEST(ProgressDisplay, WritesLinesToAFile) {
  std::FILE *file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    const ProgressDisplay display(file, 0s);
    // Another one does not replace it.
    const ProgressDisplay unused(file, 0s);
    Progress progress("steps", 3);
    progress.advance();
    progress.advance();
  }
  {
    Progress unseen("unseen", 2);
    unseen.advance();
  }
  EXPECT_EQ(contents(file), "[0/3] steps\n[1/3] steps\n[2/3] steps\n");
  std::fclose(file);
}

TEST(ProgressDisplay, IsSilentBeforeTheInterval) {
  std::FILE *file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    const ProgressDisplay display(file);
    Progress progress("steps", 3);
    progress.advance();
  }
  EXPECT_EQ(contents(file), "");
  std::fclose(file);
}
