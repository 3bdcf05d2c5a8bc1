//===- FuzzOptions.cpp - options_json of the C ABI ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/capi/ConfigOptions.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto options = compiler::readConfigOptions(fuzz::textOf(data, size), true);
  if (!options) {
    fuzz::requireRefusal(options.error());
    fuzz::require(options.error().message.starts_with("options"),
                  "a refusal names the options: " + options.error().message);
  }
  return 0;
}
