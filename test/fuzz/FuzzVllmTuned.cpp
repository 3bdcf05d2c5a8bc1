//===- FuzzVllmTuned.cpp - vLLM's tuned files -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranges of a file that is read begin at 1, follow each other and never end
// before they begin.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/VllmTuned.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;
using namespace moec::compiler;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto file = parseVllmTuned("E=8,N=512,device_name=NVIDIA_H200.json",
                                   fuzz::textOf(data, size));
  if (!file) {
    fuzz::requireRefusal(file.error());
    return 0;
  }
  int64_t next = 1;
  for (const VllmTuned::Blocks &block : file->blocks) {
    fuzz::require(block.first == next && block.last >= block.first &&
                      block.rows > 0,
                  "ranges leave no gap");
    next = block.last + 1;
  }
  return 0;
}
