//===- JsonMutator.cpp - changes of JSON texts for the fuzzers ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include <nlohmann/json.hpp>

#include <iterator>
#include <random>
#include <vector>

using namespace moec;
using nlohmann::ordered_json;

namespace {

using Random = std::minstd_rand;

size_t below(Random &random, size_t count) {
  return count ? random() % count : 0;
}

/// Numbers at which readers overflow, round or divide.
constexpr int64_t kNumbers[] = {
    0,         1,          -1,        2,         3,         4,
    7,         8,          16,        31,        32,        63,
    64,        96,         127,       128,       255,       256,
    1024,      4096,       65535,     65536,     1 << 20,   INT32_MAX,
    INT32_MIN, UINT32_MAX, 1LL << 32, 1LL << 53, 1LL << 62, INT64_MAX,
    INT64_MIN, 999999937,  -2,        1000000,   48,        12};

constexpr const char *kWords[] = {"",
                                  "a",
                                  "tokens",
                                  "rows",
                                  "bf16",
                                  "f16",
                                  "f32",
                                  "i4",
                                  "i8",
                                  "i32",
                                  "i64",
                                  "none",
                                  "auto",
                                  "../a",
                                  "/",
                                  "a.b",
                                  "F32",
                                  "BF16",
                                  "I32",
                                  "U8",
                                  "\xC3\xA9",
                                  "tokens * 8",
                                  "ceildiv(rows, 16)",
                                  "rows * rows",
                                  "max(tokens, 1)"};

ordered_json anyScalar(Random &random) {
  switch (below(random, 8)) {
  case 0:
    return nullptr;
  case 1:
    return below(random, 2) == 0;
  case 2:
    return static_cast<double>(random()) / 1e6 - 100;
  case 3:
    return UINT64_MAX;
  case 4:
    return kWords[below(random, std::size(kWords))];
  default:
    return kNumbers[below(random, std::size(kNumbers))];
  }
}

/// A place of a value, and what holds it.
struct Place {
  ordered_json *value;
  ordered_json *parent;
  size_t index;
};

void collect(ordered_json &value, std::vector<Place> &places) {
  size_t index = 0;
  if (value.is_structured())
    for (ordered_json &child : value) {
      places.push_back({&child, &value, index++});
      collect(child, places);
    }
}

void erase(const Place &place) {
  auto at = place.parent->begin();
  std::advance(at, place.index);
  place.parent->erase(at);
}

void changeNumber(ordered_json &value, Random &random) {
  auto number =
      static_cast<uint64_t>(value.is_number_float() ? 1 : value.get<int64_t>());
  switch (below(random, 5)) {
  case 0:
    number += 1;
    break;
  case 1:
    number -= 1;
    break;
  case 2:
    number *= 2;
    break;
  case 3:
    number /= 2;
    break;
  default:
    number ^= uint64_t(1) << below(random, 64);
  }
  value = static_cast<int64_t>(number);
}

void changeText(ordered_json &value, Random &random) {
  std::string text = value.get<std::string>();
  const size_t at = below(random, text.size() + 1);
  switch (below(random, 3)) {
  case 0:
    text.erase(at, 1 + below(random, 4));
    break;
  case 1:
    text.insert(at, kWords[below(random, std::size(kWords))]);
    break;
  default:
    text.insert(at, 1, static_cast<char>(' ' + below(random, 95)));
  }
  value = text;
}

void mutate(ordered_json &root, Random &random) {
  std::vector<Place> places;
  collect(root, places);
  if (places.empty()) {
    root = {{"a", anyScalar(random)}};
    return;
  }
  const Place &place = places[below(random, places.size())];
  ordered_json &value = *place.value;
  switch (below(random, 9)) {
  case 0:
    return erase(place);
  case 1:
    value = ordered_json(*places[below(random, places.size())].value);
    return;
  case 2:
    if (place.parent->is_array()) { // doubled
      ordered_json copy = value;
      place.parent->push_back(std::move(copy));
    } else { // renamed
      const auto other = places[below(random, places.size())];
      std::string key = kWords[below(random, std::size(kWords))];
      if (other.parent->is_object())
        key = std::next(other.parent->begin(),
                        static_cast<std::ptrdiff_t>(other.index))
                  .key();
      ordered_json copy = value;
      (*place.parent)[key] = std::move(copy);
    }
    return;
  case 3:
    value = ordered_json::array({value});
    return;
  case 4:
    value = {{"a", value}};
    return;
  default:
    if (value.is_number() && below(random, 2))
      return changeNumber(value, random);
    if (value.is_string() && below(random, 2))
      return changeText(value, random);
    value = anyScalar(random);
  }
}

} // namespace

/// The newest result and its document. libFuzzer changes most results again,
/// so that most texts need no parsing.
static struct {
  std::string text;
  ordered_json document;
} newest;

static ordered_json documentOf(std::string_view text) {
  if (text == newest.text)
    return newest.document;
  return ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

static std::string textOf(ordered_json document, size_t mostBytes) {
  newest.text =
      document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  newest.document = std::move(document);
  return newest.text.size() > mostBytes ? "" : newest.text;
}

std::string fuzz::mutateJson(std::string_view text, size_t mostBytes,
                             unsigned seed) {
  ordered_json document = documentOf(text);
  if (document.is_discarded())
    return "";
  Random random(seed);
  for (size_t left = 1 + below(random, 3); left > 0; --left)
    mutate(document, random);
  return textOf(std::move(document), mostBytes);
}

std::string fuzz::crossJson(std::string_view text, std::string_view other,
                            size_t mostBytes, unsigned seed) {
  ordered_json document = documentOf(text);
  ordered_json from = documentOf(other);
  std::vector<Place> places, sources;
  if (!document.is_discarded())
    collect(document, places);
  if (!from.is_discarded())
    collect(from, sources);
  if (places.empty() || sources.empty())
    return "";
  Random random(seed);
  const Place &place = places[below(random, places.size())];
  const Place &source = sources[below(random, sources.size())];
  if (place.parent->is_object() && source.parent->is_object() &&
      below(random, 2))
    (*place.parent)[std::next(source.parent->begin(),
                              static_cast<std::ptrdiff_t>(source.index))
                        .key()] = *source.value;
  else
    *place.value = *source.value;
  return textOf(std::move(document), mostBytes);
}
