//===- FuzzJson.cpp - the one reader of JSON ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against nlohmann's own parser: what ours takes, that takes to the same value;
// what ours alone refuses, it refuses for a reason of its own.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

using namespace moec;
using nlohmann::json;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text = fuzz::textOf(data, size);
  constexpr JsonBounds kBounds = {1 << 20, 20};
  Result<json> read =
      parseJsonObject(text, "in", ErrorCode::InvalidArgument, kBounds);
  json other = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (read) {
    fuzz::require(!other.is_discarded(), "both take what is JSON");
    fuzz::require(*read == other, "both read the same value");
    Result<json> again = parseJsonObject(read->dump(), "in",
                                         ErrorCode::InvalidArgument, kBounds);
    fuzz::require(again && *again == *read, "what is written is read again");
    fuzz::require(shortJson(*read, 40).size() <= 43, "a value is shown short");
    return 0;
  }
  const Error &error = read.error();
  fuzz::requireRefusal(error);
  fuzz::require(error.message.starts_with("in: "), "the text is named");
  if (other.is_discarded())
    return 0;
  bool own = false;
  for (std::string_view reason :
       {"expected each key once", "levels of nesting", "of 64 bits",
        "that a double holds", "expected a JSON object", "a byte 0"})
    own |= error.message.find(reason) != std::string::npos;
  fuzz::require(own, "a refusal has a reason: " + error.message);
  return 0;
}
