//===- JsonTest.cpp - a manifest as JSON ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both ways byte for byte; every field missing, mistyped or unknown is an error
// with its path; no bytes crash the reader or the validator. Also reads the
// example of docs/reference/manifest.md.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Stages.h"
#include "runtime/support/Files.h"
#include "test/runtime/RichManifest.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <fmt/core.h>
#include <functional>
#include <gmock/gmock.h>
#include <random>

using namespace moec;
using namespace moec::test;
using nlohmann::json;
using testing::HasSubstr;

static std::string problemOf(const json &document) {
  Result<Manifest> manifest = fromJson(document.dump());
  return manifest ? "" : manifest.error().message;
}

TEST(Json, bothWaysAreTheSameBytes) {
  for (const Manifest &manifest : {tinyManifest(), richManifest()}) {
    std::string text = toJson(manifest);
    Result<Manifest> read = fromJson(text);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(toJson(*read), text);
    Result<void> valid = validate(*read);
    EXPECT_TRUE(valid) << valid.error().message;
    EXPECT_EQ(text.back(), '\n');
    EXPECT_EQ(text.substr(0, 24), "{\n  \"moec_manifest\": 8,\n");
  }
}

TEST(Json, checksTheFormatVersion) {
  json document = json::parse(toJson(tinyManifest()));
  document["moec_manifest"] = 7;
  EXPECT_THAT(problemOf(document),
              HasSubstr("moec_manifest: expected format version 8, got 7"));
  document.erase("moec_manifest");
  EXPECT_THAT(problemOf(document), HasSubstr("accepts version 8"));
}

TEST(Json, namesThePathOfATypeError) {
  json document = json::parse(toJson(tinyManifest()));
  document["targets"][0]["kernels"][3]["threads"] = "128";
  EXPECT_EQ(problemOf(document),
            "targets[0].kernels[3].threads: expected an integer, got \"128\"");
}

/// Visits every value of a document with its path.
template <typename Visit>
static void walk(json &node, const std::string &path, Visit &&visit) {
  visit(node, path);
  if (node.is_object())
    for (auto &item : node.items())
      walk(item.value(), path.empty() ? item.key() : path + "." + item.key(),
           visit);
  if (node.is_array())
    for (size_t i = 0; i < node.size(); ++i)
      walk(node[i], path + "[" + std::to_string(i) + "]", visit);
}

/// True for the first two paths that differ in indices alone.
static bool isNew(std::map<std::string, int> &seen, std::string path) {
  for (char &c : path)
    if (c >= '0' && c <= '9')
      c = '#';
  return ++seen[path] <= 2;
}

static bool isFree(const std::string &path) {
  return path == "layer" || path.ends_with(".report") ||
         path.ends_with(".attributes") || path.ends_with(".operands") ||
         path.ends_with(".results") || path == "files";
}

static bool isInsideFree(const std::string &path) {
  for (const char *part : {"layer.", ".report.", ".attributes.", ".operands.",
                           ".results.", "files."})
    if (path.find(part) != std::string::npos)
      return true;
  return false;
}

TEST(Json, everyFieldIsCheckedForItsType) {
  json document = json::parse(toJson(richManifest()));
  int changed = 0;
  std::map<std::string, int> seen;
  walk(document, "", [&](json &node, const std::string &path) {
    if (path.empty() || isInsideFree(path) || !isNew(seen, path))
      return;
    json saved = node;
    node = nullptr; // no field of the format may be null
    std::string problem = problemOf(document);
    ASSERT_THAT(problem, HasSubstr(path + ": expected ")) << path;
    ASSERT_THAT(problem, HasSubstr("got null")) << path;
    node = saved;
    ++changed;
  });
  EXPECT_GT(changed, 150);
}

TEST(Json, everyFieldIsRequiredAndNoOtherIsKnown) {
  json document = json::parse(toJson(richManifest()));
  std::map<std::string, int> seen;
  walk(document, "", [&](json &node, const std::string &path) {
    if (!node.is_object() || isInsideFree(path) || isFree(path))
      return;
    // Fields of arguments differ by kind, so their keys take part.
    std::string keys;
    for (const auto &item : node.items())
      keys += item.key();
    if (!isNew(seen, path + keys))
      return;
    json saved = node;
    for (const auto &item : saved.items()) {
      node.erase(item.key());
      std::string problem = problemOf(document);
      ASSERT_NE(problem, "") << path << " without " << item.key();
      if (item.key() != "kind" && item.key() != "role" &&
          item.key() != "persistent" && item.key() != "moec_manifest") {
        ASSERT_THAT(problem, HasSubstr("field '" + item.key() + "' is missing"))
            << path;
      }
      node = saved;
    }
    node["surplus"] = 1;
    ASSERT_THAT(problemOf(document),
                HasSubstr((path.empty() ? "" : path + ".") +
                          "surplus: unknown field; expected one of"));
    node = saved;
  });
}

