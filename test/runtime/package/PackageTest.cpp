//===- PackageTest.cpp - packages as folders, targets, devices ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package survives writing and reading; every kind of damage to its folder is
// a clear error; a failed write leaves nothing.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"
#include "test/runtime/TinyManifest.h"

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class PackageFolder : public testing::Test {
protected:
  void SetUp() override {
    root = *createTemporaryFolderBeside(testing::TempDir() + "moec-package");
    folder = joinPath(root, "tiny");
  }
  void TearDown() override { (void)static_cast<bool>(removeAll(root)); }

  void write() {
    Result<void> written = writePackage(tinyPackage(), folder);
    ASSERT_TRUE(written) << written.error().message;
  }
  std::string at(const char *path) { return joinPath(folder, path); }
  /// The error of reading; its code must be DamagedPackage.
  std::string damage() {
    Result<PackageFiles> read = readPackage(folder);
    if (read)
      return "";
    EXPECT_EQ(read.error().code, ErrorCode::DamagedPackage)
        << read.error().message;
    return read.error().message;
  }
  std::string root, folder;
};

} // namespace

TEST_F(PackageFolder, survivesWritingAndReading) {
  write();
  PackageFiles package = tinyPackage();
  Result<PackageFiles> read = readPackage(folder);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->files, package.files);
  EXPECT_EQ(toJson(read->manifest), toJson(package.manifest));
  EXPECT_EQ(read->manifest.files.at("sm_90a/route.cu"),
            sha256("// moec_route_90a\n"));
  write(); // again, over the old one
  EXPECT_EQ(listFiles(root)->size(), package.files.size() + 1);
}

TEST_F(PackageFolder, namesDamagedFiles) {
  write();
  std::string source = *readFile(at("sm_90a/down.cu"));
  ASSERT_TRUE(writeFile(at("sm_90a/down.cu"), source.substr(1)));
  EXPECT_THAT(damage(), HasSubstr("file 'sm_90a/down.cu': expected SHA-256"));
  source[3] ^= 1;
  ASSERT_TRUE(writeFile(at("sm_90a/down.cu"), source));
  EXPECT_THAT(damage(), HasSubstr("file 'sm_90a/down.cu': expected SHA-256"));
  ASSERT_TRUE(removeAll(at("sm_90a/down.cu")));
  EXPECT_THAT(damage(), HasSubstr("file 'sm_90a/down.cu': expected it, since "
                                  "the manifest lists it; it is missing"));
}

TEST_F(PackageFolder, namesExtraFilesAndLinks) {
  write();
  ASSERT_TRUE(writeFile(at("sm_90a/more.cu"), ""));
  EXPECT_THAT(damage(), HasSubstr("file 'sm_90a/more.cu': expected only files "
                                  "that the manifest lists"));
  ASSERT_TRUE(removeAll(at("sm_90a/more.cu")));
  std::string moved = joinPath(root, "outside.cu");
  ASSERT_TRUE(renamePath(at("sm_90a/down.cu"), moved));
  ASSERT_EQ(::symlink(moved.c_str(), at("sm_90a/down.cu").c_str()), 0);
  EXPECT_THAT(damage(), HasSubstr("expected a regular file"));
}

TEST_F(PackageFolder, namesADamagedManifest) {
  Result<PackageFiles> nothing = readPackage(folder);
  EXPECT_EQ(nothing.error().code, ErrorCode::FileSystem);
  write();
  std::string text = *readFile(at("manifest.json"));
  ASSERT_TRUE(writeFile(at("manifest.json"), text.substr(0, 1000)));
  Result<PackageFiles> read = readPackage(folder);
  EXPECT_EQ(read.error().code, ErrorCode::InvalidManifest);
  EXPECT_THAT(read.error().message, HasSubstr("expected JSON"));
  ASSERT_TRUE(removeAll(at("manifest.json")));
  EXPECT_THAT(damage(), HasSubstr("file 'manifest.json' is missing"));
}

TEST_F(PackageFolder, staysInsideItsFolder) {
  for (const char *path : {"../x.cu", "/etc/passwd", "a/../../x"}) {
    PackageFiles package = tinyPackage();
    package.files[path] = "x";
    Result<void> written = writePackage(package, folder);
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().message,
                HasSubstr("expected a path inside the package"));
  }
  EXPECT_THAT(*listFiles(root), IsEmpty());
}

