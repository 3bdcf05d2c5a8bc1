//===- NvrtcTest.cpp - real compilations, where NVRTC is ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tiny kernel through NVRTC, the pool and the cache. Skipped without NVRTC.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/jit/JitTesting.h"

#include "runtime/jit/CompilePool.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Interrupt.h"
#include "test/runtime/TinyManifest.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;
using testing::HasSubstr;

namespace {
/// A package whose kernels are real, if trivial.
PackageFiles realPackage() {
  PackageFiles package = tinyPackage();
  Target &target = package.manifest.targets[0];
  target.kernels.resize(3);
  for (Kernel &kernel : target.kernels) {
    const std::string &header = kernel.headers[0];
    package.files[kernel.source] =
        "#include \"" + header + "\"\nextern \"C\" __global__ void " +
        kernel.entry + "(int *out) { *out = kAnswer; }\n";
    package.files[headerPath(header)] = "constexpr int kAnswer = 42;\n";
  }
  hashFiles(package);
  return package;
}

class NvrtcTest : public testing::Test {
protected:
  void SetUp() override {
    if (auto found = findNvrtc(); !found)
      GTEST_SKIP() << found.error().message;
  }
  Result<CompileOutcome> compile(const PackageFiles &package,
                                 bool strict = false) {
    CompileSettings settings;
    settings.cacheFolder = folder.path;
    settings.strict = strict;
    return compileKernels(package, package.manifest.targets[0], settings);
  }
  TemporaryFolder folder;
};
} // namespace

TEST_F(NvrtcTest, ColdThenWarm) {
  PackageFiles package = realPackage();
  auto cold = compile(package);
  ASSERT_TRUE(cold) << cold.error().message;
  ASSERT_EQ(cold->kernels.size(), 3u);
  for (const CompiledKernel &kernel : cold->kernels) {
    EXPECT_EQ(kernel.source, CubinSource::Compiled);
    EXPECT_EQ(kernel.cubin.substr(1, 3), "ELF");
    EXPECT_GT(kernel.compileMilliseconds, 0);
  }
  EXPECT_NE(cold->summary.nvrtcPath, "");
  auto warm = compile(package, /*strict=*/true);
  ASSERT_TRUE(warm) << warm.error().message;
  EXPECT_EQ(warm->summary.nvrtcPath, "") << "a warm load opens no NVRTC";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(warm->kernels[i].source, CubinSource::Cache);
    EXPECT_EQ(warm->kernels[i].cubin, cold->kernels[i].cubin);
  }
}

TEST_F(NvrtcTest, CubinsOfThePackageComeFirst) {
  PackageFiles package = realPackage();
  auto cold = compile(package);
  ASSERT_TRUE(cold);
  Kernel &kernel = package.manifest.targets[0].kernels[1];
  kernel.cubin = "sm_90a/" + kernel.name + ".cubin";
  package.files[kernel.cubin] = cold->kernels[1].cubin;
  hashFiles(package);
  auto loaded = compile(package, /*strict=*/true);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->kernels[0].source, CubinSource::Cache);
  EXPECT_EQ(loaded->kernels[1].source, CubinSource::Package);
  // One whose hash does not fit is not believed.
  package.files[kernel.cubin] += "x";
  Warnings warnings;
  loaded = compile(package, /*strict=*/true);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->kernels[1].source, CubinSource::Cache);
  EXPECT_THAT(warnings.all, HasSubstr("has another hash"));
}