TEST(Json, refusesWhatIsNoManifest) {
  EXPECT_THAT(fromJson("").error().message, HasSubstr("expected JSON"));
  EXPECT_THAT(fromJson("[]").error().message,
              HasSubstr("expected a JSON object, got an array"));
  EXPECT_THAT(
      fromJson("{\"a\": 1, \"a\": 2}").error().message,
      HasSubstr("expected each key once in an object, got \"a\" twice"));
  EXPECT_THAT(fromJson(std::string(100000, '[')).error().message,
              HasSubstr("at most 64 levels of nesting"));
  json document = json::parse(toJson(tinyManifest()));
  document["max_tokens"] = 1e300;
  EXPECT_THAT(problemOf(document),
              HasSubstr("max_tokens: expected an integer"));
  document["max_tokens"] = 18446744073709551615ULL;
  EXPECT_THAT(problemOf(document), HasSubstr("below 2^63"));
  document["max_tokens"] = 64;
  document["rows"] = "tokens *";
  EXPECT_THAT(problemOf(document), HasSubstr("rows: expression 'tokens *'"));
}

/// Calls `visit` with every text of a manifest but those of its layer and its
/// reports.
static void forEachText(json &value, const std::function<void(json &)> &visit) {
  if (value.is_string())
    visit(value);
  if (value.is_structured())
    for (auto it = value.begin(); it != value.end(); ++it)
      if (!value.is_object() || (it.key() != "layer" && it.key() != "report" &&
                                 it.key() != "attributes"))
        forEachText(*it, visit);
}

TEST(Json, NoTextHasControlCharacters) {
  json document = json::parse(toJson(richManifest()));
  size_t texts = 0;
  forEachText(document, [&](json &text) {
    ++texts;
    const json before = text;
    const char *hostile[] = {"\x1b[2J", "a\nall checks passed", "\xc2\x9b",
                             "\xe2\x80\xae"};
    text = hostile[texts % std::size(hostile)];
    const std::string problem = problemOf(document);
    EXPECT_NE(problem, "") << before;
    EXPECT_EQ(problem.find_first_of("\x1b\n\x9b\xae"), std::string::npos)
        << problem;
    text = before;
  });
  EXPECT_GT(texts, 300u);
  document["files"]["a\x1b[2J"] = std::string(64, 'a');
  EXPECT_EQ(problemOf(document), "files: expected keys without control "
                                 "characters, got \"a\\x1b[2J\"");
}

/// A longer array is refused before its elements are read.
TEST(Json, EveryArrayHasABound) {
  const json good = json::parse(toJson(richManifest()));
  struct Row {
    const char *path;
    size_t most;
  };
  for (const Row &row : {Row{"/values/0/element_types", 16},
                         {"/values/0/shape", 8},
                         {"/values/0/strides", 8},
                         {"/targets/0/tensor_maps/0/extents", 5},
                         {"/targets/0/tensor_maps/0/strides", 5},
                         {"/targets/0/tensor_maps/0/box", 5},
                         {"/targets/0/tensor_maps/0/element_strides", 5},
                         {"/targets/0/variants/0/regions", 1000},
                         {"/targets/0/state_regions", 1000},
                         {"/values", 4096},
                         {"/targets", 4096},
                         {"/targets/0/kernels", 4096},
                         {"/targets/0/kernels/0/headers", 4096},
                         {"/targets/0/kernels/0/arguments/fields", 4096},
                         {"/targets/0/variants/0/launches", 4096},
                         {"/one_of", 4096}}) {
    json document = good;
    json &array = document[json::json_pointer(row.path)];
    ASSERT_TRUE(array.is_array()) << row.path;
    // No element may have this type.
    array = json(std::vector<bool>(row.most, true));
    EXPECT_THAT(problemOf(document), Not(HasSubstr("an array of at most")))
        << row.path;
    array = json(std::vector<bool>(row.most + 1, true));
    EXPECT_THAT(problemOf(document),
                HasSubstr(fmt::format("expected an array of at most {}, got "
                                      "{} elements",
                                      row.most, row.most + 1)))
        << row.path;
  }
}

