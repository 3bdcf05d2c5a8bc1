//===- FuzzCache.cpp - entries of the kernel cache ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is recipe.json, of which the place of the cubin's hash is filled.
// A hit gives the cubin that lies there, whose hash the entry says.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Cache.h"
#include "runtime/support/Sha256.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;
using namespace moec::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string cubin = "the bytes of a kernel";
  static const std::string hash = sha256(cubin);
  static const auto recipe = [](const char *compiler) {
    Recipe made;
    made.entry = "k";
    made.arch = "sm_90a";
    made.options = {"-arch=sm_90a"};
    made.source = std::make_shared<HashedText>("source");
    made.headers["a.cuh"] = std::make_shared<HashedText>("header");
    made.compiler = compiler;
    return made;
  };
  static const Recipe known = recipe("nvrtc"), unknown = recipe("");
  static const KernelCache cache(fuzz::scratchFolder() + "/cache");
  static const std::string folder = [] {
    std::string path = cache.entryFolder(known);
    fuzz::require(static_cast<bool>(createFolders(path)), "a folder is made");
    fuzz::writeFile(path + "/kernel.cubin", cubin);
    return path;
  }();

  std::string text(fuzz::textOf(data, size));
  for (auto [word, value] :
       {std::pair<std::string_view, std::string>("HASH", hash),
        {"RECIPE", known.json()}})
    if (size_t at = text.find(word); at != std::string::npos)
      text.replace(at, word.size(), value);
  fuzz::writeFile(folder + "/recipe.json", text);
  const auto never = [](const Recipe &) -> Result<Cubin> {
    fuzz::require(false, "strict mode does not compile");
    return Cubin();
  };
  for (const Recipe *asked : {&known, &unknown}) {
    auto got = cache.get(*asked, /*strict=*/true, never);
    if (!got)
      fuzz::requireRefusal(got.error());
    else
      fuzz::require(got->bytes == cubin && text.find(hash) != std::string::npos,
                    "a hit is the cubin that lies there");
  }
  return 0;
}
