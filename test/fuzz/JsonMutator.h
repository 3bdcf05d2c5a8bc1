//===- JsonMutator.h - changes of JSON texts for the fuzzers ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes that are changed at random are mostly no JSON, so what lies behind the
// parser would hardly be reached. This mutator changes a value of the document:
// it becomes another one, moves, doubles or goes; a key becomes another. The
// fields and words of a format come with the corpus, whose texts are crossed.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_FUZZ_JSONMUTATOR_H
#define MOEC_TEST_FUZZ_JSONMUTATOR_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moec::fuzz {

/// A changed document; "" where the text is no JSON or the change does not fit.
std::string mutateJson(std::string_view text, size_t mostBytes, unsigned seed);

/// The text with a value of the other one in it.
std::string crossJson(std::string_view text, std::string_view other,
                      size_t mostBytes, unsigned seed);

} // namespace moec::fuzz

#endif // MOEC_TEST_FUZZ_JSONMUTATOR_H
