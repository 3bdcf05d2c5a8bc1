//===- RandomData.cpp - what weights and inputs are filled with -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/program/RandomData.h"

#include "runtime/package/ElementTypes.h"
#include "test/reference/Element.h"

#include <algorithm>
#include <cstring>
#include <random>

using namespace moec;
using namespace moec::bench;
using tools::Buffer;
using tools::Device;

/// More than the L2 cache of any GPU of the catalog but two.
static constexpr int64_t kBlockBytes = int64_t(64) << 20;

static Result<const reference::Element *> floatType(const std::string &type) {
  const reference::Element *element = reference::findElement(type);
  if (!element || !element->isFloat)
    return Error{ErrorCode::InvalidArgument,
                 "no random data for element type '" + type +
                     "': expected a float"};
  return element;
}

/// Codes of any bits are numbers: of integers, and of floats without infinity
/// and NaN, of which a byte may hold several.
static bool takesAnyBits(const std::string &type, Kind kind) {
  const ElementType *row = findElementType(type);
  return kind == Kind::Weight && row && row->bits <= 8 &&
         (row->bits < 8 || type == "i8");
}

static std::vector<char> randomBytes(int64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> data(static_cast<size_t>(bytes));
  for (char &byte : data)
    byte = static_cast<char>(random());
  return data;
}

Kind moec::bench::kindOfWeight(const std::string &name) {
  if (name.find("scale") == std::string::npos)
    return Kind::Weight;
  return name.starts_with("a") ? Kind::InputScale : Kind::WeightScale;
}

Result<std::vector<char>> moec::bench::randomElements(const std::string &type,
                                                      int64_t count, Kind kind,
                                                      uint64_t seed) {
  Result<const reference::Element *> element = floatType(type);
  if (!element)
    return element.takeError();
  const size_t bytes = size_t((*element)->bytes);
  std::mt19937_64 random(seed);
  // Rounding is slow: 65536 values are rounded, and each element is one of
  // them.
  constexpr int64_t kValues = 65536;
  std::vector<char> values(size_t(kValues) * bytes);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  for (int64_t i = 0; i < kValues; ++i) {
    double value = 0;
    switch (kind) {
    case Kind::Input:
      value = normal(random);
      break;
    case Kind::Weight:
      value = normal(random) * (bytes == 1 ? 100 : 0.02);
      break;
    case Kind::WeightScale:
      // e4m3 has no such number but 0, and a second scale multiplies it.
      value = uniform(random) * (type == "f8E4M3FN" ? 1 : 2e-4);
      break;
    case Kind::InputScale:
      value = uniform(random) * 1e-2;
      break;
    }
    // Formats without infinity have NaN beyond their range.
    if (bytes == 1)
      value = std::clamp(value, -448.0, 448.0);
    reference::store(**element, values.data(), i, value);
  }
  std::vector<char> data(size_t(count) * bytes);
  for (int64_t i = 0; i < count; i += 4) {
    uint64_t bits = random();
    for (int64_t part = i; part < std::min(i + 4, count); ++part, bits >>= 16)
      std::memcpy(data.data() + size_t(part) * bytes,
                  values.data() + (bits & 0xFFFF) * bytes, bytes);
  }
  return data;
}

/// Elements of so many bytes.
static Result<std::vector<char>>
randomBlock(const std::string &type, int64_t bytes, Kind kind, uint64_t seed) {
  if (takesAnyBits(type, kind))
    return randomBytes(bytes, seed);
  Result<const reference::Element *> element = floatType(type);
  if (!element)
    return element.takeError();
  return randomElements(type, bytes / (*element)->bytes, kind, seed);
}

Result<void> RandomData::fill(const Buffer &buffer, const std::string &type,
                              Kind kind, uint64_t stream) {
  const std::string key = type + std::to_string(int(kind));
  auto found = blocks.find(key);
  if (found == blocks.end()) {
    int64_t bytes = device.onHost() ? int64_t(1) << 20 : kBlockBytes;
    Result<std::vector<char>> data = randomBlock(type, bytes, kind, seed);
    if (!data)
      return data.takeError();
    Result<Buffer> block = device.allocate(bytes);
    if (!block)
      return block.takeError();
    if (Result<void> ok = device.upload(block->data(), data->data(), bytes);
        !ok)
      return ok;
    found = blocks.emplace(key, std::move(*block)).first;
  }
  const Buffer &block = found->second;
  auto offset = static_cast<int64_t>(stream * 7919 * 4096 %
                                     uint64_t(block.bytes()) / 256 * 256);
  for (int64_t at = 0; at < buffer.bytes();) {
    int64_t part = std::min(block.bytes() - offset, buffer.bytes() - at);
    if (Result<void> copied =
            device.copy(static_cast<char *>(buffer.data()) + at,
                        static_cast<char *>(block.data()) + offset, part);
        !copied)
      return copied;
    at += part;
    offset = 0;
  }
  return {};
}