TEST_F(PackageFolder, needsTheFilesThatKernelsName) {
  for (const char *path :
       {"sm_90a/down.cu", "include/moe/kernel/combine.cuh"}) {
    PackageFiles package = tinyPackage();
    package.files.erase(path);
    Result<void> written = writePackage(package, folder);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::InvalidManifest);
    EXPECT_THAT(written.error().message,
                HasSubstr(std::string("'") + path + "' is not in `files`"));
  }
  EXPECT_THAT(*listFiles(root), IsEmpty());
}

TEST_F(PackageFolder, replacesNothingButAPackage) {
  ASSERT_TRUE(createFolders(folder));
  ASSERT_TRUE(writePackage(tinyPackage(), folder)); // empty is fine
  ASSERT_TRUE(removeAll(folder));
  ASSERT_TRUE(createFolders(folder));
  ASSERT_TRUE(writeFile(at("thesis.txt"), "precious"));
  Result<void> written = writePackage(tinyPackage(), folder);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("found a folder without a "
                                                 "moec manifest.json"));
  EXPECT_EQ(*readFile(at("thesis.txt")), "precious");
  EXPECT_EQ(listFiles(root)->size(), 1u);
  written = writePackage(tinyPackage(), at("thesis.txt"));
  EXPECT_THAT(written.error().message, HasSubstr("found a file"));
}

TEST_F(PackageFolder, keepsWhatItsManifestDoesNotList) {
  write();
  ASSERT_TRUE(createFolders(at("mine")));
  ASSERT_TRUE(writeFile(at("mine/w"), "precious"));
  Result<void> written = writePackage(tinyPackage(), folder);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message,
              HasSubstr("found a package with the file 'mine/w', which its "
                        "manifest does not list; remove it or choose"));
  EXPECT_EQ(*readFile(at("mine/w")), "precious");
  ASSERT_TRUE(removeAll(at("mine")));
  write();
  // A manifest.json that only mentions the word is no manifest.
  ASSERT_TRUE(removeAll(folder));
  ASSERT_TRUE(createFolders(folder));
  ASSERT_TRUE(writeFile(at("manifest.json"), "{\"moec_manifest\": \"is\"}"));
  ASSERT_TRUE(writeFile(at("data"), "precious"));
  written = writePackage(tinyPackage(), folder);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message,
              HasSubstr("found a folder without a moec manifest.json"));
  EXPECT_EQ(*readFile(at("data")), "precious");
}

TEST_F(PackageFolder, aFailureLeavesNothing) {
  // The last word before it appears.
  Result<void> written = writePackage(tinyPackage(), folder, [] {
    return Result<void>(Error{ErrorCode::FileSystem, "standard output"});
  });
  EXPECT_EQ(written.error().message, "standard output");
  EXPECT_THAT(*listFiles(root), IsEmpty());
  EXPECT_FALSE(fileExists(folder));
  // A folder that cannot be renamed: the one where the process stands.
  std::string before = std::filesystem::current_path();
  ASSERT_EQ(::chdir(root.c_str()), 0);
  written = writePackage(tinyPackage(), ".");
  ASSERT_EQ(::chdir(before.c_str()), 0);
  EXPECT_THAT(written.error().message,
              HasSubstr("expected a path that ends in the folder's name, got "
                        "'.'"));
  EXPECT_TRUE(std::filesystem::is_empty(root));
  written = writePackage(tinyPackage(), "/proc/self");
  ASSERT_FALSE(written);
}

TEST_F(PackageFolder, theNextWriterRemovesWhatADeadOneLeft) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    (void)static_cast<bool>(writePackage(tinyPackage(), folder, [] {
      ::raise(SIGKILL);
      return Result<void>();
    }));
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(listFiles(root)->empty());
  EXPECT_FALSE(fileExists(folder));
  // One that somebody holds stays, and what only looks like one.
  Result<StagedFolder> held = StagedFolder::create(folder);
  ASSERT_TRUE(held);
  ASSERT_TRUE(createFolders(folder + ".tmp-mine"));
  write();
  size_t entries = 0;
  for (const auto &entry : std::filesystem::directory_iterator(root)) {
    (void)entry;
    ++entries;
  }
  EXPECT_EQ(entries, 3u); // the package, the one held, the other's
  EXPECT_TRUE(isFolder(held->path()));
}

