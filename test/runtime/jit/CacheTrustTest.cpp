//===- CacheTrustTest.cpp - owners, links, forks --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Entries that other users put into a folder of the cache, and files that a
// fork leaves behind. The compiler is a function, so every case runs without
// NVRTC.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CacheFiles.h"
#include "test/runtime/jit/JitTesting.h"

#include <gmock/gmock.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <future>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;
using testing::HasSubstr;
using testing::Not;

namespace {

constexpr uid_t kSomeoneElse = 12345;

class CacheTrust : public testing::Test {
protected:
  Result<CachedCubin> get(const Recipe &recipe = tinyRecipe(),
                          bool strict = false) {
    return KernelCache(folder.path).get(recipe, strict, [this](auto &recipe) {
      ++compiles;
      return Result<Cubin>(Cubin{"cubin of " + recipe.entry, ""});
    });
  }
  std::string stored(const std::string &kernel = tinyRecipe().entry) {
    EXPECT_TRUE(get(tinyRecipe(kernel)));
    return KernelCache(folder.path).entryFolder(tinyRecipe(kernel));
  }
  /// Names in the folder of entries that contain `part`.
  int count(const std::string &part) {
    int found = 0;
    for (const auto &entry :
         std::filesystem::directory_iterator(folder.path + "/sm_90a"))
      found += entry.path().filename().string().find(part) != std::string::npos;
    return found;
  }
  TemporaryFolder folder;
  std::atomic<int> compiles = 0;
};

/// A child's exit status, or 1000 if it hung or died.
int statusOf(const std::function<int()> &body) {
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

} // namespace

TEST_F(CacheTrust, EntriesOfOtherUsersAreNotTaken) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give files to others";
  std::string entry = stored();
  for (std::string path : {entry, entry + "/kernel.cubin"}) {
    ASSERT_EQ(::chown(path.c_str(), kSomeoneElse, kSomeoneElse), 0);
    Warnings warnings;
    auto strict = get(tinyRecipe(), /*strict=*/true);
    ASSERT_FALSE(strict) << path;
    EXPECT_THAT(strict.error().message, HasSubstr("it belongs to user 12345"));
    auto cubin = get();
    ASSERT_TRUE(cubin);
    EXPECT_EQ(cubin->source, CubinSource::Compiled) << path;
    EXPECT_THAT(warnings.all, HasSubstr("it belongs to user 12345"));
    // An entry of theirs stays; a file of theirs in ours is moved with it.
    EXPECT_EQ(count(".damaged-"), path == entry ? 0 : 1);
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
}

TEST_F(CacheTrust, EntriesOfOtherUsersAreReportedOnce) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give files to others";
  Warnings warnings;
  for (const char *name : {"moec_tiny", "moec_a", "moec_b"}) {
    const std::string entry = stored(name);
    ASSERT_EQ(::chown(entry.c_str(), kSomeoneElse, kSomeoneElse), 0);
    EXPECT_EQ(get(tinyRecipe(name))->source, CubinSource::Compiled) << name;
  }
  EXPECT_EQ(std::ranges::count(warnings.all, '\n'), 1) << warnings.all;
  EXPECT_THAT(warnings.all, HasSubstr("/sm_90a/moec_tiny-"));
}

TEST_F(CacheTrust, WhatOthersMayWriteIsBuiltAgain) {
  std::string entry = stored();
  ASSERT_EQ(::chmod((entry + "/kernel.cubin").c_str(), 0666), 0);
  EXPECT_FALSE(get(tinyRecipe(), /*strict=*/true));
  Warnings warnings;
  EXPECT_EQ(get()->source, CubinSource::Compiled);
  EXPECT_THAT(warnings.all, HasSubstr("is damaged (kernel.cubin: others may "
                                      "write it (mode 0666))"));
  EXPECT_EQ(get()->source, CubinSource::Cache);
}

