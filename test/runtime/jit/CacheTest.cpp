//===- CacheTest.cpp - hits, misses, damage, full disks, races ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler is a function that counts, so every case runs without NVRTC.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Sha256.h"
#include "test/runtime/jit/JitTesting.h"

#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <random>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;
using testing::HasSubstr;

namespace {
class Cache : public testing::Test {
protected:
  Result<CachedCubin> get(const Recipe &recipe, bool strict = false) {
    return KernelCache(folder.path).get(recipe, strict, compiler());
  }
  KernelCache::Compile compiler() {
    return [this](const Recipe &recipe) -> Result<Cubin> {
      ++compiles;
      return Cubin{"cubin of " + recipe.entry, "a log"};
    };
  }
  /// A stored entry's folder.
  std::string stored(const Recipe &recipe) {
    EXPECT_TRUE(get(recipe));
    return KernelCache(folder.path).entryFolder(recipe);
  }
  /// The entry is rebuilt, is right afterwards, and someone was told.
  void expectRebuilt(const Recipe &recipe, const std::string &why) {
    int before = compiles;
    Warnings warnings;
    auto cubin = get(recipe);
    ASSERT_TRUE(cubin);
    EXPECT_EQ(cubin->bytes, "cubin of " + recipe.entry);
    EXPECT_EQ(cubin->source, CubinSource::Compiled);
    EXPECT_EQ(compiles, before + 1);
    EXPECT_THAT(warnings.all, HasSubstr("is damaged (" + why));
    auto again = get(recipe, /*strict=*/true);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->bytes, "cubin of " + recipe.entry);
  }

  TemporaryFolder folder;
  std::atomic<int> compiles = 0;
};
} // namespace

TEST_F(Cache, MissThenHit) {
  auto first = get(tinyRecipe());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->source, CubinSource::Compiled);
  auto second = get(tinyRecipe());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->source, CubinSource::Cache);
  EXPECT_EQ(second->bytes, first->bytes);
  EXPECT_EQ(compiles, 1);
  std::string entry = KernelCache(folder.path).entryFolder(tinyRecipe());
  EXPECT_THAT(entry, HasSubstr("/sm_90a/moec_tiny-" +
                               tinyRecipe().key().substr(0, 16)));
  for (const char *file : {"recipe.json", "kernel.cu", "kernel.cubin",
                           "build.log", "headers/a.cuh", "headers/b/c.cuh"})
    EXPECT_TRUE(fileExists(entry + "/" + file)) << file;
}

TEST_F(Cache, AnEntryHasWhatWasCompiled) {
  const Recipe recipe = tinyRecipe();
  const std::string entry = stored(recipe);
  const auto contents = [&](const std::string &name) {
    const auto text = readFile(entry + "/" + name);
    EXPECT_TRUE(text) << name;
    return text ? *text : "";
  };
  const std::string cubin = "cubin of " + recipe.entry;
  EXPECT_EQ(contents("kernel.cubin"), cubin);
  EXPECT_EQ(contents("kernel.cu"), recipe.source->text);
  EXPECT_EQ(contents("build.log"), "a log");
  for (const auto &[name, header] : recipe.headers)
    EXPECT_EQ(contents("headers/" + name), header->text);
  EXPECT_EQ(contents("recipe.json"),
            recipe.json() + "\n{\"bytes\":" + std::to_string(cubin.size()) +
                ",\"cubin\":\"" + sha256(cubin) + "\"}\n");
}

TEST_F(Cache, OtherRecipeIsAnotherEntry) {
  Recipe other = tinyRecipe();
  other.options.push_back("-lineinfo");
  ASSERT_TRUE(get(tinyRecipe()));
  ASSERT_TRUE(get(other));
  EXPECT_EQ(compiles, 2);
}

/// Gets of one kernel at once share a result if both may compile it.
TEST_F(Cache, StrictGetsDoNotShareACompile) {
  const Recipe recipe = tinyRecipe();
  for (const std::string &root : {folder.path, std::string()}) {
    bool came = false;
    std::future<Result<CachedCubin>> strict;
    const auto compiled = KernelCache(root).get(
        recipe, /*strict=*/false, [&](const Recipe &each) -> Result<Cubin> {
          strict = std::async(std::launch::async, [&] {
            return KernelCache(root).get(recipe, /*strict=*/true, compiler());
          });
          came = strict.wait_for(std::chrono::seconds(5)) ==
                 std::future_status::ready;
          return Cubin{"cubin of " + each.entry, ""};
        });
    EXPECT_TRUE(came) << "it waits for the compile";
    const auto missed = strict.get();
    ASSERT_FALSE(missed);
    EXPECT_EQ(missed.error().code, ErrorCode::StrictMiss);
    EXPECT_TRUE(compiled);
  }
  EXPECT_EQ(compiles, 0);
}

