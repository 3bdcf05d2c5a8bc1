//===- CacheEntriesTest.cpp - listing, trimming and bounding the cache ----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/runtime/jit/JitTesting.h"

#include "runtime/jit/CacheEntries.h"

#include <gmock/gmock.h>

#include <atomic>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {
class CacheEntries : public testing::Test {
protected:
  /// Stores a kernel, last used so many hours ago.
  std::string store(const std::string &kernel, int hours) {
    const Recipe recipe = tinyRecipe(kernel);
    const KernelCache cache(folder.path);
    EXPECT_TRUE(cache.get(recipe, false, compile));
    const std::string entry = cache.entryFolder(recipe);
    setAge(entry, hours);
    return entry;
  }
  static void setAge(const std::string &path, int hours) {
    const time_t time = ::time(nullptr) - time_t(hours) * 3600;
    const timespec times[] = {{time, 0}, {time, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::vector<CacheEntry> entries() {
    Result<std::vector<CacheEntry>> listed = listCache(folder.path);
    EXPECT_TRUE(listed);
    return listed ? *listed : std::vector<CacheEntry>();
  }
  /// Names of kernels, the least recently used first.
  std::vector<std::string> kernels() {
    std::vector<std::string> names;
    for (const CacheEntry &entry : entries())
      names.push_back(entry.name.substr(0, entry.name.rfind('-')));
    return names;
  }
  uint64_t size() {
    uint64_t bytes = 0;
    for (const CacheEntry &entry : entries())
      bytes += entry.bytes;
    return bytes;
  }

  TemporaryFolder folder;
  KernelCache::Compile compile = [](const Recipe &recipe) -> Result<Cubin> {
    return Cubin{std::string(1000, 'x') + recipe.entry, "a log"};
  };
};
} // namespace

TEST_F(CacheEntries, AnAbsentCacheIsEmpty) {
  const auto listed = listCache(folder.path + "/none");
  ASSERT_TRUE(listed);
  EXPECT_THAT(*listed, IsEmpty());
}

TEST_F(CacheEntries, TheLeastRecentlyUsedComesFirst) {
  store("b", 5);
  store("c", 9);
  store("a", 2);
  EXPECT_THAT(kernels(), ElementsAre("c", "b", "a"));
  for (const CacheEntry &entry : entries()) {
    EXPECT_EQ(entry.arch, "sm_90a");
    EXPECT_TRUE(entry.isOwn && entry.isWhole) << entry.name;
    EXPECT_GT(entry.bytes, 1000U);
  }
}

TEST_F(CacheEntries, AHitRenewsAnEntry) {
  store("a", 9);
  store("b", 5);
  ASSERT_TRUE(KernelCache(folder.path).get(tinyRecipe("a"), true, compile));
  EXPECT_THAT(kernels(), ElementsAre("b", "a"));
}

TEST_F(CacheEntries, WhatIsNoEntryStays) {
  store("a", 1);
  ASSERT_TRUE(createFolders(folder.path + "/tuned/x-0123456789abcdef"));
  ASSERT_TRUE(writeFile(folder.path + "/sm_90a/a-0123456789abcdef.lock", ""));
  EXPECT_THAT(kernels(), ElementsAre("a"));
}

TEST_F(CacheEntries, FoldersOfOthersStepsAreNotWhole) {
  const std::string entry = store("a", 1);
  ASSERT_TRUE(renamePath(entry, entry + ".damaged-1-0"));
  ASSERT_TRUE(createFolders(entry + ".tmp-1-0123456789abcdef"));
  for (const CacheEntry &each : entries())
    EXPECT_FALSE(each.isWhole) << each.name;
  EXPECT_EQ(entries().size(), 2U);
}

TEST_F(CacheEntries, ABoundKeepsWhatWasUsedLast) {
  store("a", 9);
  store("b", 5);
  store("c", 2);
  const uint64_t all = size();
  boundCache(folder.path, all);
  EXPECT_THAT(kernels(), ElementsAre("a", "b", "c"));
  // Nine tenths of the bound remain, which is less than two entries.
  boundCache(folder.path, 2 * all / 3);
  EXPECT_THAT(kernels(), ElementsAre("c"));
  boundCache(folder.path, 1);
  EXPECT_THAT(kernels(), IsEmpty());
}

/// An entry that another process writes or owns stays, and its size counts.
TEST_F(CacheEntries, ABoundRemovesWholeEntriesOfThisUser) {
  const auto entry = [](const char *name, bool isOwn, bool isWhole) {
    CacheEntry made = {"sm_90a", name};
    made.bytes = 10, made.isOwn = isOwn, made.isWhole = isWhole;
    return made;
  };
  const std::vector<CacheEntry> all = {
      entry("written", true, false), entry("foreign", false, true),
      entry("old", true, true), entry("new", true, true)};
  const auto removed = [&](uint64_t bytes) {
    std::string names;
    for (const CacheEntry &each : entriesAbove(all, bytes))
      names += each.name + " ";
    return names;
  };
  EXPECT_EQ(removed(40), "");
  EXPECT_EQ(removed(39), "old ");
  EXPECT_EQ(removed(30), "old ");
  EXPECT_EQ(removed(29), "old new ");
  EXPECT_EQ(removed(0), "old new ");
}

TEST_F(CacheEntries, AnEntryIsRemovedOnce) {
  store("a", 1);
  const std::vector<CacheEntry> listed = entries();
  EXPECT_TRUE(removeCacheEntry(folder.path, listed[0]));
  EXPECT_TRUE(removeCacheEntry(folder.path, listed[0]));
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(CacheEntries, ReadersGetTheKernelWhileOthersRemoveIt) {
  std::atomic<bool> stop = false;
  std::thread remover([&] {
    while (!stop)
      boundCache(folder.path, 0);
  });
  Warnings warnings;
  for (int i = 0; i < 300; ++i) {
    const auto cubin =
        KernelCache(folder.path).get(tinyRecipe("a"), false, compile);
    ASSERT_TRUE(cubin) << cubin.error().message;
    ASSERT_EQ(cubin->bytes.size(), 1001U);
  }
  stop = true;
  remover.join();
}
