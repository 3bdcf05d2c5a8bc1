//===- RecipeTest.cpp - what the key of the cache depends on --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that changes a cubin changes the key; nothing else does.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/jit/JitTesting.h"

#include "runtime/jit/CompilePool.h"
#include "runtime/jit/Nvrtc.h"
#include "test/runtime/TinyManifest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sys/stat.h>
#include <utime.h>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;

TEST(Recipe, EveryPartChangesTheKey) {
  std::set<std::string> keys = {tinyRecipe().key()};
  auto add = [&](auto change) {
    Recipe recipe = tinyRecipe();
    change(recipe);
    keys.insert(recipe.key());
  };
  add([](Recipe &r) { r.entry = "other"; });
  add([](Recipe &r) { r.arch = "sm_80"; });
  add([](Recipe &r) { r.options.push_back("-lineinfo"); });
  add([](Recipe &r) { std::swap(r.options[0], r.options[1]); });
  add([](Recipe &r) { r.source = sharedText("// other\n"); });
  add([](Recipe &r) { r.headers["a.cuh"] = sharedText("// b\n"); });
  add([](Recipe &r) { r.headers["d.cuh"] = sharedText("// a\n"); });
  add([](Recipe &r) { r.headers.erase("b/c.cuh"); });
  add([](Recipe &r) { r.compiler = "nvrtc 1234 builtins 9999"; });
  EXPECT_EQ(keys.size(), 10u);
  EXPECT_EQ(tinyRecipe().key(), tinyRecipe().key());
  EXPECT_EQ(tinyRecipe().key().size(), 64u);
}

TEST(Recipe, PathAndDateDoNotMatter) {
  TemporaryFolder first, second;
  PackageFiles package = tinyPackage();
  ASSERT_TRUE(writePackage(package, first.path + "/p"));
  ASSERT_TRUE(writePackage(package, second.path + "/other/name"));
  utimbuf old = {1000000000, 1000000000};
  std::string source = second.path + "/other/name/" +
                       package.manifest.targets[0].kernels[0].source;
  ASSERT_EQ(::utime(source.c_str(), &old), 0);
  auto keyIn = [](const std::string &folder) {
    auto files = readPackage(folder);
    EXPECT_TRUE(files) << files.error().message;
    const Target &target = files->manifest.targets[0];
    auto recipe = makeRecipe(*files, target, target.kernels[0]);
    EXPECT_TRUE(recipe);
    EXPECT_EQ(recipe->json().find(folder), std::string::npos);
    return recipe->key();
  };
  EXPECT_EQ(keyIn(first.path + "/p"), keyIn(second.path + "/other/name"));
}

TEST(Recipe, MissingHeaderIsNamed) {
  PackageFiles package = tinyPackage();
  const Target &target = package.manifest.targets[0];
  package.files.erase(headerPath(target.kernels[0].headers[0]));
  auto recipe = makeRecipe(package, target, target.kernels[0]);
  ASSERT_FALSE(recipe);
  EXPECT_EQ(recipe.error().code, ErrorCode::DamagedPackage);
  EXPECT_EQ(recipe.error().message,
            "kernel route_permute needs the file "
            "include/moe/kernel/route_permute.cuh, which the package lacks");
}

TEST(BuildId, OfThisProgram) {
  auto id = readBuildId("/proc/self/exe");
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_GE(id->size(), 16u);
  EXPECT_EQ(id->find_first_not_of("0123456789abcdefsh:"), std::string::npos);
}

TEST(BuildId, ForeignBytesAreHashed) {
  TemporaryFolder folder;
  std::string path = folder.path + "/file";
  for (size_t length : {0u, 3u, 4u, 63u, 64u, 200u}) {
    std::string bytes(length, '\xff');
    bytes.replace(0, std::min<size_t>(length, 6),
                  "\x7f"
                  "ELF\x02\x01",
                  std::min<size_t>(length, 6));
    ASSERT_TRUE(writeFile(path, bytes));
    auto id = readBuildId(path);
    ASSERT_TRUE(id) << id.error().message;
    EXPECT_EQ(id->substr(0, 7), "sha256:");
  }
  EXPECT_FALSE(readBuildId(folder.path + "/absent"));
}