TEST_F(CacheTrust, ModesDoNotDependOnTheUmask) {
  mode_t before = ::umask(0);
  std::string entry = stored();
  ::umask(before);
  Warnings warnings;
  EXPECT_EQ(get()->source, CubinSource::Cache);
  EXPECT_EQ(warnings.all, "");
  struct stat info;
  ASSERT_EQ(::stat(entry.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  for (const auto &made :
       std::filesystem::recursive_directory_iterator(folder.path)) {
    ASSERT_EQ(::stat(made.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0022, 0u) << made.path();
  }
}

TEST_F(CacheTrust, AFolderOfEntriesThatIsALinkIsNotUsed) {
  const TemporaryFolder other;
  ASSERT_TRUE(
      KernelCache(other.path).get(tinyRecipe(), false, [](const Recipe &) {
        return Result<Cubin>(Cubin{"planted", ""});
      }));
  ASSERT_EQ(::symlink((other.path + "/sm_90a").c_str(),
                      (folder.path + "/sm_90a").c_str()),
            0);
  EXPECT_FALSE(get(tinyRecipe(), /*strict=*/true));
  Recipe anyCompiler = tinyRecipe();
  anyCompiler.compiler.clear();
  EXPECT_FALSE(get(anyCompiler, /*strict=*/true));
  Warnings warnings;
  for (const char *entry : {"moec_tiny", "moec_a", "moec_b"})
    EXPECT_EQ(get(tinyRecipe(entry))->bytes, "cubin of " + std::string(entry));
  EXPECT_THAT(warnings.all,
              HasSubstr("kernel cache: what was compiled could not be stored "
                        "(cannot open folder '" +
                        folder.path + "/sm_90a'"));
  EXPECT_EQ(std::ranges::count(warnings.all, '\n'), 1);
  EXPECT_EQ(
      std::distance(std::filesystem::directory_iterator(other.path + "/sm_90a"),
                    {}),
      1)
      << "nothing is written through the link";
}

TEST_F(CacheTrust, AFolderThatOthersMayWriteIsReportedOnce) {
  ASSERT_EQ(::chmod(folder.path.c_str(), 0777), 0);
  Warnings warnings;
  ASSERT_TRUE(get());
  EXPECT_THAT(warnings.all, HasSubstr("kernel cache [shared-folder]: other "
                                      "users may write " +
                                      folder.path));
  EXPECT_THAT(warnings.all, HasSubstr("mode 0777"));
  warnings.all.clear();
  ASSERT_TRUE(get());
  EXPECT_EQ(warnings.all, "");
}

TEST_F(CacheTrust, LinksAreNotFollowed) {
  std::string entry = stored(), other = entry + "-elsewhere";
  // A lock that would make a file where its planter likes.
  ASSERT_TRUE(removeAll(entry));
  std::string victim = folder.path + "/victim";
  ASSERT_EQ(::symlink(victim.c_str(), (entry + ".lock").c_str()), 0);
  ASSERT_TRUE(get());
  EXPECT_FALSE(fileExists(victim));
  // An entry, and a file of one.
  ASSERT_TRUE(renamePath(entry, other));
  ASSERT_EQ(::symlink(other.c_str(), entry.c_str()), 0);
  EXPECT_FALSE(get(tinyRecipe(), /*strict=*/true));
  EXPECT_EQ(get()->source, CubinSource::Compiled);
  std::string cubin = entry + "/kernel.cubin";
  ASSERT_TRUE(renamePath(cubin, victim));
  ASSERT_EQ(::symlink(victim.c_str(), cubin.c_str()), 0);
  Warnings warnings;
  EXPECT_EQ(get()->source, CubinSource::Compiled);
  EXPECT_THAT(warnings.all, HasSubstr("expected a regular file, found a link"));
}

TEST_F(CacheTrust, FifosAndEndlessFilesAreDamage) {
  for (const char *name : {"/recipe.json", "/kernel.cubin", ".lock"}) {
    std::string path = stored() + name;
    ASSERT_TRUE(removeAll(path));
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_TRUE(get()) << name;
    ASSERT_TRUE(removeAll(path));
  }
  std::string cubin = stored() + "/kernel.cubin";
  ASSERT_EQ(::truncate(cubin.c_str(), off_t(1) << 40), 0);
  Warnings warnings;
  EXPECT_EQ(get()->source, CubinSource::Compiled);
  EXPECT_THAT(warnings.all, HasSubstr("expected at most 268435456 bytes"));
}

TEST_F(CacheTrust, ANameIsNoPattern) {
  KernelCache beside(folder.path + "/cXd"), pattern(folder.path + "/c[X]d");
  auto compile = [](const Recipe &) { return Result<Cubin>(Cubin{"x", ""}); };
  ASSERT_TRUE(beside.get(tinyRecipe(), false, compile));
  Recipe unknown = tinyRecipe();
  unknown.compiler.clear();
  EXPECT_TRUE(beside.get(unknown, /*strict=*/true, compile));
  EXPECT_FALSE(pattern.get(unknown, /*strict=*/true, compile));
}

TEST_F(CacheTrust, DamagedEntriesDoNotPileUp) {
  Warnings warnings;
  for (int i = 0; i < 3; ++i) {
    std::string entry = stored();
    ASSERT_EQ(::truncate((entry + "/kernel.cubin").c_str(), 1), 0);
    ASSERT_TRUE(get());
    EXPECT_EQ(count(".damaged-"), 1) << i;
  }
  // A week later, when anything is compiled. A clock may have been wrong.
  for (const auto &[hours, left] :
       {std::pair(0, 1), {-6 * 24, 1}, {23, 1}, {-8 * 24, 0}, {25, 0}}) {
    ASSERT_EQ(::truncate((stored() + "/kernel.cubin").c_str(), 1), 0);
    ASSERT_TRUE(get());
    for (const auto &entry :
         std::filesystem::directory_iterator(folder.path + "/sm_90a"))
      if (entry.path().string().find(".damaged-") != std::string::npos) {
        timespec times[2] = {};
        times[0].tv_sec = times[1].tv_sec = ::time(nullptr) + hours * 3600;
        ASSERT_EQ(::utimensat(AT_FDCWD, entry.path().c_str(), times, 0), 0);
      }
    ASSERT_TRUE(get(tinyRecipe("moec_other" + std::to_string(hours))));
    EXPECT_EQ(count(".damaged-"), left) << hours;
  }
}

//===----------------------------------------------------------------------===//
// Locks
//===----------------------------------------------------------------------===//

TEST_F(CacheTrust, ALockIsRemovedByItsHolder) {
  std::string path = folder.path + "/lock";
  {
    FileLock lock(path);
    ASSERT_TRUE(lock.held);
    EXPECT_TRUE(fileExists(path));
  }
  EXPECT_FALSE(fileExists(path));
  // Who waits for a file that its holder removes locks its successor.
  auto first = std::make_unique<FileLock>(path);
  std::atomic<bool> locked = false;
  std::thread waiter([&] {
    FileLock second(path);
    EXPECT_TRUE(second.held);
    locked = true;
    // Another one cannot have it as well.
    int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_GE(file, 0);
    EXPECT_NE(::flock(file, LOCK_EX | LOCK_NB), 0);
    ::close(file);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(locked);
  first.reset();
  waiter.join();
  EXPECT_TRUE(locked);
  stored();
  EXPECT_EQ(count(".lock"), 0);
}

TEST_F(CacheTrust, AForkedChildKeepsNoLock) {
  std::string path = folder.path + "/lock";
  auto lock = std::make_unique<FileLock>(path);
  ASSERT_TRUE(lock->held);
  int end[2];
  ASSERT_EQ(::pipe(end), 0);
  pid_t child = ::fork();
  if (child == 0) { // lives until the test is done
    char byte;
    ::close(end[1]);
    ::_exit(::read(end[0], &byte, 1) == 0 ? 0 : 1);
  }
  // The parent's is still its own.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_NE(::flock(file, LOCK_EX | LOCK_NB), 0);
  // As where it is killed: its descriptor goes, nothing is unlocked by hand.
  std::string held = path + "-held";
  ASSERT_EQ(::rename(path.c_str(), held.c_str()), 0);
  lock.reset();
  EXPECT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0);
  ::close(file);
  ::close(end[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(CacheTrust, AChildOfAKilledHolderKeepsNoLock) {
  std::string path = folder.path + "/lock";
  int end[2];
  ASSERT_EQ(::pipe(end), 0);
  pid_t holder = ::fork();
  if (holder == 0) {
    FileLock lock(path);
    if (::fork() == 0) { // outlives the holder
      char byte;
      ::close(end[1]);
      ::_exit(::read(end[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto start = std::chrono::steady_clock::now();
  FileLock lock(path);
  EXPECT_TRUE(lock.held);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ::close(end[1]);
  ::close(end[0]);
}

TEST_F(CacheTrust, AForkWhileACompileRunsDoesNotHang) {
  for (bool onDisk : {true, false}) {
    const std::string root = onDisk ? folder.path : "";
    std::promise<void> started, go;
    std::shared_future<void> goes = go.get_future().share();
    std::thread compiling([&] {
      auto cubin = KernelCache(root).get(tinyRecipe(), false,
                                         [&](const Recipe &) -> Result<Cubin> {
                                           started.set_value();
                                           goes.wait();
                                           return Cubin{"of the parent", ""};
                                         });
      EXPECT_EQ(cubin->bytes, "of the parent");
    });
    started.get_future().wait();
    // On disk the child waits for the parent's lock, so let it end meanwhile.
    std::thread ends([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      go.set_value();
    });
    EXPECT_EQ(statusOf([&] {
                auto cubin = KernelCache(root).get(
                    tinyRecipe(), false, [](const Recipe &) -> Result<Cubin> {
                      return Cubin{"of the child", ""};
                    });
                return cubin && cubin->bytes ==
                                    (onDisk ? "of the parent" : "of the child")
                           ? 0
                           : 1;
              }),
              0)
        << onDisk;
    ends.join();
    compiling.join();
  }
}

TEST_F(CacheTrust, AFailureThatIsThrownIsAnErrorForAllWhoWait) {
  auto cubin =
      KernelCache(folder.path)
          .get(tinyRecipe(), false,
               [](const Recipe &) -> Result<Cubin> { throw std::bad_alloc(); });
  ASSERT_FALSE(cubin);
  EXPECT_THAT(cubin.error().message, HasSubstr("kernel moec_tiny: "));
  EXPECT_TRUE(get());
}