TEST_F(NvrtcTest, DeadlinesAreCompiledIn) {
  PackageFiles package = realPackage();
  Kernel &kernel = package.manifest.targets[0].kernels[1];
  package.files[headerPath(kernel.headers[0])] =
      "#ifndef MOEC_SPIN_DEADLINE\n#define MOEC_SPIN_DEADLINE 0\n#endif\n"
      "constexpr int kAnswer = MOEC_SPIN_DEADLINE;\n";
  hashFiles(package);
  auto usual = compile(package);
  ASSERT_TRUE(usual) << usual.error().message;
  kernel.cubin = "sm_90a/" + kernel.name + ".cubin";
  package.files[kernel.cubin] = usual->kernels[1].cubin;
  hashFiles(package);
  CompileSettings settings;
  settings.cacheFolder = folder.path;
  settings.spinDeadline = 2000;
  auto slow = compileKernels(package, package.manifest.targets[0], settings);
  ASSERT_TRUE(slow) << slow.error().message;
  // Neither what the package holds nor what the cache has serves.
  EXPECT_EQ(slow->kernels[0].source, CubinSource::Compiled);
  EXPECT_EQ(slow->kernels[1].source, CubinSource::Compiled);
  EXPECT_NE(slow->kernels[1].cubin, usual->kernels[1].cubin);
  settings.spinDeadline = 0;
  auto again = compileKernels(package, package.manifest.targets[0], settings);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kernels[0].source, CubinSource::Cache);
  EXPECT_EQ(again->kernels[1].source, CubinSource::Package);
  EXPECT_EQ(again->kernels[1].cubin, usual->kernels[1].cubin);
}

TEST_F(NvrtcTest, ErrorsCarryTheLog) {
  PackageFiles package = realPackage();
  Kernel &kernel = package.manifest.targets[0].kernels[2];
  package.files[kernel.source] = "this is no CUDA\n";
  hashFiles(package);
  auto result = compile(package);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::CompileFailed);
  EXPECT_THAT(result.error().message,
              HasSubstr("kernel moec_permute_90a did not compile for sm_90a"));
  EXPECT_THAT(result.error().message, HasSubstr("kernel.cu(1): error"));
}

TEST_F(NvrtcTest, Ptx) {
  PackageFiles package = realPackage();
  const Target &target = package.manifest.targets[0];
  auto ptx = compileKernelToPtx(package, target, target.kernels[0]);
  ASSERT_TRUE(ptx) << ptx.error().message;
  EXPECT_THAT(*ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(*ptx, HasSubstr(".entry moec_route_permute_90a"));
  EXPECT_EQ(ptx->find('\0'), std::string::npos);
  // A cubin of the package is none.
  Kernel &kernel = package.manifest.targets[0].kernels[0];
  kernel.cubin = "sm_90a/" + kernel.name + ".cubin";
  package.files[kernel.cubin] = "a cubin";
  hashFiles(package);
  CompileSettings settings;
  settings.cacheFolder = "";
  settings.ptx = true;
  auto all = compileKernels(package, target, settings);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->kernels[0].source, CubinSource::Compiled);
  EXPECT_THAT(all->kernels[0].cubin, HasSubstr(".target sm_90a"));
  EXPECT_THAT(all->kernels[0].cubin, HasSubstr(".loc"));
}

TEST_F(NvrtcTest, IdentityIsRead) {
  auto found = findNvrtc();
  EXPECT_THAT(found->identity, HasSubstr("nvrtc "));
  EXPECT_THAT(found->identity, HasSubstr(" builtins "));
  EXPECT_NE(found->foundBy, "");
}

namespace {
/// A library that acts as a release of NVRTC.
class FakeNvrtc : public testing::Test {
protected:
  void SetUp() override {
    setenv("MOEC_WORKER", "off", 1);
    settings.cacheFolder = folder.path + "/cache";
  }
  void TearDown() override {
    unsetenv("MOEC_WORKER");
    unsetenv("FAKE_NVRTC");
    setInterruptSource({});
  }
  /// `setting` is that of FakeNvrtc.cpp. A library is opened once, so each
  /// release has a file of its own.
  void act(const char *setting, const std::string &name) {
    setenv("FAKE_NVRTC", setting, 1);
    const std::string built =
        std::string(getenv("MOEC_BINARY_DIR")) + "/bin/libmoec-fake-nvrtc.so";
    settings.nvrtcPath = folder.path + "/" + name;
    ASSERT_TRUE(writeFile(settings.nvrtcPath, *readFile(built)));
  }
  Result<CompileOutcome> compile(std::string_view arch = "sm_90a") {
    PackageFiles package = realPackage();
    Target &target = package.manifest.targets[0];
    target.arch = arch;
    return compileKernels(package, target, settings);
  }
  TemporaryFolder folder;
  CompileSettings settings;
};
} // namespace

