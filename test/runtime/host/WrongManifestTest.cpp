//===- WrongManifestTest.cpp - one wrong entry of a manifest
//----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Manifests with one wrong entry beside the good one: on the host device they
// fail or give other results.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/ElementTypes.h"
#include "test/runtime/host/TinyLayer.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

using namespace moec;
using namespace moec::host;
using namespace moec::test;
using testing::HasSubstr;

TEST(WrongManifest, aShortRegionIsAnError) {
  for (const char *name : {"topk_ids", "topk_weights", "rows", "positions",
                           "offsets", "tiles", "block_counts", "t", "y_f32"}) {
    Case c(40);
    Region &r = region(c.manifest, name);
    r.bytes = r.bytes - 1;
    // The validator sees it, and so does the device.
    EXPECT_THAT(messageOf(validate(c.manifest)),
                HasSubstr(std::string("bytes of '") + name + "'"));
    c.skipValidation = true;
    Result<void> done = c.run();
    if (std::string(name) == "tiles") {
      // The bound on tiles is seldom reached; half of it is too few.
      EXPECT_TRUE(done);
      r.bytes = Expression(16);
      done = c.run();
    }
    ASSERT_FALSE(done) << name;
    EXPECT_EQ(done.error().code, ErrorCode::InvalidManifest);
    EXPECT_THAT(done.error().message, HasSubstr(std::string("'") + name + "'"));
  }
}

TEST(WrongManifest, overlappingRegionsGiveOtherResults) {
  Case c(40);
  // Both live while `down` runs; the validator sees it, the results too.
  region(c.manifest, "y_f32").offset = region(c.manifest, "t").offset;
  Result<void> valid = validate(c.manifest);
  ASSERT_FALSE(valid);
  EXPECT_THAT(valid.error().message, HasSubstr("expected no overlap"));
  c.skipValidation = true;
  c.threads = 1;
  Result<void> done = c.run();
  EXPECT_TRUE(!done || c.error() > 1e-2);
}

TEST(WrongManifest, aShortGridGivesOtherResults) {
  for (size_t launch = 0; launch < 5; ++launch) {
    Case c(40);
    Expression &ctas =
        c.manifest.targets[0].variants[1].launches[launch].grid.ctas[0];
    ctas = Expression(launch == 2 || launch == 3 ? 2 : 1);
    Result<void> done = c.run();
    EXPECT_TRUE(!done || c.error() > 1e-2) << launch;
  }
}

TEST(WrongManifest, integersStayInTheirMemory) {
  for (const char *type : {"i4", "i8", "i16", "bf16"}) {
    Case c(40);
    for (Value &value : c.manifest.values)
      if (value.name == "counts")
        value.elementTypes = {type};
    EXPECT_THAT(messageOf(validate(c.manifest)), HasSubstr("expected 'counts' "
                                                           "to be of i32"));
    // Nor where nobody validates: a byte behind them is as it was.
    c.skipValidation = true;
    std::byte *behind = c.counts.span.data() +
                        c.shape.experts * findElementType(type)->bits / 8;
    *behind = std::byte{0x5a};
    (void)static_cast<bool>(c.run());
    EXPECT_EQ(*behind, std::byte{0x5a}) << type;
  }
}

TEST(WrongManifest, aWrongAttributeGivesOtherResults) {
  struct Change {
    size_t kernel, stage;
    const char *attribute;
    nlohmann::json value;
  };
  for (const Change &change : std::vector<Change>{
           {3, 0, "interleave", 0},
           {3, 0, "pairs", 1},
           {3, 0, "gather", false},
           {3, 1, "interleave", 0},
           {3, 1, "function", "gelu"},
           {3, 1, "limit", 0.5},
           {4, 0, "k", 8},
           {4, 0, "experts", 2},
           {2, 0, "block_tokens", 16},
           {1, 0, "normalize", "none"},
           {1, 0, "scale", 2.0},
           {5, 0, "pairs", 1},
           {7, 0, "interleave", 4},
       }) {
    Case c(40);
    c.manifest.targets[0]
        .kernels[change.kernel]
        .stages[change.stage]
        .attributes[change.attribute] = change.value;
    Result<void> done = c.run();
    bool interleaveOfBias =
        change.kernel == 3 && change.stage == 0 &&
        std::string(change.attribute) == "interleave"; // only places the bias
    if (!interleaveOfBias) {
      EXPECT_TRUE(!done || c.error() > 1e-2)
          << change.kernel << " " << change.attribute;
    }
  }
}

/// 40 tokens in two blocks of 24, for which 5 of 8 are too many.

TEST(WrongManifest, blocksGrowWithTheTokens) {
  const auto bound = [](Case &c, size_t kernel, size_t stage) {
    c.manifest.targets[0]
        .kernels[kernel]
        .stages[stage]
        .attributes["most_blocks"] = 2;
  };
  Case c(40);
  bound(c, 1, 1), bound(c, 2, 0);
  ASSERT_TRUE(c.run());
  EXPECT_LT(c.error(), 1e-2);
  // Whoever counts and whoever sums must agree.
  for (const auto &[kernel, stage] :
       {std::pair<size_t, size_t>(1, 1), {2, 0}}) {
    Case other(40);
    bound(other, kernel, stage);
    Result<void> done = other.run();
    EXPECT_TRUE(!done || other.error() > 1e-2) << kernel;
  }
}

TEST(WrongManifest, scalesWithoutGroupsAreAnError) {
  Case c(40);
  Stage &down = c.manifest.targets[0].kernels[4].stages[0];
  down.operands["rhs_scale"] = "rhs";
  Result<void> done = c.run();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message,
              HasSubstr("groups that divide each other, got 0 x"));
}

TEST(WrongManifest, aWrongValueInTheArgumentsGivesOtherResults) {
  Case c(40);
  // `down` reads the packed weight of the wrong matmul.
  for (ArgumentField &field : c.manifest.targets[0].kernels[4].arguments.fields)
    if (field.name == "rhs")
      field.value = "w13_packed";
  Result<void> done = c.run();
  EXPECT_TRUE(!done || c.error() > 1e-2);
}
