//===- MappedMarkTest.cpp - which processes still map a memory ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/MappedMark.h"

#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace moec;
using namespace moec::comm;
using testing::HasSubstr;

TEST(MappedMark, IsAloneWhenAllThatJoinedHaveGone) {
  auto owner = MappedMark::create();
  ASSERT_TRUE(owner) << owner.error().message;
  const std::string path = owner->path();
  EXPECT_TRUE(std::filesystem::exists(path));
  {
    auto first = MappedMark::join(path), second = MappedMark::join(path);
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_TRUE(second) << second.error().message;
    owner->removeFile();
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(owner->isAlone());
    const MappedMark gone = std::move(*first);
    EXPECT_FALSE(owner->isAlone());
  }
  EXPECT_TRUE(owner->isAlone());
  const auto late = MappedMark::join(path);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::NoCommunication);
  EXPECT_THAT(late.error().message, HasSubstr("No such file or directory"));
}

TEST(MappedMark, AnOwnersEndRemovesItsFile) {
  std::string path;
  {
    auto owner = MappedMark::create();
    ASSERT_TRUE(owner) << owner.error().message;
    path = owner->path();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// A process that is killed maps nothing any more.
TEST(MappedMark, AKilledProcessLetsGo) {
  auto owner = MappedMark::create();
  ASSERT_TRUE(owner) << owner.error().message;
  int joined[2];
  ASSERT_EQ(::pipe(joined), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto mark = MappedMark::join(owner->path());
    const char said = mark ? 'y' : 'n';
    (void)!::write(joined[1], &said, 1);
    ::pause();
    ::_exit(0);
  }
  char said = 0;
  ASSERT_EQ(::read(joined[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_FALSE(owner->isAlone());
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(owner->isAlone());
  ::close(joined[0]), ::close(joined[1]);
}
