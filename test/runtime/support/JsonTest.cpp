//===- JsonTest.cpp - the one reader of JSON ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A text that is no strict JSON is refused at its place; others come as they
// are; large texts take time that is linear in their size.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/JsonReader.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <gmock/gmock.h>

using namespace moec;
using nlohmann::json;
using testing::HasSubstr;

static Result<json> read(std::string_view text, JsonBounds bounds = {1 << 20}) {
  return parseJsonObject(text, "in", ErrorCode::InvalidArgument, bounds);
}

static std::string errorOf(std::string_view text,
                           JsonBounds bounds = {1 << 20}) {
  Result<json> value = read(text, bounds);
  if (value)
    return "";
  EXPECT_EQ(value.error().code, ErrorCode::InvalidArgument);
  return value.error().message;
}

TEST(StrictJson, ValuesComeAsTheyStand) {
  std::string text =
      R"({"a": [1, -2, 1.5, true, null, "\u00e9\n"], "b": {"a": {}, "c": []},)"
      R"( "least": -9223372036854775808, "most": 18446744073709551615,)"
      R"( "zero": 0e-400, "small": 5e-324, "": ""})";
  Result<json> value = read(text);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(*value, json::parse(text));
  EXPECT_EQ((*value)["most"].get<uint64_t>(), UINT64_MAX);
  EXPECT_TRUE(read("\xEF\xBB\xBF { } \r\n\t"));
}

TEST(StrictJson, RefusesAtThePlace) {
  EXPECT_EQ(errorOf("{\n  \"a\": 1,\n  \"b\": {\"a\": 1, \"x\\\"y\": 2,\n"
                    "    \"x\\\"y\": 3}}"),
            "in: line 4, column 5: expected each key once in an object, got "
            "\"x\"y\" twice");
  EXPECT_EQ(errorOf(R"({"a": 18446744073709551616})"),
            "in: line 1, column 7: expected an integer of 64 bits, got "
            "18446744073709551616");
  EXPECT_EQ(errorOf("{\"a\":\n[-9223372036854775809]}"),
            "in: line 2, column 2: expected an integer of 64 bits, got "
            "-9223372036854775809");
  EXPECT_EQ(errorOf(R"({"a": 1e999})"),
            "in: line 1, column 7: expected a number that a double holds, got "
            "1e999");
  EXPECT_EQ(errorOf(R"({"a": -1.5e-999})"),
            "in: line 1, column 7: expected a number that a double holds, got "
            "-1.5e-999");
  EXPECT_EQ(errorOf("{} {}"),
            "in: line 1, column 4: expected JSON, got a text that is not: "
            "syntax error while parsing value - unexpected '{'; expected end "
            "of input");
  EXPECT_EQ(errorOf(""), "in: line 1, column 1: expected JSON, got a text that "
                         "is not: syntax error while parsing value - "
                         "unexpected end of input; expected '[', '{', or a "
                         "literal");
  EXPECT_EQ(errorOf("[1]"), "in: expected a JSON object, got an array");
  EXPECT_EQ(errorOf("\"x\""),
            "in: expected a JSON object, got the string \"x\"");
}

TEST(StrictJson, RefusesWhatOtherReadersTake) {
  for (const char *text : {"{\"a\": NaN}",
                           "{\"a\": Infinity}",
                           "{\"a\": 01}",
                           "{\"a\": +1}",
                           "{\"a\": .5}",
                           "{\"a\": 1.}",
                           "{\"a\": 0x10}",
                           "{a: 1}",
                           "{'a': 1}",
                           "{\"a\": 1,}",
                           "{\"a\": [1,]}",
                           "{\"a\": 1} // text",
                           "/**/{}",
                           "{\"a\": \"\n\"}",
                           "{\"a\": \"\\x41\"}",
                           "{\"a\": \"\\ud800\"}",
                           "{\"a\": \"\xC0\x80\"}",
                           "{\"a\": \"\xED\xA0\x80\"}",
                           "{\"a\": \"\xF5\x80\x80\x80\"}",
                           "{\"a\": \"\xC3\"}",
                           "{\"\xFF\": 1}",
                           "{\"a\": 1",
                           "{\"a\"}",
                           "{\"a\": tru}"})
    EXPECT_THAT(errorOf(text), HasSubstr("expected JSON")) << text;
  EXPECT_THAT(errorOf(std::string("{}\0", 3)), HasSubstr("expected JSON"));
}

TEST(StrictJson, BoundsOfSizeAndDepth) {
  EXPECT_EQ(errorOf("{\"a\": 1}", {7}),
            "in: expected at most 7 bytes of JSON, got 8");
  EXPECT_EQ(errorOf("{\"a\": 1}", {8}), "");
  EXPECT_EQ(errorOf("{\"a\": [[]]}", {100, 3}), "");
  EXPECT_EQ(errorOf("{\"a\": [[[]]]}", {100, 3}),
            "in: line 1, column 9: expected at most 3 levels of nesting, got "
            "more");
  for (const char *open : {"[", "{\"a\":"}) {
    std::string deep = "{\"a\":";
    for (int i = 0; i < 200000; ++i)
      deep += open;
    EXPECT_THAT(errorOf(deep), HasSubstr("at most 64 levels of nesting"));
  }
}