TEST_F(Cache, StrictMissNamesTheKernel) {
  auto cubin = get(tinyRecipe(), /*strict=*/true);
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().code, ErrorCode::StrictMiss);
  EXPECT_EQ(cubin.error().message,
            "strict mode: kernel moec_tiny for sm_90a is neither in the "
            "package nor in the cache (" +
                folder.path +
                ") and would have to be compiled; fill the cache with moec run "
                "--prebuild, or ship the package with its cubins");
  EXPECT_EQ(compiles, 0);
}

TEST_F(Cache, TruncatedCubin) {
  std::string entry = stored(tinyRecipe());
  ASSERT_EQ(::truncate((entry + "/kernel.cubin").c_str(), 5), 0);
  expectRebuilt(tinyRecipe(), "kernel.cubin (5 bytes) has another hash");
}

TEST_F(Cache, GarbledCubin) {
  std::string entry = stored(tinyRecipe());
  std::fstream file(entry + "/kernel.cubin",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3);
  file.put('#');
  file.close();
  expectRebuilt(tinyRecipe(), "kernel.cubin (18 bytes) has another hash");
}

TEST_F(Cache, MissingCubin) {
  std::string entry = stored(tinyRecipe());
  ASSERT_TRUE(removeAll(entry + "/kernel.cubin"));
  expectRebuilt(tinyRecipe(), "cannot");
}

TEST_F(Cache, TruncatedRecipe) {
  std::string entry = stored(tinyRecipe());
  ASSERT_EQ(::truncate((entry + "/recipe.json").c_str(), 40), 0);
  expectRebuilt(tinyRecipe(), "recipe.json is truncated");
}

TEST_F(Cache, RecipeWithoutHash) {
  std::string entry = stored(tinyRecipe());
  ASSERT_TRUE(writeFileAtomically(entry + "/recipe.json",
                                  tinyRecipe().json() + "\n{}\n"));
  expectRebuilt(tinyRecipe(), "recipe.json does not say the cubin's hash");
}

TEST_F(Cache, WrongRecipe) {
  // As if two keys began with the same 16 digits.
  std::string other = stored(tinyRecipe("moec_other"));
  std::string entry = stored(tinyRecipe());
  for (const char *file : {"/recipe.json", "/kernel.cubin"})
    ASSERT_TRUE(renamePath(other + file, entry + file));
  expectRebuilt(tinyRecipe(), "recipe.json holds another recipe");
}

TEST_F(Cache, EntryIsAFile) {
  std::string entry = stored(tinyRecipe());
  ASSERT_TRUE(removeAll(entry));
  ASSERT_TRUE(writeFile(entry, "no folder"));
  expectRebuilt(tinyRecipe(), "it is no folder");
}

TEST_F(Cache, FoldersAreMade) {
  const KernelCache cache(folder.path + "/a/b/c");
  ASSERT_TRUE(cache.get(tinyRecipe(), false, compiler()));
  EXPECT_TRUE(cache.get(tinyRecipe(), /*strict=*/true, compiler()));
}

TEST_F(Cache, FolderThatCannotBeMade) {
  // Nobody, not even root, can make folders there.
  KernelCache cache("/proc/self/moec-cache");
  Warnings warnings;
  auto cubin = cache.get(tinyRecipe(), false, compiler());
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->bytes, "cubin of moec_tiny");
  EXPECT_THAT(
      warnings.all,
      HasSubstr("what was compiled could not be stored (cannot create folder"));
}

TEST_F(Cache, ReadOnlyFolder) {
  if (::geteuid() == 0)
    GTEST_SKIP() << "root may write into read-only folders";
  ASSERT_EQ(::chmod(folder.path.c_str(), 0555), 0);
  Warnings warnings;
  auto cubin = get(tinyRecipe());
  ::chmod(folder.path.c_str(), 0755);
  ASSERT_TRUE(cubin);
  EXPECT_THAT(warnings.all, HasSubstr("Permission denied"));
}

TEST_F(Cache, ReadOnlyFolderStillServesHits) {
  std::string entry = stored(tinyRecipe());
  for (const char *path : {"", "/sm_90a"})
    ::chmod((folder.path + path).c_str(), 0555);
  auto cubin = get(tinyRecipe(), /*strict=*/true);
  for (const char *path : {"", "/sm_90a"})
    ::chmod((folder.path + path).c_str(), 0755);
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->source, CubinSource::Cache);
}

