//===- ValidateWindowTest.cpp - wrong windows -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of ValidateTest.cpp for what ranks write into each other's memory,
// and the same through JSON.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/WindowManifest.h"
#include "test/runtime/package/RoundTrip.h"
#include "test/runtime/package/ValidateCases.h"

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

#define CHANGE_WINDOW(...)                                                     \
  []([[maybe_unused]] Manifest &m, [[maybe_unused]] Target &t) {               \
    addWindow(m);                                                              \
    __VA_ARGS__;                                                               \
  }

TEST(ValidateWindow, aWindowIsTaken) {
  Manifest manifest = richManifest();
  addWindow(manifest);
  const std::string text = textOfValid(manifest);
  EXPECT_THAT(text, HasSubstr(R"("window_ranks": 2,)"));
  EXPECT_THAT(text, HasSubstr(R"({"value": "received", "offset": 256})"));
  EXPECT_THAT(text, HasSubstr(R"("kind": "peers"})"));
  EXPECT_THAT(toJson(richManifest()), Not(HasSubstr("window")));
}

TEST(ValidateWindow, everyWrongEntryIsNamed) {
  expectFailures({
      {"targets[0].window_ranks", "expected 2 to 128, got 129",
       CHANGE_WINDOW(t.windowRanks = 129)},
      {"targets[0].window_ranks", "expected 2 or more, since there is a window",
       CHANGE(t.windowBytes = 256)},
      {"targets[0].window_ranks", "expected 2, the token_ranks of the manifest",
       CHANGE_WINDOW(t.windowRanks = 3)},
      {"targets[0].window_ranks",
       "expected more than 2, the last of the manifest's ranks, got 2",
       CHANGE_WINDOW(m.ranks.back().rank = 2)},
      {"targets[0].window_bytes", "expected 1 to",
       CHANGE_WINDOW(t.windowBytes = 0)},
      {"targets[0].window_regions", "expected 'exchange_words' at offset 0",
       CHANGE_WINDOW(std::swap(t.windowRegions[0], t.windowRegions[1]))},
      {"targets[0].window_regions[0]",
       "expected 'exchange_words' to have 14 elements of i64 for 2 ranks",
       CHANGE_WINDOW(t.values[t.values.size() - 2].shape[0] = 13)},
      {"targets[0].window_regions[1].value",
       "expected the name of a window value, got 'y_f32'",
       CHANGE_WINDOW(t.windowRegions[1].value = "y_f32")},
      {"targets[0].window_regions[1].value",
       "expected each value once, got 'exchange_words' again",
       CHANGE_WINDOW(t.windowRegions[1].value = "exchange_words")},
      {"targets[0].window_regions[1].offset",
       "expected a multiple of 256 of at least 112, where the region before it "
       "ends, got 0",
       CHANGE_WINDOW(t.windowRegions[1].offset = 0)},
      {"targets[0].window_regions[1].offset", "expected a multiple of 256",
       CHANGE_WINDOW(t.windowRegions[1].offset = 128)},
      {"targets[0].window_regions[1].offset",
       "'received' with 2048 bytes to end within window_bytes = 2303",
       CHANGE_WINDOW(--t.windowBytes)},
      {"targets[0].window_bytes", "where the last of window_regions ends",
       CHANGE_WINDOW(t.windowBytes += 256)},
      {"targets[0].values[15]",
       "expected an entry of targets[0].window_regions that places 'received'",
       CHANGE_WINDOW(t.windowRegions.pop_back())},
      {"targets[0].kernels[0].arguments.fields[18].kind",
       "expected no 'peers' without window_ranks",
       CHANGE(addField(t.kernels[0].arguments, "peers",
                       ArgumentField::Kind::Peers))},
      {"targets[0].pack[0].launches[0].kernel",
       "expected a kernel of one rank, 'pack_copy' takes 'status'",
       CHANGE_WINDOW(
           for (Kernel &kernel : t.kernels) if (kernel.name == "pack_copy")
               addField(kernel.arguments, "status",
                        ArgumentField::Kind::Status))},
      {"targets[0].values[15].shape[0]", "uses a symbol that has no value here",
       CHANGE_WINDOW(t.values[15].shape[0] = Expression::symbol("sm_count"))},
  });
}