TEST_F(FakeNvrtc, ThatIsTooOldSaysSo) {
  act("11 2 0", "libnvrtc.so.11.2");
  auto outcome = compile();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::NoCompiler);
  EXPECT_EQ(
      outcome.error().message,
      settings.nvrtcPath +
          " (found by nvrtc_path) is NVRTC 11.2, which is too old: "
          "expected NVRTC 12.6 or later (pip install nvidia-cuda-nvrtc, or "
          "set MOEC_NVRTC_PATH)");
}

TEST_F(FakeNvrtc, NamesTheReleaseThatAnArchNeeds) {
  act("13 0 0", "libnvrtc.so.13");
  settings.jobs = 1;
  EXPECT_TRUE(compile("sm_90a"));
  auto outcome = compile("sm_107a");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::NoCompiler);
  EXPECT_THAT(outcome.error().message,
              HasSubstr("NVRTC 13.0 (" + settings.nvrtcPath +
                        ") does not compile for sm_107a, which needs NVRTC "
                        "13.4 or later"));
}

TEST_F(FakeNvrtc, WhatIsCompiledIsDumped) {
  act("13 0 0", "libnvrtc-dump.so.13");
  settings.jobs = 1;
  settings.cacheFolder = "";
  const std::string dump = folder.path + "/new/dump";
  setenv("MOEC_DUMP_DIR", dump.c_str(), 1);
  auto outcome = compile();
  // A folder that cannot be made is a warning.
  setenv("MOEC_DUMP_DIR", "/proc/self/moec-dump", 1);
  Warnings warnings;
  EXPECT_TRUE(compile());
  unsetenv("MOEC_DUMP_DIR");
  EXPECT_THAT(warnings.all, HasSubstr("MOEC_DUMP_DIR: cannot create folder"));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->summary.nvrtcPath, settings.nvrtcPath);
  EXPECT_EQ(outcome->summary.nvrtcFoundBy, "nvrtc_path");
  const PackageFiles package = realPackage();
  for (size_t i = 0; i < 3; ++i) {
    const Kernel &kernel = package.manifest.targets[0].kernels[i];
    const std::string stem = dump + "/sm_90a/" + kernel.entry;
    EXPECT_EQ(*readFile(stem + ".cu"), package.files.at(kernel.source));
    EXPECT_EQ(*readFile(stem + ".cubin"), outcome->kernels[i].cubin);
  }
}

/// A compiler that makes a package takes none of its cubins.
TEST_F(FakeNvrtc, CubinsOfThePackageMayBeMadeAgain) {
  act("13 0 0", "libnvrtc-again.so.13");
  PackageFiles package = realPackage();
  Target &target = package.manifest.targets[0];
  target.kernels[1].cubin = "sm_90a/a.cubin";
  package.files["sm_90a/a.cubin"] = "an older cubin";
  hashFiles(package);
  settings.jobs = 2;
  for (const bool taken : {true, false}) {
    settings.usePackageCubins = taken;
    settings.cacheFolder = "";
    const auto outcome = compileKernels(package, target, settings);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->kernels[0].source, CubinSource::Compiled);
    EXPECT_EQ(outcome->kernels[1].source,
              taken ? CubinSource::Package : CubinSource::Compiled);
    EXPECT_EQ(outcome->kernels[1].cubin == "an older cubin", taken);
    EXPECT_EQ(outcome->summary.jobs, 2);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(outcome->kernels[i].name, target.kernels[i].name);
  }
}

TEST_F(FakeNvrtc, StrictLoadsDoNotCompile) {
  act("13 0 0", "libnvrtc-strict.so.13");
  settings.strict = true;
  auto outcome = compile();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::StrictMiss);
  settings.strict = false;
  setenv("MOEC_STRICT", "1", 1);
  outcome = compile();
  unsetenv("MOEC_STRICT");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::StrictMiss);
}

