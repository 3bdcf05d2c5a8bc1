//===- JsonFuzz.cpp - libFuzzer's mutator for JSON texts ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Three of four changes keep the text JSON; the others are libFuzzer's own.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Fuzz.h"
#include "test/fuzz/Mutators.h"

#include <algorithm>

using namespace moec;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t most, unsigned seed) {
  if (seed % 4 != 0) {
    std::string changed =
        fuzz::mutateJson(fuzz::textOf(data, size), most, seed / 4);
    if (!changed.empty()) {
      std::copy(changed.begin(), changed.end(), data);
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first,
                                            size_t firstSize,
                                            const uint8_t *second,
                                            size_t secondSize, uint8_t *out,
                                            size_t most, unsigned seed) {
  std::string crossed =
      fuzz::crossJson(fuzz::textOf(first, firstSize),
                      fuzz::textOf(second, secondSize), most, seed);
  if (crossed.empty())
    crossed.assign(fuzz::textOf(first, std::min(firstSize, most)));
  std::copy(crossed.begin(), crossed.end(), out);
  return crossed.size();
}