/// Texts that would be slow with a search of siblings, or with a list of keys.
TEST(StrictJson, LinearTime) {
  const size_t count = 200'000;
  std::string siblings = "{\"a\": [", keys = "{";
  for (size_t i = 0; i < count; ++i) {
    siblings += i ? ",{}" : "{}";
    keys += (i ? ",\"" : "\"") + std::to_string(i * 7919 % count) + "\":{}";
  }
  siblings += "]}";
  keys += "}";
  const auto start = std::chrono::steady_clock::now();
  for (const std::string *text : {&siblings, &keys}) {
    Result<json> value = read(*text, {size_t(1) << 26});
    ASSERT_TRUE(value) << value.error().message;
  }
  // Half a second with assertions and sanitizers; a quadratic reader takes
  // minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(StrictJson, MessagesStayShort) {
  const std::string large(1 << 19, 'x');
  EXPECT_LT(errorOf("{\"a\": \"" + large + "\n\"}").size(), 300u);
  EXPECT_LT(errorOf("{\"" + large + "\": 1, \"" + large + "\": 2}").size(),
            300u);
  EXPECT_LT(errorOf("{\"a\": " + std::string(1000, '9') + "}").size(), 300u);
  EXPECT_LT(errorOf("\"" + large + "\"").size(), 300u);
  EXPECT_EQ(shortText("tab\there \xC3\xA9"), "tab\\x09here \xC3\xA9");
  EXPECT_EQ(shortText("\x1b\n\x9b\xc2\x9b\xe2\x80\xae"),
            "\\x1b\\x0a\\x9b\\u009b\\u202e");
  EXPECT_EQ(shortText("\xC3\xA9\xC3\xA9\xC3\xA9", 3), "\xC3\xA9\xC3\xA9...");
  json deep = 1;
  for (int i = 0; i < 60; ++i)
    deep = json::array({deep, {{"k", large}}});
  EXPECT_LE(shortJson(deep, 80).size(), 83u);
  EXPECT_EQ(shortJson({{"a", {1, 2.5, nullptr}}, {"b", "x"}}, 80),
            R"({"a":[1,2.5,null],"b":"x"})");
}

/// A text that was written is read again as it was, whatever is in it.
TEST(StrictJson, ReadsWhatWasWritten) {
  json value = {{"", {{"\"\\\n\x01", json::array({json::object(), -1})}}},
                {"numbers", {0, -0.0, 1e-310, 1.7976931348623157e308}}};
  Result<json> again = read(value.dump());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->dump(), value.dump());
}

TEST(JsonReader, FieldsThatMustBeThere) {
  json object = {{"flag", 1}, {"pair", {1, 2, 3}}, {"good", {4, 5}}};
  for (auto [key, wanted] :
       {std::pair("flag", "in: top.flag: expected true or false, got the "
                          "number 1"),
        std::pair("pair", "in: top.pair: expected 2 integers, got an array"),
        std::pair("none", "in: top.none: expected 2 integers, got nothing")}) {
    JsonErrors errors{"in", std::nullopt, ErrorCode::InvalidArgument};
    JsonReader reader(object, "top", errors);
    if (std::string_view(key) == "flag")
      (void)reader.boolean(key);
    else
      EXPECT_EQ(reader.integers(key, 2, 0, 9), std::vector<int64_t>(2, 0));
    ASSERT_TRUE(errors.first);
    EXPECT_EQ(errors.first->message, wanted);
    EXPECT_EQ(errors.first->code, ErrorCode::InvalidArgument);
  }
  JsonErrors errors{"in", std::nullopt};
  JsonReader reader(object, "", errors);
  EXPECT_EQ(reader.integers("good", 2, 0, 9), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(reader.pathOf("good"), "good");
  EXPECT_FALSE(errors.first);
}

TEST(JsonReader, IntegersAtTheEndsOfTheirRange) {
  for (int64_t inside : {-3, 9})
    EXPECT_EQ(integerIn(inside, -3, 9), inside);
  for (int64_t outside : {-4, 10})
    EXPECT_FALSE(integerIn(outside, -3, 9)) << outside;
  // As a signed integer, this would be -1.
  EXPECT_FALSE(integerIn(UINT64_MAX, -3, 9));
  EXPECT_FALSE(integerIn(1.0, -3, 9));
}

/// Each path is reported once and at most 16 are; all errors are counted.
TEST(JsonErrors, KeepsTheFirstOfEachPath) {
  JsonErrors errors{"in", std::nullopt};
  for (int i = 0; i < 20; ++i)
    for (const char *text : {"first", "second"})
      errors.add(std::to_string(i), text);
  EXPECT_EQ(errors.count, 40u);
  ASSERT_EQ(errors.entries.size(), 16u);
  EXPECT_EQ(errors.entries[15].path, "15");
  EXPECT_EQ(errors.entries[15].text, "first");
  errors.entries.resize(2);
  EXPECT_EQ(errors.all().message, "in: 0: first\nin: 1: first");
}