TEST_F(FakeNvrtc, IsInterrupted) {
  act("13 0 200", "libnvrtc-slow.so.13");
  settings.jobs = 1;
  std::atomic<int> asked = 0;
  setInterruptSource([&] { return ++asked > 0; });
  auto outcome = compile();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::Interrupted);
  EXPECT_THAT(outcome.error().message, HasSubstr("was interrupted"));
  EXPECT_EQ(asked, 1);
  // The kernel in progress was stored, and no lock is left.
  setInterruptSource({});
  const auto files = listFiles(settings.cacheFolder.value() + "/sm_90a");
  ASSERT_TRUE(files);
  for (const std::string &file : *files)
    EXPECT_FALSE(file.ends_with(".lock")) << file;
  EXPECT_TRUE(compile());
}

TEST_F(FakeNvrtc, TakesNoSignal) {
  act("13 0 300", "libnvrtc-signal.so.13");
  settings.jobs = 2;
  static std::atomic<int> heard = 0;
  const auto before = std::signal(SIGINT, [](int) { ++heard; });
  std::thread sender([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::kill(::getpid(), SIGINT);
  });
  EXPECT_TRUE(compile());
  sender.join();
  std::signal(SIGINT, before);
  EXPECT_EQ(heard, 1);
}

TEST_F(FakeNvrtc, SignalsEndTheProcessBehindTheWork) {
  // Long, because a busy machine may send the signal late.
  act("13 0 1000", "libnvrtc-ended.so.13");
  settings.jobs = 2;
  EXPECT_EXIT(
      {
        std::thread sender([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          ::kill(::getpid(), SIGINT);
        });
        sender.detach();
        {
          const SignalsInterrupt signals;
          auto outcome = compile();
          if (!outcome && outcome.error().code == ErrorCode::Interrupted)
            std::fputs("the work has ended\n", stderr);
        }
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGINT), "the work has ended");
}

TEST(NvrtcVersions, OfArchs) {
  const auto first = [](std::string_view arch) { return nvrtcText(arch); };
  EXPECT_EQ(first("sm_75"), "12.6");
  EXPECT_EQ(first("sm_90a"), "12.6");
  EXPECT_EQ(first("sm_100a"), "12.8");
  EXPECT_EQ(first("sm_100f"), "12.9");
  EXPECT_EQ(first("sm_110f"), "13.0");
  EXPECT_EQ(first("sm_107"), "13.4");
  EXPECT_FALSE(firstNvrtcOf("native"));
}

TEST(FindNvrtc, WrongSettingIsAnError) {
  std::string before =
      getenv("MOEC_NVRTC_PATH") ? getenv("MOEC_NVRTC_PATH") : "";
  setenv("MOEC_NVRTC_PATH", "/nowhere/libnvrtc.so.13", 1);
  auto found = findNvrtc();
  // Without NVRTC a miss says so.
  TemporaryFolder folder;
  CompileSettings settings;
  settings.cacheFolder = folder.path;
  PackageFiles package = realPackage();
  auto outcome = compileKernels(package, package.manifest.targets[0], settings);
  if (before.empty())
    unsetenv("MOEC_NVRTC_PATH");
  else
    setenv("MOEC_NVRTC_PATH", before.c_str(), 1);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::NoCompiler);
  EXPECT_EQ(found.error().message,
            "MOEC_NVRTC_PATH is '/nowhere/libnvrtc.so.13': expected a "
            "libnvrtc.so.N (N >= 12) or a folder that holds one, and there is "
            "none");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::NoCompiler);
}

