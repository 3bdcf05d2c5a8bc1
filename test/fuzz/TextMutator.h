//===- TextMutator.h - changes of IR for the fuzzers ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Words, numbers and lines of a text change, mostly one at a time, so that
// many results are still IR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_FUZZ_TEXTMUTATOR_H
#define MOEC_TEST_FUZZ_TEXTMUTATOR_H

#include <cstddef>
#include <string>
#include <string_view>

namespace moec::fuzz {

/// A changed text; `other` lends words and lines.
std::string mutateText(std::string_view text, std::string_view other,
                       size_t mostBytes, unsigned seed);

} // namespace moec::fuzz

#endif // MOEC_TEST_FUZZ_TEXTMUTATOR_H
