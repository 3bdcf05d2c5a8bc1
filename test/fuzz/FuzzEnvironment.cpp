//===- FuzzEnvironment.cpp - values of environment variables --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Env.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

using namespace moec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string value(fuzz::textOf(data, size).substr(0, 4000));
  for (const char *name : {"MOEC_STRICT", "MOEC_JOBS", "MOEC_CACHE_DIR"})
    ::setenv(name, value.c_str(), /*overwrite=*/1);
  const std::string seen = value.c_str();
  if (Result<bool> flag = envFlag("MOEC_STRICT"); !flag)
    fuzz::requireRefusal(flag.error());
  if (Result<int64_t> number = envInteger("MOEC_JOBS"); !number)
    fuzz::requireRefusal(number.error());
  else
    fuzz::require(*number >= 0, "a number of threads is not negative");
  if (!seen.empty()) {
    Result<std::string> folder = envCacheFolder();
    fuzz::require(folder && *folder == seen, "a folder is as it was set");
  }
  return 0;
}