/// The newest release is taken, by its shortest name if several link to it.
TEST(FindNvrtc, TheNewestOfAFolder) {
  const std::tuple<std::vector<const char *>, const char *, const char *>
      rows[] = {
          {{"libnvrtc.so.13.0.88", "libnvrtc.so.13.1.20"},
           "libnvrtc.so.13.1.20",
           ""},
          {{"libnvrtc.so.13.9", "libnvrtc.so.13.10"}, "libnvrtc.so.13.10", ""},
          {{"libnvrtc.so.12.9.86", "libnvrtc.so.13.0.1"},
           "libnvrtc.so.13.0.1",
           ""},
          {{"libnvrtc.so.13", "libnvrtc.so.13.1.20"}, "libnvrtc.so.13", ""},
          {{"libnvrtc.so.12", "libnvrtc.so.12.9.86", "libnvrtc.so.11.2",
            "libnvrtc.alt.so.13", "libnvrtc.so.13.old", "libnvrtc.so"},
           "libnvrtc.so.12",
           ""},
          {{"libnvrtc.so.12", "libnvrtc-builtins.so.12.6",
            "libnvrtc-builtins.so.12.9", "libnvrtc-builtins.so.13.0"},
           "libnvrtc.so.12",
           "libnvrtc-builtins.so.12.9"},
          {{"libnvrtc.so.11.2", "libnvrtc.alt.so.13"}, nullptr, ""},
      };
  for (const auto &[names, library, builtins] : rows) {
    const TemporaryFolder folder;
    for (const char *name : names)
      ASSERT_TRUE(writeFile(folder.path + "/" + name, name));
    const auto found = findNvrtc(folder.path);
    ASSERT_EQ(bool(found), library != nullptr) << names.front();
    if (!found)
      continue;
    EXPECT_EQ(found->library, folder.path + "/" + library);
    EXPECT_EQ(found->builtins,
              *builtins ? folder.path + "/" + builtins : std::string());
    EXPECT_EQ(found->foundBy, "nvrtc_path");
  }
}

/// Entries of the cache are those of a compiler and of its builtins.
TEST(FindNvrtc, TheIdentityIsOfBothLibraries) {
  const auto identityOf = [](const char *library, const char *builtins) {
    const TemporaryFolder folder;
    const std::string first = folder.path + "/libnvrtc.so.13",
                      second = folder.path + "/libnvrtc-builtins.so.13.0";
    EXPECT_TRUE(writeFile(first, library));
    if (builtins)
      EXPECT_TRUE(writeFile(second, builtins));
    const auto found = findNvrtc(first);
    EXPECT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->identity,
              "nvrtc " + *readBuildId(first) +
                  (builtins ? " builtins " + *readBuildId(second) : ""));
    return found->identity;
  };
  const std::set<std::string> identities = {
      identityOf("one", "builtins"), identityOf("one", "others"),
      identityOf("two", "builtins"), identityOf("one", nullptr),
      identityOf("builtins", "one")};
  EXPECT_EQ(identities.size(), 5u);
  EXPECT_TRUE(identities.contains(identityOf("one", "builtins")));
}

/// The process's places are searched first: the build, a library that is
/// already loaded, and the loader's folders. The installation's places follow.
TEST(FindNvrtc, PlacesComeInOrder) {
  const std::string cuda = getenv("CUDA_HOME") ? getenv("CUDA_HOME") : "",
                    home = getenv("HOME") ? getenv("HOME") : "";
  setenv("CUDA_HOME", "/cuda", 1);
  setenv("HOME", "/home/me", 1);
  const std::vector<NvrtcPlace> places = nvrtcPlaces();
  unsetenv("CUDA_HOME");
  unsetenv("HOME");
  const std::vector<NvrtcPlace> fewer = nvrtcPlaces();
  if (!cuda.empty())
    setenv("CUDA_HOME", cuda.c_str(), 1);
  if (!home.empty())
    setenv("HOME", home.c_str(), 1);

  std::string text;
  std::vector<std::string> order;
  for (const NvrtcPlace &place : places) {
    EXPECT_NE(place.path, "");
    if (order.empty() || order.back() != place.foundBy)
      order.push_back(place.foundBy);
    if (place.path.starts_with("/cuda") || place.isPattern)
      text += place.path + " " + place.foundBy + "\n";
    EXPECT_EQ(place.isPattern, order.back() == "a usual place") << place.path;
  }
  EXPECT_EQ(
      text,
      "/cuda/lib64 CUDA_HOME\n"
      "/cuda/lib CUDA_HOME\n"
      "/usr/local/cuda/lib64 a usual place\n"
      "/usr/local/cuda-*/lib64 a usual place\n"
      "/usr/lib/python3*/*-packages/nvidia/cu13/lib a usual place\n"
      "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib a usual place\n"
      "/usr/local/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib a usual "
      "place\n"
      "/opt/*/lib/python3*/site-packages/nvidia/cu13/lib a usual place\n"
      "/home/me/.local/lib/python3*/site-packages/nvidia/cu13/lib a usual "
      "place\n");
  EXPECT_EQ(places.size(), fewer.size() + 3);
  // Tests may run in a process that has no build folder or no NVRTC.
  std::vector<std::string> all = {"the build's nvrtc-path", "already loaded",
                                  "the loader's path", "CUDA_HOME",
                                  "a usual place"};
  std::erase_if(all, [&](const std::string &each) {
    return std::ranges::find(order, each) == order.end();
  });
  EXPECT_EQ(order, all);
  EXPECT_GE(order.size(), 3u);
}

