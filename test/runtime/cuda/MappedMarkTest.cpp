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
#include <optional>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

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

/// Whoever has seen that it is alone frees the memory.
TEST(MappedMark, NoneJoinsAnOwnerThatIsAlone) {
  auto owner = MappedMark::create();
  ASSERT_TRUE(owner) << owner.error().message;
  ASSERT_TRUE(owner->isAlone());
  const auto late = MappedMark::join(owner->path());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::NoCommunication);
  EXPECT_THAT(late.error().message,
              HasSubstr("it cannot lock " + owner->path()));
  EXPECT_TRUE(owner->isAlone());
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

namespace {
/// A child that says a word when it has done what it is to do, and waits to be
/// killed.
class Child {
public:
  template <typename Work> explicit Child(Work work) {
    int ends[2];
    if (::pipe(ends) != 0)
      return;
    pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      const char word = work() ? 'y' : 'n';
      (void)!::write(ends[1], &word, 1);
      ::pause();
      ::_exit(0);
    }
    ::close(ends[1]);
    (void)!::read(ends[0], &said, 1);
    ::close(ends[0]);
  }
  ~Child() { kill(); }
  void kill() {
    if (pid <= 0)
      return;
    ::kill(pid, SIGKILL);
    ::waitpid(std::exchange(pid, 0), nullptr, 0);
  }
  char said = 0;

private:
  pid_t pid = 0;
};
} // namespace

TEST(MappedMark, AKilledProcessLetsGo) {
  auto owner = MappedMark::create();
  ASSERT_TRUE(owner) << owner.error().message;
  std::optional<Result<MappedMark>> mark;
  Child child([&] {
    mark.emplace(MappedMark::join(owner->path()));
    return bool(*mark);
  });
  ASSERT_EQ(child.said, 'y');
  EXPECT_FALSE(owner->isAlone());
  child.kill();
  EXPECT_TRUE(owner->isAlone());
}

/// A child of a fork holds no lock of its parent, and ends none.
TEST(MappedMark, AChildOfAForkHoldsNothing) {
  auto owner = MappedMark::create();
  ASSERT_TRUE(owner) << owner.error().message;
  std::optional<MappedMark> mark;
  {
    auto joined = MappedMark::join(owner->path());
    ASSERT_TRUE(joined) << joined.error().message;
    mark.emplace(std::move(*joined));
  }
  Child ends([&] {
    mark.reset();
    const MappedMark copy = std::move(*owner);
    return true;
  });
  ASSERT_EQ(ends.said, 'y');
  EXPECT_TRUE(std::filesystem::exists(owner->path()));
  EXPECT_FALSE(owner->isAlone());
  Child lives([] { return true; });
  ASSERT_EQ(lives.said, 'y');
  mark.reset();
  EXPECT_TRUE(owner->isAlone());
}