TEST_F(PackageFolder, readersSeeOneOfTwoPackages) {
  constexpr int kReplacements = 100, kReads = 1000, kReaders = 4;
  auto numbered = [](int64_t number) {
    PackageFiles package = tinyPackage();
    package.manifest.compiler = std::to_string(number);
    for (auto &[path, content] : package.files)
      content += "// " + std::to_string(number) + "\n";
    return package;
  };
  ASSERT_TRUE(writePackage(numbered(0), folder));
  std::atomic<int> reads = 0, failed = 0;
  std::atomic<bool> replaced = false;
  std::mutex mutex;
  std::string problem;
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i)
    readers.emplace_back([&] {
      while (reads++ < kReads || !replaced) {
        Result<PackageFiles> read = readPackage(folder);
        if (read && read->files.at("sm_90a/down.cu")
                            .find("// " + read->manifest.compiler + "\n") !=
                        std::string::npos)
          continue;
        ++failed;
        std::lock_guard lock(mutex);
        problem = read ? "mixed" : read.error().message;
      }
    });
  for (int i = 1; i <= kReplacements; ++i) {
    Result<void> written = writePackage(numbered(i), folder);
    EXPECT_TRUE(written) << written.error().message;
  }
  replaced = true;
  for (std::thread &reader : readers)
    reader.join();
  EXPECT_GE(reads, kReads);
  EXPECT_EQ(failed, 0) << problem;
  EXPECT_EQ(readPackage(folder)->manifest.compiler, "100");
}

TEST_F(PackageFolder, readsNoFifoAndNothingWithoutEnd) {
  write();
  std::string manifest = *readFile(at("manifest.json"));
  ASSERT_TRUE(removeAll(at("manifest.json")));
  ASSERT_EQ(::mkfifo(at("manifest.json").c_str(), 0600), 0);
  EXPECT_THAT(readPackage(folder).error().message,
              HasSubstr("manifest.json': expected a regular file, found a "
                        "FIFO"));
  ASSERT_TRUE(removeAll(at("manifest.json")));
  ASSERT_EQ(::symlink("/dev/zero", at("manifest.json").c_str()), 0);
  EXPECT_THAT(readPackage(folder).error().message,
              HasSubstr("expected a regular file, found a link"));
  ASSERT_TRUE(removeAll(at("manifest.json")));
  ASSERT_TRUE(writeFile(at("manifest.json"), manifest));
  ASSERT_TRUE(readPackage(folder));
  // A terabyte that takes no disk.
  ASSERT_EQ(::truncate(at("sm_90a/down.cu").c_str(), off_t(1) << 40), 0);
  EXPECT_THAT(readPackage(folder).error().message,
              HasSubstr("'sm_90a/down.cu': expected at most 268435456 bytes, "
                        "got 1099511627776"));
  ASSERT_EQ(::truncate(at("manifest.json").c_str(), off_t(1) << 40), 0);
  EXPECT_THAT(readPackage(folder).error().message,
              HasSubstr("'manifest.json': expected at most 16777216 bytes"));
}

//===----------------------------------------------------------------------===//
// Targets and devices
//===----------------------------------------------------------------------===//

static Manifest withArchs(std::initializer_list<const char *> archs) {
  Manifest m = tinyManifest();
  Target one = m.targets[0];
  m.targets.clear();
  for (std::string arch : archs) {
    one.arch = arch;
    one.compatibility = arch.back() == 'a'   ? "exact"
                        : arch.back() == 'f' ? "family"
                                             : "major";
    int number = std::stoi(arch.substr(3));
    one.computeMajor = number / 10;
    one.computeMinor = number % 10;
    m.targets.push_back(one);
  }
  return m;
}

static std::string chosen(std::initializer_list<const char *> archs, int major,
                          int minor) {
  Manifest m = withArchs(archs);
  Result<const Target *> target = selectTarget(m, major, minor);
  return target ? (*target)->arch : target.error().message;
}

TEST(Targets, theClosestServes) {
  EXPECT_EQ(chosen({"sm_80", "sm_86"}, 8, 6), "sm_86");
  EXPECT_EQ(chosen({"sm_80", "sm_86"}, 8, 9), "sm_86");
  EXPECT_EQ(chosen({"sm_80", "sm_86"}, 8, 0), "sm_80");
  EXPECT_EQ(chosen({"sm_90", "sm_90a"}, 9, 0), "sm_90a");
  EXPECT_EQ(chosen({"sm_100f", "sm_100"}, 10, 3), "sm_100f");
  EXPECT_EQ(chosen({"sm_100", "sm_100f"}, 10, 3), "sm_100f");
  EXPECT_EQ(chosen({"sm_100f", "sm_103"}, 10, 3), "sm_103");
  EXPECT_EQ(chosen({"sm_100", "sm_100f", "sm_100a"}, 10, 0), "sm_100a");
  EXPECT_EQ(chosen({"sm_100a", "sm_80"}, 10, 3),
            "package 'tiny' has code for sm_100a, sm_80, none of which runs on "
            "a device of compute capability 10.3; compile it with `moec "
            "compile --arch=sm_103a`");
  EXPECT_THAT(chosen({"sm_86"}, 8, 0), HasSubstr("--arch=sm_80`"));
}