TEST(FindNvrtc, TheFirstPlaceIsTaken) {
  const TemporaryFolder root;
  const auto make = [&](const std::string &folder) {
    ASSERT_TRUE(createFolders(joinPath(root.path, folder)));
    ASSERT_TRUE(
        writeFile(joinPath(root.path, folder + "/libnvrtc.so.13"), folder));
  };
  for (const char *folder : {"a", "cuda-12", "cuda-13", "z"})
    make(folder);
  ASSERT_TRUE(createFolders(joinPath(root.path, "empty")));
  const auto find = [&](const std::vector<std::pair<std::string, bool>> &paths)
      -> std::string {
    std::vector<NvrtcPlace> places;
    for (const auto &[path, isPattern] : paths)
      places.push_back({joinPath(root.path, path), "here", isPattern});
    const auto found = findNvrtcIn(places);
    if (!found)
      return found.error().message;
    EXPECT_EQ(found->foundBy, "here");
    return parentFolder(found->library).substr(root.path.size() + 1);
  };
  EXPECT_EQ(find({{"z", false}, {"a", false}}), "z");
  EXPECT_EQ(find({{"none", false}, {"empty", false}, {"a", false}}), "a");
  EXPECT_EQ(find({{"cuda-*", true}, {"a", false}}), "cuda-13");
  EXPECT_EQ(find({{"none-*", true}, {"z", false}, {"cuda-*", true}}), "z");
  EXPECT_EQ(find({{"a/libnvrtc.so.13", false}}), "a");
  const std::string at = root.path + "/";
  EXPECT_EQ(find({{"none", false}, {"no-*", true}, {"empty*", true}}),
            "no libnvrtc.so.N (N >= 12) was found in " + at + "none, " + at +
                "no-*, " + at +
                "empty; install it (pip install nvidia-cuda-nvrtc) or set "
                "MOEC_NVRTC_PATH, or compile the package ahead of time");
}

/// A file that others may write could name a library of theirs.
TEST(FindNvrtc, ThePathOfABuildIsItsOwners) {
  const TemporaryFolder folder;
  const std::string file = folder.path + "/nvrtc-path";
  EXPECT_EQ(nvrtcPathIn(folder.path), "");
  ASSERT_TRUE(writeFile(file, "/some/libnvrtc.so.13\nmore\n"));
  for (const auto &[mode, isTaken] : {std::pair(0600, true),
                                      {0644, true},
                                      {0444, true},
                                      {0664, false},
                                      {0646, false},
                                      {0666, false},
                                      {0602, false}}) {
    ASSERT_EQ(::chmod(file.c_str(), mode_t(mode)), 0);
    EXPECT_EQ(nvrtcPathIn(folder.path), isTaken ? "/some/libnvrtc.so.13" : "")
        << std::oct << mode;
  }
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
    EXPECT_EQ(nvrtcPathIn(folder.path), "");
    ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  }
}
