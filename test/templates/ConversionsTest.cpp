//===- ConversionsTest.cpp - every half and bfloat16 to every format ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From numbers to codes: in the kernels' arithmetic, by the names of the host
// device, and in the reference, against a search in the numbers of all codes.
// From codes to numbers: SmallFloatsTest.cpp and E4m3Test.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"
#include "runtime/host/WeightRules.h"
#include "templates/moe/math/host.h"
#include "test/reference/Element.h"
#include "test/reference/FirstHalf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace moec;

namespace {

/// The scales that kernels make of a group's largest number: of weights, and of
/// activations that are emulated.
template <class T, class Rule> std::array<float, 2> scalesBy(float largest) {
  using Weights = moe::quant::WeightScaling<T, moe::ue8m0, Rule,
                                            moe::quant::Shares::Group, false>;
  moe::quant::Range range;
  range.least = 0, range.most = largest;
  return {moe::toFloat(Weights::scale(range, 1)),
          moe::quant::PowerGroups<T, Rule, 32>::scale(largest, 1)};
}

template <class T>
std::array<float, 2> scalesOf(const std::string &rule, float largest) {
  return rule == "even"   ? scalesBy<T, moe::quant::Even>(largest)
         : rule == "ceil" ? scalesBy<T, moe::quant::Ceil>(largest)
                          : scalesBy<T, moe::quant::Floor>(largest);
}

struct Format {
  const char *name;
  std::function<unsigned(float)> code;
  std::function<float(float)> nearest;
  std::function<std::array<float, 2>(const std::string &, float)> scales;
};

template <class T> Format formatOf(const char *name) {
  return {name, moe::quant::codeOf<T>, moe::quant::nearest<T>, scalesOf<T>};
}

const std::vector<Format> kFormats = {
    formatOf<moe::e4m3>("f8E4M3FN"), formatOf<moe::e5m2>("f8E5M2"),
    formatOf<moe::e3m2>("f6E3M2FN"), formatOf<moe::e2m3>("f6E2M3FN"),
    formatOf<moe::e2m1>("f4E2M1FN")};

/// Every number that an f16 or a bf16 is.
void forEveryNumber(const std::function<void(float)> &visit) {
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    for (float value :
         {host::fromF16(uint16_t(bits)), host::fromBf16(uint16_t(bits))})
      if (!std::isnan(value))
        visit(value);
}

/// The code whose number is nearest, of two the even one; saturated.
class Search {
public:
  explicit Search(const reference::Element &element) : element(element) {
    for (unsigned code = 0; code < 1u << (element.bits() - 1); ++code) {
      const auto byte = uint8_t(code);
      if (const double value = reference::load(element, &byte, 0);
          std::isfinite(value))
        numbers.push_back(value);
    }
  }
  unsigned operator()(float value) const {
    const double size = std::fabs(double(value));
    const size_t above =
        size_t(std::lower_bound(numbers.begin(), numbers.end(), size) -
               numbers.begin());
    size_t code = std::min(above, numbers.size() - 1);
    if (above > 0 && above < numbers.size()) {
      const double up = numbers[above] - size, down = size - numbers[above - 1];
      if (down < up || (down == up && above % 2 == 1))
        --code;
    }
    return unsigned(code) |
           (std::signbit(value) ? 1u << (element.bits() - 1) : 0);
  }
  double largest() const { return numbers.back(); }

private:
  const reference::Element &element;
  std::vector<double> numbers;
};

TEST(Conversions, EveryHalfAndBfloat16ToCodes) {
  for (const Format &format : kFormats) {
    const reference::Element &element = *reference::findElement(format.name);
    const Search search(element);
    host::WeightFormat weight;
    weight.element = format.name, weight.scale = "f32";
    weight.groupRows = 1, weight.groupColumns = -1;
    const Result<host::WeightRules> rules = host::WeightRules::of(weight);
    ASSERT_TRUE(bool(rules)) << format.name;
    forEveryNumber([&](float value) {
      const unsigned expected = search(value);
      ASSERT_EQ(format.code(value), expected) << format.name << " " << value;
      ASSERT_EQ(unsigned(rules->code(value, 1, 0)), expected)
          << format.name << " " << value;
      // The reference rounds to the infinities of e5m2.
      const double most = search.largest();
      uint8_t stored = 0;
      reference::store(element, &stored, 0,
                       std::clamp(double(value), -most, most));
      ASSERT_EQ(stored, expected) << format.name << " " << value;
      // And as numbers.
      const auto byte = uint8_t(expected);
      const double number = reference::load(element, &byte, 0);
      ASSERT_EQ(double(format.nearest(value)), number)
          << format.name << " " << value;
      ASSERT_EQ(
          reference::roundTo(element, std::clamp(double(value), -most, most)),
          number)
          << format.name << " " << value;
    });
  }
}

/// Scales that are powers of two: of groups whose largest is a half or a
/// bfloat16, by each rule and of each format.
TEST(Conversions, EveryHalfAndBfloat16ToPowers) {
  for (const Format &format : kFormats) {
    const reference::Element &element = *reference::findElement(format.name);
    for (const std::string rule : {"even", "ceil", "floor"}) {
      host::WeightFormat weight;
      weight.element = format.name, weight.scale = "f8E8M0FNU";
      weight.groupRows = 1, weight.groupColumns = 32;
      weight.scaleRule = rule;
      const Result<host::WeightRules> rules = host::WeightRules::of(weight);
      ASSERT_TRUE(bool(rules)) << format.name;
      forEveryNumber([&](float value) {
        if (std::signbit(value) || std::isinf(value))
          return;
        const float power = reference::powerFor(element, rule, value, 32);
        for (float scale : format.scales(rule, value))
          ASSERT_EQ(scale, power) << format.name << " " << rule << " " << value;
        host::WeightRange range;
        range.take(value);
        std::byte stored{};
        rules->storeScale(range, 1, &stored);
        ASSERT_EQ(host::fromCode(host::Storage::UE8M0, uint8_t(stored)), power)
            << format.name << " " << rule << " " << value;
      });
    }
  }
}

/// The nearest power of two; what lies between 1 and 1.5 of them is the lower.
TEST(Conversions, EveryHalfAndBfloat16ToTheNearestPower) {
  const reference::Element &power = *reference::findElement("f8E8M0FNU");
  forEveryNumber([&](float value) {
    if (!(value > 0) || std::isinf(value))
      return;
    const int below = std::ilogb(value);
    const int exponent = std::clamp(
        double(value) < 1.5 * std::ldexp(1.0, below) ? below : below + 1, -127,
        127);
    uint8_t code = 0;
    reference::store(power, &code, 0, value);
    ASSERT_EQ(int(code), exponent + 127) << value;
    ASSERT_EQ(host::fromCode(host::Storage::UE8M0, code),
              float(std::ldexp(1.0, exponent)));
  });
}

/// Between f32, f16 and bf16: the host device as the reference.
TEST(Conversions, EveryHalfAndBfloat16ToEachOther) {
  const reference::Element &f16 = *reference::findElement("f16");
  const reference::Element &bf16 = *reference::findElement("bf16");
  forEveryNumber([&](float value) {
    for (float beside : {value, std::nextafterf(value, INFINITY),
                         std::nextafterf(value, -INFINITY)}) {
      uint16_t half = 0, bfloat = 0;
      reference::store(f16, &half, 0, double(beside));
      reference::store(bf16, &bfloat, 0, double(beside));
      ASSERT_EQ(host::toF16(beside), half) << beside;
      ASSERT_EQ(host::toBf16(beside), bfloat) << beside;
    }
  });
}

} // namespace