TEST_F(Cache, DiskFull) {
  // A limit on file size is what a full disk looks like to write().
  auto large = [this](const Recipe &) -> Result<Cubin> {
    ++compiles;
    return Cubin{std::string(1 << 20, 'c'), ""};
  };
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {1 << 16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  Warnings warnings;
  auto cubin = KernelCache(folder.path).get(tinyRecipe(), false, large);
  auto other = KernelCache(folder.path).get(tinyRecipe("moec_b"), false, large);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->bytes.size(), size_t(1) << 20);
  ASSERT_TRUE(other);
  EXPECT_THAT(
      warnings.all,
      HasSubstr("kernel cache: what was compiled could not be stored in " +
                folder.path + "/sm_90a (cannot write"));
  EXPECT_EQ(std::ranges::count(warnings.all, '\n'), 1) << warnings.all;
  // Nothing half-written is left, and the next one stores it.
  auto files = listFiles(folder.path);
  ASSERT_TRUE(files);
  EXPECT_TRUE(files->empty());
  ASSERT_TRUE(KernelCache(folder.path).get(tinyRecipe(), false, large));
  ASSERT_TRUE(KernelCache(folder.path).get(tinyRecipe(), true, large));
  EXPECT_EQ(compiles, 3);
}

TEST_F(Cache, NoCacheFolderCompiles) {
  ASSERT_TRUE(KernelCache("").get(tinyRecipe(), false, compiler()));
  ASSERT_TRUE(KernelCache("").get(tinyRecipe(), false, compiler()));
  EXPECT_EQ(compiles, 2);
}

TEST_F(Cache, WithoutNvrtcAnEntryOfAnyCompilerServes) {
  ASSERT_TRUE(get(tinyRecipe()));
  Recipe unknown = tinyRecipe();
  unknown.compiler.clear();
  auto cubin = get(unknown);
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->source, CubinSource::Cache);
  unknown.options.push_back("-lineinfo");
  EXPECT_FALSE(get(unknown, /*strict=*/true));
  EXPECT_EQ(compiles, 1);
}

TEST_F(Cache, FailureIsNotStored) {
  auto failing = [](const Recipe &) -> Result<Cubin> {
    return Error{ErrorCode::CompileFailed, "the log"};
  };
  auto cubin = KernelCache(folder.path).get(tinyRecipe(), false, failing);
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().message, "the log");
  ASSERT_TRUE(get(tinyRecipe()));
  EXPECT_EQ(compiles, 1);
}

TEST_F(Cache, ThreadsCompileOnce) {
  auto slow = [this](const Recipe &recipe) -> Result<Cubin> {
    ++compiles;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return Cubin{"cubin of " + recipe.entry, ""};
  };
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      auto cubin = KernelCache(folder.path).get(tinyRecipe(), false, slow);
      right += cubin && cubin->bytes == "cubin of moec_tiny";
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(compiles, 1);
}

//===----------------------------------------------------------------------===//
// Processes
//===----------------------------------------------------------------------===//

static std::vector<pid_t> startStress(const std::string &folder, int count) {
  std::string program =
      std::string(getenv("MOEC_BINARY_DIR")) + "/bin/moec-cache-stress";
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    pid_t child = 0;
    std::string copy = program, argument = folder;
    char *arguments[] = {copy.data(), argument.data(), nullptr};
    EXPECT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments,
                          environ),
              0);
    children.push_back(child);
  }
  return children;
}

/// Lines that the stress program wrote, one a compilation.
static int countCompiles(const std::string &folder) {
  std::ifstream file(folder + "/compiles.log");
  int lines = 0;
  for (std::string line; std::getline(file, line);)
    ++lines;
  return lines;
}

TEST(CacheProcesses, CompileOnce) {
  TemporaryFolder folder;
  for (pid_t child : startStress(folder.path, 12)) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(countCompiles(folder.path), 1);
}

TEST(CacheProcesses, SomeAreKilled) {
  std::mt19937 random(7);
  for (int round = 0; round < 4; ++round) {
    TemporaryFolder folder;
    auto children = startStress(folder.path, 12);
    std::vector<bool> killed(children.size());
    for (size_t i = 0; i < children.size(); i += 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 25));
      ::kill(children[i], SIGKILL);
      killed[i] = true;
    }
    for (size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      ASSERT_EQ(::waitpid(children[i], &status, 0), children[i]);
      if (!killed[i]) {
        EXPECT_EQ(status, 0) << "a survivor got no cubin or a wrong one";
      }
    }
    // Whoever comes later hits or compiles, and is right.
    auto last = startStress(folder.path, 1);
    int status = 0;
    ASSERT_EQ(::waitpid(last[0], &status, 0), last[0]);
    EXPECT_EQ(status, 0);
    EXPECT_LE(countCompiles(folder.path), 7) << "one, and one a victim at most";
  }
}
