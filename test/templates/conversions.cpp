//===- conversions.cpp - the templates' conversions on a GPU ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every half and every bfloat16 to each format, and every code back, by the
// instructions of the GPU that is there, against the reference. On the host
// ConversionsTest.cpp does the same.
//
//   templates-conversions FOLDER     FOLDER/plan.txt and its cubin
//
//===----------------------------------------------------------------------===//

#include "test/reference/FirstHalf.h"
#include "test/templates/Harness.h"

#include <algorithm>
#include <bit>

using namespace harness;
namespace reference = moec::reference;

namespace {

constexpr int kNumbers = 2 << 16; // halves, then bfloat16s
constexpr const char *kCodes[] = {"f8E4M3FN", "f8E5M2",   "f6E3M2FN",
                                  "f6E2M3FN", "f4E2M1FN", "i8"};
int failures = 0;

void expect(const char *what, const char *name, int number, unsigned got,
            unsigned expected) {
  if (got == expected)
    return;
  if (++failures <= 50)
    std::printf("FAILED %s %s of %s %#x: %#x, expected %#x\n", what, name,
                number < kNumbers / 2 ? "half" : "bfloat16", number & 0xffff,
                got, expected);
}

unsigned codeOf(const reference::Element &element, double value) {
  if (element.isFloat) {
    const double most = reference::largestNumber(element);
    value = std::clamp(value, -most, most);
  }
  unsigned code = 0;
  reference::store(element, &code, 0, value);
  return code & ((1u << element.bits()) - 1);
}

unsigned bitsOf(double value) {
  return std::bit_cast<unsigned>(static_cast<float>(value));
}

/// What one number gave; numbers that are none only have to stay so.
void checkNumber(int number, const unsigned *words) {
  const reference::Element &f16 = *reference::findElement("f16");
  const reference::Element &bf16 = *reference::findElement("bf16");
  const auto stored = uint16_t(number & 0xffff);
  const double value =
      reference::load(number < kNumbers / 2 ? f16 : bf16, &stored, 0);
  const bool isNumber = !std::isnan(value);
  const unsigned *word = words;
  if (isNumber) {
    expect("number", "f32", number, word[0], bitsOf(value));
    unsigned half = 0, bfloat = 0;
    reference::store(f16, &half, 0, value);
    reference::store(bf16, &bfloat, 0, value);
    expect("to", "f16", number, word[1], half);
    expect("to", "bf16", number, word[2], bfloat);
  } else if (!std::isnan(std::bit_cast<float>(word[0]))) {
    expect("number", "NaN", number, word[0], 0x7fffffff);
  }
  word += 3;
  for (const char *name : kCodes) {
    if (isNumber)
      expect("code", name, number, *word,
             codeOf(*reference::findElement(name), value));
    ++word;
  }
  for (const char *name : kCodes) {
    const reference::Element &element = *reference::findElement(name);
    if (!element.isFloat)
      continue;
    for (const char *rule : {"even", "ceil", "floor"}) {
      if (std::isfinite(value)) {
        const float power = reference::powerFor(
            element, rule, float(std::fabs(value)), /*count=*/32);
        expect(rule, name, number, word[0], unsigned(std::ilogb(power) + 127));
        expect(rule, name, number, word[1], bitsOf(power));
      }
      word += 2;
    }
  }
}

/// Codes stand in the lowest bits of the number; the kernel ignores the others.
void checkCode(int code, const unsigned *decoded) {
  for (const char *name : {"f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN",
                           "f4E2M1FN", "i8", "f8E8M0FNU"}) {
    const reference::Element &element = *reference::findElement(name);
    const auto byte = uint8_t(unsigned(code) & ((1u << element.bits()) - 1));
    const double value = reference::load(element, &byte, 0);
    if (std::isnan(value) ? !std::isnan(std::bit_cast<float>(*decoded))
                          : *decoded != bitsOf(value))
      expect("from", name, code, *decoded, bitsOf(value));
    ++decoded;
  }
}

} // namespace

int main(int count, char **arguments) {
  if (count != 2)
    return 2;
  const std::string folder = arguments[1];
  openGpu();
  for (const Line &line : readPlan(folder + "/plan.txt")) {
    if (line.verb != "kernel" || line.number("words", 0) == 0)
      continue;
    const Kernel kernel = loadKernel(line, folder);
    const auto words = size_t(line.number("words"));
    Buffer out(kNumbers * words * 4);
    launch(nullptr, kernel, kNumbers / 256, Arguments().add(out.at), false);
    CHECK_CUDA(cuCtxSynchronize());
    const std::vector<unsigned> got = out.read<unsigned>();
    for (int number = 0; number < kNumbers; ++number) {
      checkNumber(number, &got[size_t(number) * words]);
      checkCode(number, &got[size_t(number + 1) * words - 7]);
    }
    if (!out.guardIntact())
      expect("guard", "behind", 0, 1, 0);
    std::printf("conversions of %d numbers, %d failures\n", kNumbers, failures);
    return failures ? 1 : 0;
  }
  return 2;
}
