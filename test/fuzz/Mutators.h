//===- Mutators.h - changes of inputs for the fuzzers -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random byte changes rarely give valid JSON or IR, so they would hardly test
// anything after the parser. These mutators change a value of the document or a
// word, number or line of the IR: it becomes another one, moves, doubles or
// goes. The fields and words of a format come with the corpus, whose texts are
// crossed.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_FUZZ_MUTATORS_H
#define MOEC_TEST_FUZZ_MUTATORS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moec::fuzz {

/// A changed document; "" if the text is no JSON or the change does not fit.
std::string mutateJson(std::string_view text, size_t mostBytes, unsigned seed);

/// The text with a value of the other one in it.
std::string crossJson(std::string_view text, std::string_view other,
                      size_t mostBytes, unsigned seed);

/// A changed text of IR; `other` lends words and lines.
std::string mutateText(std::string_view text, std::string_view other,
                       size_t mostBytes, unsigned seed);

} // namespace moec::fuzz

#endif // MOEC_TEST_FUZZ_MUTATORS_H
