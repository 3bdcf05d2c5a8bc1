//===- Fuzz.h - what the fuzzers share --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_FUZZ_FUZZ_H
#define MOEC_TEST_FUZZ_FUZZ_H

#include "runtime/support/Files.h"
#include "runtime/support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <unistd.h>

namespace moec::fuzz {

/// Ends the process where something that must hold does not: a finding.
void require(bool holds, std::string_view what);

/// Every refusal has a code, and a sentence that a terminal can show.
void requireRefusal(const Error &error);

/// A number that the input alone decides, to draw options by.
uint64_t hashOf(std::string_view text);

/// A folder in memory for this process, which is removed when it ends.
const std::string &scratchFolder();

/// Writes a file of a scratch folder; a name that no file can have is left out.
void writeFile(const std::string &path, std::string_view bytes);

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace moec::fuzz

/// libFuzzer's door.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif // MOEC_TEST_FUZZ_FUZZ_H