TEST(Json, ManyValuesTakeLinearTime) {
  Manifest manifest = tinyManifest();
  for (int i = 0; i < 4000; ++i) {
    manifest.values.push_back(manifest.values[0]);
    manifest.values.back().name += std::to_string(i);
  }
  const std::string text = toJson(manifest);
  const auto start = std::chrono::steady_clock::now();
  Result<Manifest> read = fromJson(text);
  ASSERT_TRUE(read) << read.error().message;
  Result<void> valid = validate(*read);
  EXPECT_TRUE(valid) << valid.error().message;
  // A second; some with sanitizers.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

/// Foreign bytes: whatever they say, there is a manifest or an error.
TEST(Json, randomBytesNeverCrash) {
  const std::string good = toJson(richManifest());
  const char *rounds = std::getenv("MOEC_TEST_FUZZ_ROUNDS");
  std::mt19937 random(5);
  const std::string pieces[] = {"0",
                                "-1",
                                "1e9",
                                "null",
                                "[]",
                                "{}",
                                "\"\"",
                                "true",
                                "{",
                                "]",
                                "\\u0",
                                "\"",
                                "9223372036854775807",
                                "-9223372036854775808",
                                "18446744073709551615",
                                "\"rows * rows * rows "
                                "* rows * rows * rows * rows\""};
  for (int i = rounds ? std::atoi(rounds) : 1500; i > 0; --i) {
    std::string text = good;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, random() % 40);
        break;
      case 2:
        text.insert(at, pieces[random() % std::size(pieces)]);
        break;
      default: {
        // A number or string for another, which mostly stays JSON.
        size_t begin = text.find(": ", at);
        if (begin == std::string::npos)
          break;
        size_t end = text.find_first_of(",\n", begin);
        text.replace(begin + 2, end - begin - 2,
                     pieces[random() % std::size(pieces)]);
      }
      }
    }
    Result<Manifest> manifest = fromJson(text);
    if (!manifest)
      continue;
    if (validate(*manifest))
      (void)toJson(*manifest);
  }
}

//===----------------------------------------------------------------------===//
// docs/reference/manifest.md and manifest-stages.md
//===----------------------------------------------------------------------===//

static std::string page(const char *name) {
  const char *source = std::getenv("MOEC_SOURCE_DIR");
  EXPECT_NE(source, nullptr);
  Result<std::string> text = readFile(
      joinPath(source ? source : "", std::string("docs/reference/") + name));
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : "";
}

TEST(Docs, theExampleIsAValidManifest) {
  std::string whole = page("manifest.md");
  size_t begin = whole.find("```json\n");
  ASSERT_NE(begin, std::string::npos);
  begin += 8;
  std::string text = whole.substr(begin, whole.find("```", begin) - begin);
  Result<Manifest> manifest = fromJson(text);
  ASSERT_TRUE(manifest) << manifest.error().message;
  Result<void> valid = validate(*manifest);
  ASSERT_TRUE(valid) << valid.error().message;
  EXPECT_EQ(toJson(*manifest), text);
}

TEST(Docs, everyStageKindAndFieldIsExplained) {
  std::string fields = page("manifest.md"), stages = page("manifest-stages.md");
  for (const StageKind &kind : kStageKinds) {
    std::string row = "| `" + std::string(kind.op) + "` |";
    ASSERT_THAT(stages, HasSubstr(row));
    std::string line = stages.substr(stages.find(row));
    line = line.substr(0, line.find('\n'));
    for (WordList list : {kind.operands, kind.results, kind.attributes})
      for (std::string_view word : list) {
        std::string name(word.substr(0, word.find_first_of("?:")));
        EXPECT_THAT(line, HasSubstr("`" + name)) << kind.op;
      }
  }
  json document = json::parse(toJson(richManifest()));
  walk(document, "", [&](json &node, const std::string &path) {
    if (node.is_object() && !isFree(path) && !isInsideFree(path)) {
      for (const auto &item : node.items())
        EXPECT_THAT(fields + stages, HasSubstr("`" + item.key() + "`")) << path;
    }
  });
}
