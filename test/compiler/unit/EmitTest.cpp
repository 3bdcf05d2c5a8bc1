//===- EmitTest.cpp - argument blocks, configs and templates --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of the CUDA backend that need no IR.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/TemplateLibrary.h"
#include "compiler/kernels/EmittedKernel.h"
#include "compiler/plan/Embedded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

using namespace moec;
using namespace moec::compiler;
using testing::ElementsAre;

TEST(ArgumentLayout, AlignsNaturallyAndRoundsUp) {
  ArgumentLayout layout;
  layout.pointer("a", "float", "x");
  layout.size("n", Expression::symbol("tokens"));
  layout.rowStride("stride", "x");
  layout.firstExpert("first");
  ArgumentBlock block = layout.block();
  ASSERT_EQ(block.fields.size(), 4u);
  EXPECT_EQ(block.fields[0].offset, 0);
  EXPECT_EQ(block.fields[1].offset, 8);
  EXPECT_EQ(block.fields[2].offset, 16);
  EXPECT_EQ(block.fields[3].offset, 24);
  EXPECT_EQ(block.bytes, 32);
  EXPECT_EQ(block.alignment, 8);
  std::string text = layout.text();
  EXPECT_NE(text.find("const float *a;\n  int n;\n  long long stride;\n"
                      "  int first;\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("sizeof(Args) == 32"), std::string::npos) << text;
  EXPECT_NE(text.find("__INTADDR__(&((Args *)0)->stride) == 16"),
            std::string::npos)
      << text;
}

TEST(KernelText, IsOneIncludeArgsConfigAndEntry) {
  KernelText text;
  text.includes = {"moe/kernel/combine.cuh"};
  text.function = "moe::combine";
  text.arguments.pointer("out", "float", "out", /*written=*/true);
  text.config.number("kThreads", 64);
  text.config.open("Schedule");
  text.config.number("kTileM", 16);
  text.config.close();
  text.threads = 64;
  EXPECT_EQ(text.source("moec_x"), R"(#include "moe/kernel/combine.cuh"

struct Args {
  float *out;
};
static_assert(sizeof(Args) == 8 &&
                  __INTADDR__(&((Args *)0)->out) == 0,
              "manifest and kernel disagree on the argument block");

struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 64;
  struct Schedule {
    static constexpr int kTileM = 16;
  };
};

static_assert(moe::sharedBytes<Config>() == 0,
              "manifest and kernel disagree on shared memory");

extern "C" __global__ void __launch_bounds__(64, 1)
moec_x(const __grid_constant__ Args args) {
  moe::combine<Config>(args);
}
)");
}

TEST(TemplateLibrary, FindsQuotedIncludesOnly) {
  EXPECT_THAT(
      includedNames("#include \"a.cuh\"\n  #  include \"b/c.cuh\"\n"
                    "#include <d>\n// include \"e\"\n#define f \"g\"\n"),
      ElementsAre("a.cuh", "b/c.cuh"));
}

TEST(TemplateLibrary, ClosesOverIncludesOnce) {
  std::map<std::string, std::string, std::less<>> files = {
      {"a", "#include \"b\"\n#include \"c\"\n"},
      {"b", "#include \"c\"\n"},
      {"c", "#include \"a\"\n"},
      {"d", "#include \"nowhere\"\n"}};
  auto find = [&](std::string_view name) -> std::optional<std::string_view> {
    auto it = files.find(name);
    return it == files.end() ? std::nullopt
                             : std::optional<std::string_view>(it->second);
  };
  auto closure = includeClosure("#include \"a\"\n", find);
  ASSERT_TRUE(closure);
  EXPECT_THAT(*closure, ElementsAre("a", "b", "c"));
  auto missing = includeClosure("#include \"d\"\n", find);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "header 'nowhere', included by d, is not "
                                     "among the embedded templates");
}

TEST(TemplateLibrary, EveryEmbeddedTemplateCloses) {
  EXPECT_FALSE(embeddedTemplates().empty());
  for (const EmbeddedFile &file : embeddedTemplates())
    EXPECT_TRUE(includeClosure(file.text)) << file.name;
}
