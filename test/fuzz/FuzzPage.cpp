//===- FuzzPage.cpp - reports and results of the bench as pages -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An input is {"report": ..., "bench": ...}, either of them as an object. A
// page is whole, and holds no element that a text brought along.
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto both = parseJsonObject(fuzz::textOf(data, size), "in.json",
                              ErrorCode::InvalidArgument, {size});
  if (!both || !both->contains("report"))
    return 0;
  std::optional<html::NamedText> bench;
  if (both->contains("bench"))
    bench = {"bench.json", both->at("bench").dump()};
  auto page = html::makePage(both->at("report").dump(), bench);
  if (!page) {
    fuzz::requireRefusal(page.error());
    return 0;
  }
  fuzz::require(page->ends_with("</main></body></html>\n"), "a page is whole");
  fuzz::require(page->find("<script") == std::string::npos,
                "a page has no script");
  fuzz::require(page->find("\"nan\"") == std::string::npos &&
                    page->find("\"inf\"") == std::string::npos,
                "coordinates are numbers");
  return 0;
}
