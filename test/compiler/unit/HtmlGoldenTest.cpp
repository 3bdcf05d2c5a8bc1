//===- HtmlGoldenTest.cpp - the whole page of a report --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the page of test/golden/page/report.json, which has every field of a
// report, with test/golden/page/page.html. The style sheet is left out. With
// MOEC_UPDATE_GOLDEN=1 the test writes page.html anew.
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"
#include "runtime/support/Files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

using namespace moec;
using namespace moec::compiler;

/// Returns the page without its style sheet and the digest of the style sheet.
static std::string withoutStyle(std::string page) {
  const auto cut = [&](std::string_view begin, std::string_view end) {
    const size_t from = page.find(begin);
    ASSERT_NE(from, std::string::npos);
    const size_t at = from + begin.size();
    const size_t to = page.find(end, at);
    ASSERT_NE(to, std::string::npos);
    page.erase(at, to - at);
  };
  cut("'sha256-", "'");
  cut("<style>", "</style>");
  return page;
}

/// Compares line by line, so that a failure shows the first lines that differ.
TEST(HtmlGolden, TheWholePageIsAsStored) {
  const std::string folder =
      std::string(std::getenv("MOEC_SOURCE_DIR")) + "/test/golden/page/";
  const Result<std::string> report = readFile(folder + "report.json");
  const Result<std::string> bench = readFile(folder + "bench.json");
  ASSERT_TRUE(report && bench);
  const Result<std::string> page =
      html::makePage(*report, html::NamedText{"bench.json", *bench});
  ASSERT_TRUE(page) << page.error().message;
  const std::string made = withoutStyle(*page);
  if (std::getenv("MOEC_UPDATE_GOLDEN")) {
    ASSERT_TRUE(writeFile(folder + "page.html", made));
    return;
  }
  const Result<std::string> stored = readFile(folder + "page.html");
  ASSERT_TRUE(stored) << stored.error().message;
  std::istringstream got(made), wanted(*stored);
  std::string line, expected;
  for (int number = 1, shown = 0; shown < 5; ++number) {
    const bool hasLine = bool(std::getline(got, line));
    const bool hasExpected = bool(std::getline(wanted, expected));
    if (!hasLine && !hasExpected)
      break;
    ASSERT_EQ(hasLine, hasExpected) << "line " << number;
    EXPECT_EQ(line, expected) << "line " << number;
    shown += line != expected;
  }
  EXPECT_EQ(made == *stored, true) << "review, and write page.html anew with "
                                      "MOEC_UPDATE_GOLDEN=1";
}
