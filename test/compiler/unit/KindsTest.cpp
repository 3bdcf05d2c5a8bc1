//===- KindsTest.cpp - rows and rules of kinds of kernel ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Kind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

using namespace moec;
using namespace moec::compiler;

static long filesOf(std::string_view row) {
  return std::ranges::count_if(allKinds(), [&](const Kind *kind) {
    return kind->names.words.contains(row);
  });
}

TEST(Kinds, OneFileAtMostHasTheRulesOfARow) {
  for (const catalog::KernelKind &row : catalog::kKernelKinds)
    EXPECT_LE(filesOf(row.name), 1) << row.name;
  EXPECT_EQ(filesOf("route_permute"), 1);
}

TEST(Kinds, TheRowOrTheFileSaysTheGrid) {
  for (const catalog::KernelKind &row : catalog::kKernelKinds) {
    // Packing has no moe.kernel (compiler/kernels/Pack.h).
    if (row.name.starts_with("pack_"))
      continue;
    const bool planned = std::ranges::any_of(allKinds(), [&](const Kind *kind) {
      return kind->plan && kind->names.words.contains(row.name);
    });
    EXPECT_NE(planned, !row.grid.empty()) << row.name;
  }
}

TEST(Kinds, AFileSaysWhatNoRowSays) {
  for (const Kind *kind : allKinds()) {
    EXPECT_TRUE(kind->schedule || kind->plan || kind->emit)
        << std::string(kind->names.words[0]);
    EXPECT_TRUE(kind->schedule || !kind->accepts);
  }
}