TEST(Targets, devicesAreCheckedForWhatKernelsNeed) {
  DeviceLimits limits;
  limits.name = "H100";
  limits.computeMajor = 9;
  limits.smCount = 132;
  limits.sharedBytesPerBlock = 232448;
  limits.sharedBytesPerSm = 233472;
  limits.maxCluster = 8;
  Manifest m = tinyManifest();
  Target &t = m.targets[0];
  EXPECT_TRUE(validateForDevice(m, t, limits));
  auto problem = [&](auto change) {
    Manifest copy = tinyManifest();
    DeviceLimits device = limits;
    change(copy.targets[0].kernels[3], copy.targets[0], device);
    Result<void> checked = validateForDevice(copy, copy.targets[0], device);
    if (checked)
      return std::string();
    EXPECT_EQ(checked.error().code, ErrorCode::DeviceLimit);
    return checked.error().message;
  };
  EXPECT_EQ(problem([](Kernel &k, Target &, DeviceLimits &d) {
              k.sharedBytes = 200000;
              d.sharedBytesPerBlock = 101376;
            }),
            "kernel 'gate_up' on H100 (compute capability 9.0): needs 200000 "
            "bytes of shared memory in a CTA, the device has 101376");
  EXPECT_THAT(problem([](Kernel &k, Target &, DeviceLimits &) {
                k.sharedBytes = 120000;
                k.minCtasPerSm = 2;
              }),
              HasSubstr("needs 2 CTAs with 120000 bytes"));
  // They would fit but for what the driver keeps of each.
  EXPECT_THAT(
      problem([](Kernel &k, Target &, DeviceLimits &) {
        k.sharedBytes = 116000;
        k.minCtasPerSm = 2;
      }),
      HasSubstr("with 116000 bytes of shared memory (and 1024 reserved) "
                "on an SM, the device has 233472"));
  EXPECT_THAT(problem([](Kernel &, Target &, DeviceLimits &d) {
                d.threadsPerBlock = 64;
              }),
              HasSubstr("needs 128 threads"));
  EXPECT_THAT(problem([](Kernel &k, Target &, DeviceLimits &d) {
                k.minCtasPerSm = 16;
                d.threadsPerSm = 1536;
              }),
              HasSubstr("holds 1536 threads"));
  EXPECT_THAT(problem([](Kernel &k, Target &, DeviceLimits &) {
                k.cluster = {16, 1, 1};
              }),
              HasSubstr("clusters of 16 CTAs, the device allows 8"));
  EXPECT_THAT(problem([](Kernel &k, Target &, DeviceLimits &d) {
                k.cooperative = true;
                d.cooperative = false;
              }),
              HasSubstr("cooperative launches"));
  EXPECT_THAT(problem([](Kernel &k, Target &t, DeviceLimits &) {
                k.cooperative = true;
                t.variants[0].launches[1].grid.ctas[0] = Expression(133);
              }),
              HasSubstr("needs 133 CTAs at once, 132 SMs hold 132"));
  // Variants of more SMs than the device has are not chosen on it.
  const auto problemOfMinSms = [&](int64_t minSms) {
    return problem([&](Kernel &k, Target &t, DeviceLimits &) {
      k.cooperative = true;
      t.variants[0].minSms = minSms;
      t.variants[0].launches[1].grid.ctas[0] = Expression(133);
    });
  };
  EXPECT_THAT(problemOfMinSms(132), HasSubstr("needs 133 CTAs at once"));
  EXPECT_EQ(problemOfMinSms(133), "");
  EXPECT_THAT(
      problem([](Kernel &, Target &, DeviceLimits &d) { d.computeMajor = 8; }),
      HasSubstr("programmatic launches"));
  EXPECT_THAT(
      problem([](Kernel &, Target &, DeviceLimits &d) { d.maxGrid[0] = 63; }),
      HasSubstr("the device allows 63"));
  EXPECT_EQ(
      problem([](Kernel &, Target &, DeviceLimits &d) { d.maxGrid[0] = 64; }),
      "");
  for (const size_t i : {1, 2})
    EXPECT_THAT(
        problem([&](Kernel &, Target &, DeviceLimits &d) { d.maxGrid[i] = 0; }),
        HasSubstr(std::string("needs 1 CTAs in ") + "xyz"[i] + " with"));
}
