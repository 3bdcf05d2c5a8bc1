//===- InputTextTest.cpp - what the parser of IR may be given -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each bound from both sides, and what must not count as a bracket.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/InputText.h"

#include <gtest/gtest.h>

#include <string>

using namespace moec;
using namespace moec::compiler;

namespace {

std::string refusal(const std::string &text) {
  Result<void> checked = checkIrText(text, "in.mlir");
  return checked ? "" : checked.error().message;
}

std::string refusalOfBounds(const std::string &text) {
  Result<void> checked = checkIrBounds(text, "in.mlir");
  return checked ? "" : checked.error().message;
}

std::string repeat(const std::string &piece, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += piece;
  return text;
}

TEST(InputText, IrBeginsWithItsWords) {
  for (const char *text :
       {"module {}", "builtin.module {}", " \n// a comment\n  moe.layer @l {",
        "\"moe.layer\"()", "#a = 1", "!t = i32", "ML\xefR", "module",
        "module@m", "#a.b-c_1=1", "%0:2 = \"moe.a\"()", "%a, %b = \"moe.a\"()",
        "{-# a"})
    EXPECT_TRUE(looksLikeIr(text)) << text;
  for (const char *text :
       {"", "hello", "// a comment", "func", "[1]", "<a>", "# a heading",
        "#!/bin/sh", "#include <a>", "#", "# = 1", "!important", "!a, b = 1",
        "100%", "% 5", "%a", "modules = 1", "module-a", "moec"})
    EXPECT_FALSE(looksLikeIr(text)) << text;
}

TEST(InputText, BracketsAreBounded) {
  const std::string deep =
      "expected brackets at most 64 deep, got a deeper one";
  for (const char *bracket : {"[]", "()", "{}", "<>"}) {
    const std::string open(1, bracket[0]), close(1, bracket[1]);
    EXPECT_EQ(refusal(repeat(open, 64) + repeat(close, 64)), "") << bracket;
    EXPECT_EQ(refusal(repeat(open, 65)), "in.mlir:1:65: " + deep) << bracket;
    EXPECT_EQ(refusalOfBounds(repeat(open, 65)), "in.mlir:1:65: " + deep);
  }
  EXPECT_EQ(refusal("module {\n" + repeat("\n  module {", 64)),
            "in.mlir:66:10: " + deep);
  // Many beside each other are not deep.
  EXPECT_EQ(refusal(repeat("[{(<>)}]\n", 1000)), "");
}

TEST(InputText, WhatIsNoBracketDoesNotCount) {
  EXPECT_EQ(refusal(repeat("// [\n", 100)), "");
  EXPECT_EQ(refusal(repeat("a = \"[ \\\" {\"\n", 100)), "");
  EXPECT_EQ(refusal(repeat("() -> ()\n", 100)), "");
  // One that closes another kind closes nothing.
  EXPECT_NE(refusal(repeat("[>", 65)), "");
  EXPECT_NE(refusal(repeat("<(d0 >= 0", 40)), "");
  EXPECT_NE(refusal(repeat("[ \"\n", 65)), ""); // a string ends with its line
}

TEST(InputText, SizesAreBounded) {
  EXPECT_EQ(refusal(std::string(kMostIrLines - 1, '\n')), "");
  EXPECT_EQ(refusal(std::string(kMostIrLines, '\n')),
            "in.mlir:200001:1: expected at most 200000 lines, got more");
  EXPECT_EQ(refusal(std::string(kMostIrBytes, ' ')), "");
  EXPECT_EQ(refusal(std::string(kMostIrBytes + 1, ' ')),
            "in.mlir: expected at most 16777216 bytes of IR, got 16777217");
}

TEST(InputText, WhatNestsWithoutBrackets) {
  EXPECT_EQ(refusal("#a = 1\n"),
            "in.mlir:1:1: expected attributes and types in full, got the alias "
            "'#a'");
  EXPECT_EQ(refusal("x = !t-1"),
            "in.mlir:1:5: expected attributes and types in full, got the alias "
            "'!t-1'");
  EXPECT_EQ(refusal("#moe.quant<bf16> #moe<quant<bf16>> %a#1 %0#2 @\"#a\""),
            "");
  EXPECT_EQ(refusal("{a = affine_map<() -> (- - 1)>}"),
            "in.mlir:1:6: expected no 'affine_map'; no operation of moec has "
            "one");
  EXPECT_EQ(refusal("1affine_set<>"),
            "in.mlir:1:2: expected no 'affine_set'; no operation of moec has "
            "one");
  EXPECT_EQ(refusalOfBounds("#0affine_map<>"),
            "in.mlir:1:3: expected no 'affine_map'; no operation of moec has "
            "one");
  EXPECT_EQ(refusal("%affine_map @affine_map \"affine_map\""), "");
  EXPECT_EQ(refusal("ML\xefR..."),
            "in.mlir: expected text, got MLIR's bytecode");
}

TEST(InputText, WhatTheParserFreesWhileItIsInUse) {
  EXPECT_EQ(refusal("  \"moe.kernel\"() ({})"),
            "in.mlir:1:3: expected operations as moec prints them, got one in "
            "generic form");
  EXPECT_EQ(refusal("inputs [\"x\", \"y\"] @\"k\"(%a)"), "");
  EXPECT_EQ(refusal("{\n^bb0(%a: i32):\n^bb1:\n}"),
            "in.mlir:3:1: expected one block in a region, got another");
  EXPECT_EQ(refusal("{\n^bb0:\n}\n{\n^bb0:\n {\n ^bb0:\n }\n}"), "");
  // They are tests' business.
  EXPECT_EQ(refusalOfBounds("#a = 1\n\"moe.kernel\"() ({\n^a:\n^b:\n})"), "");
}

} // namespace
