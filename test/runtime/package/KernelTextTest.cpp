//===- KernelTextTest.cpp - what a package may hand to NVRTC --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each row of `tricks` makes NVRTC 13.0 open /etc/passwd, or could make another
// version do so.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/KernelText.h"

#include "runtime/support/Files.h"
#include "test/runtime/TinyManifest.h"

#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(KernelText, namesWhatATextIncludes) {
  Result<std::set<std::string>> names =
      includedNames("// head\n"
                    "#include \"moe/core/ptx.cuh\"\n"
                    "  #  include\t\"b.cuh\" // why\n"
                    "#pragma once\n"
                    "#pragma unroll 4\n"
                    "#define STRING(x) #x\n"
                    "#define MOE_TWO 2\n"
                    "#define JOIN(n, flags) MOE_##n \\\n  MOE_MORE_##flags\n"
                    "int important = 0; // imports\n");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, ElementsAre("b.cuh", "moe/core/ptx.cuh"));
  EXPECT_THAT(*includedNames(""), IsEmpty());
}

TEST(KernelText, refusesWhatOpensAFile) {
  struct Row {
    std::string text;
    const char *said;
  };
  const std::string file = "\"/etc/passwd\"\n";
  const std::vector<Row> tricks = {
      {"#include </etc/passwd>\n", "expected #include \"NAME\""},
      {"#define F \"/etc/passwd\"\n#include F\n", "expected #include \"NAME\""},
      {"#include L" + file, "expected #include \"NAME\""},
      {"#include \"a.cuh\" " + file, "expected #include \"NAME\""},
      {"#include \"a.cuh\n", "expected #include \"NAME\""},
      {"#include", "expected #include \"NAME\""},
      {"#include_next " + file, "no #include_next"},
      {"#include\\\n_next " + file, "no #include_next"},
      {"#import " + file, "no 'import'"},
      {"#embed " + file, "no #embed"},
      {"#line 1 " + file, "no #line"},
      {"# 1 " + file, "no line marker"},
      {"#using " + file, "no #using"},
      {"#ident " + file, "no #ident"},
      {"#pragma GCC dependency " + file, "#pragma once or unroll"},
      {"#pragma include_alias(\"a\", \"b\")\n", "#pragma once or unroll"},
      {"#/**/include " + file, "no comment after '#'"},
      {"%:include " + file, "no '%:'"},
      {"?\?=include " + file, "no '?\?='"},
      {"#inc?\?/\nlude " + file, "no '?\?/'"},
      {"\\u0023include " + file, "no '\\u'"},
      {"_Pragma(\"x\")\n", "no '_Pragma'"},
      {"__pragma(x)\n", "no '__pragma'"},
      {"import " + file, "no 'import'"},
      {"export import <cstdio>;\n", "no 'import'"},
      {"#if __has_include(" + file, "no '__has_'"},
      {"#if __has\\\n_include(" + file, "no '__has_'"},
      {"#if __has_embed(" + file, "no '__has_'"},
      {"int a;\r#include " + file, "no control character"},
      {"\v#include " + file, "no control character"},
      {"int a;\0#include "s + file, "byte 0x00 at 6"},
      {"#inc\\ \nlude " + file, "no blank between a backslash"},
      // Names that are put together.
      {"#define CAT(a, b) a##b\n", "'##' only in a #define"},
      {"#define CAT(MOE_a, b) MOE_a##b\n", "'##' only in a #define"},
      {"#define CAT(MOE_a...) MOE_a##b\n", "'##' only in a #define"},
      {"#define CAT(b) __VA_OPT__(MOE_)##b\n", "'##' only in a #define"},
      {"#define CAT(b) 1MOE_##b\n", "'##' only in a #define"},
      {"#define X MOE_\\\n1\nMOE_a##b\n", "'##' only in a #define"},
      {"MOE_a##b\n", "'##' only in a #define"},
      {"#if C(MOE_a, b) MOE_a##b\n", "'##' only in a #define"},
      {"#undef MOE_a##b\n", "'##' only in a #define"},
      {"#define C(MOE_a, b, define) #define X MOE_a##b\n",
       "'##' only in a #define"},
      {"/*\n#define X(q) */ #define C(MOE_a, b) MOE_a##b\n", "no comment on"},
      {"/* #define X(q) */ #define C(MOE_a, b) MOE_a##b\n",
       "'##' only in a #define"},
  };
  for (const Row &row : tricks) {
    Result<std::set<std::string>> names = includedNames(row.text);
    ASSERT_FALSE(names) << row.text;
    EXPECT_EQ(names.error().code, ErrorCode::InvalidManifest);
    EXPECT_THAT(names.error().message, HasSubstr(row.said)) << row.text;
  }
  // In strings and comments too: which they are, only the compiler knows.
  EXPECT_FALSE(includedNames("// #include </etc/passwd>\n"));
  EXPECT_EQ(*includedNames("const char *s = R\"(\n#include \"a\"\n)\";\n"),
            (std::set<std::string>{"a"}));
}

TEST(KernelText, aPackageIncludesItsOwnHeadersAlone) {
  for (const char *path : {"sm_90a/down.cu", "include/moe/kernel/down.cuh"})
    for (const char *name : {"/etc/passwd", "../x", "moe/kernel/combine.cuh"}) {
      PackageFiles package = tinyPackage();
      package.files[path] += "#include \""s + name + "\"\n";
      hashFiles(package);
      Result<void> valid = validate(package);
      ASSERT_FALSE(valid) << path << " " << name;
      EXPECT_THAT(valid.error().message,
                  HasSubstr("file '"s + path +
                            "': expected it to include only names of the "
                            "kernel's `headers`, got '" +
                            name + "'"));
    }
  PackageFiles package = tinyPackage();
  package.files["sm_90a/down.cu"] += "#include \"moe/kernel/down.cuh\"\n";
  hashFiles(package);
  EXPECT_TRUE(validate(package));
  package.files["sm_90a/down.cu"] += "#include </etc/passwd>\n";
  hashFiles(package);
  EXPECT_THAT(validate(package).error().message,
              HasSubstr("file 'sm_90a/down.cu': expected #include"));
}
