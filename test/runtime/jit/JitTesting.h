//===- JitTesting.h - folders and recipes for tests of the JIT --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A temporary folder that goes with the test, small recipes, and the warnings
// that were logged meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_JIT_JITTESTING_H
#define MOEC_TEST_RUNTIME_JIT_JITTESTING_H

#include "runtime/jit/Cache.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"

#include <cstdlib>
#include <mutex>
#include <string>

namespace moec::test {

class TemporaryFolder {
public:
  TemporaryFolder() {
    char name[] = "/tmp/moec-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~TemporaryFolder() { (void)removeAll(path); }
  std::string path;
};

inline runtime::SharedText sharedText(std::string text) {
  return std::make_shared<const runtime::HashedText>(std::move(text));
}

inline runtime::Recipe tinyRecipe(const std::string &entry = "moec_tiny") {
  runtime::Recipe recipe;
  recipe.entry = entry;
  recipe.arch = "sm_90a";
  recipe.options = {"-std=c++20", "-arch=sm_90a"};
  recipe.source = sharedText("#include \"a.cuh\"\n// " + entry + "\n");
  recipe.headers["a.cuh"] = sharedText("// a\n");
  recipe.headers["b/c.cuh"] = sharedText("// c\n");
  recipe.compiler = "nvrtc 1234 builtins 5678";
  return recipe;
}

/// Collects warnings instead of printing them.
class Warnings {
public:
  Warnings() {
    setLogSink(
        [this](LogLevel, std::string_view text) {
          all += text;
          all += '\n';
        },
        LogLevel::Warning);
  }
  ~Warnings() { setLogSink({}, LogLevel::Warning); }
  std::string all;
};

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_JIT_JITTESTING_H
