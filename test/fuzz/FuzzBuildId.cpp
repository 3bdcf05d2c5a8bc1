//===- FuzzBuildId.cpp - build ids of libraries ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Nvrtc.h"
#include "test/fuzz/Fuzz.h"

#include <fcntl.h>

using namespace moec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string path = fuzz::scratchFolder() + "/library.so";
  static const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  fuzz::require(file >= 0 && ::ftruncate(file, 0) == 0 &&
                    ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
                "the file can be written");
  Result<std::string> id = runtime::readBuildId(path);
  fuzz::require(static_cast<bool>(id), "each file has an id");
  fuzz::require(!id->empty() && id->size() <= 2 * size + 80,
                "an id is made of the file");
  return 0;
}
