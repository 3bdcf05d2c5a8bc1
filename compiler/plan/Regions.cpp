//===- Regions.cpp - compact expressions of region offsets ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An expression is shortened only if expanding the short form returns an equal
// expression.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Regions.h"

#include "compiler/plan/Liveness.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/core.h>

using llvm::StringRef;
using namespace moec;
using namespace moec::compiler;

/// Expands each end(...) in the text. `depth` limits the recursion, in case the
/// regions refer to each other in a cycle.
static Result<std::string>
expand(StringRef text, llvm::ArrayRef<PlacedRegion> regions, size_t depth) {
  std::string made;
  while (true) {
    auto [before, behind] = text.split("end(");
    made += before;
    if (behind.empty())
      return made;
    auto [name, rest] = behind.split(')');
    const auto *region = llvm::find_if(
        regions, [&](const PlacedRegion &r) { return r.value == name; });
    if (region == regions.end() || depth == 0)
      return invalidArgument("'end({})' is not the end of an earlier region",
                             name.str());
    auto offset = expand(region->offset, regions, depth - 1);
    if (!offset)
      return offset;
    made +=
        fmt::format("({} + ceildiv({}, {}) * {})", *offset,
                    region->bytes.text(), kRegionAlignment, kRegionAlignment);
    text = rest;
  }
}

Result<Expression> compiler::withoutEnds(StringRef text,
                                         llvm::ArrayRef<PlacedRegion> regions) {
  auto whole = TRY(expand(text, regions, regions.size()));
  return Expression::parse(whole);
}

/// Returns `text` with each occurrence of the operand `part` replaced by
/// `word`. A match inside a longer name or number does not count.
static std::string replaced(StringRef text, StringRef part, StringRef word) {
  const auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const StringRef rest = text.substr(at);
    if (rest.starts_with(part) && (at == 0 || !isPart(text[at - 1])) &&
        (rest.size() == part.size() || !isPart(rest[part.size()]))) {
      made += word;
      at += part.size();
    } else {
      made += text[at++];
    }
  }
  return made;
}

RegionEnds::RegionEnds(llvm::ArrayRef<PlacedRegion> placed) : regions(placed) {
  for (const PlacedRegion &region : regions) {
    std::string name = "end(" + region.value + ")";
    auto end = withoutEnds(name, regions);
    if (end && !end->constant())
      ends.emplace_back(end->text(), std::move(name));
  }
  // Replace the longest texts first, since they may contain shorter ones.
  llvm::stable_sort(
      ends, [](auto &a, auto &b) { return a.first.size() > b.first.size(); });
}

std::string RegionEnds::shortened(const Expression &expression) const {
  std::string made = expression.text();
  for (const auto &[part, word] : ends) {
    std::string shorter = replaced(made, part, word);
    if (shorter == made)
      continue;
    auto same = withoutEnds(shorter, regions);
    if (same && *same == expression)
      made = std::move(shorter);
  }
  return made;
}
