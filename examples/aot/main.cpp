//===- main.cpp - from a package to a running layer -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine's use of a package that `moec compile` wrote ahead of time:
// load the folder, give it weights, run. Links libmoec-runtime.so alone; with
// the package's cubins nothing is compiled and NVRTC is not even opened.
//
//   moec compile config.json --arch=sm_90a -o layer.moec
//   example-aot layer.moec [--host]
//
//===----------------------------------------------------------------------===//

#include "examples/common/RunBatch.h"

int main(int argc, char **argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s PACKAGE [--host]\n", argv[0]);
    return 2;
  }
  bool host = argc > 2 && std::string(argv[2]) == "--host";
  example::Memory memory(/*wantGpu=*/!host);

  moec_load_options load = moec::api::loadOptions();
  load.device = memory.onGpu() ? MOEC_DEVICE_CUDA : MOEC_DEVICE_HOST;
  // An engine in production sets load.strict: what the package lacks is then
  // an error that names the kernel, not a compilation.
  auto package = moec::api::Package::load(argv[1], load);
  if (!package)
    return example::report(package.error());
  std::printf("loaded %s for %s, at most %lld tokens\n",
              package->name().c_str(), package->arch().c_str(),
              static_cast<long long>(package->maxTokens()));

  auto layer = example::makeLayer(*package, memory);
  if (!layer)
    return example::report(layer.error());
  for (int64_t tokens : {1, 7, 64}) {
    auto done = example::runBatch(*package, *layer, memory, tokens);
    if (!done)
      return example::report(done.error());
  }
  return 0;
} catch (const std::exception &exception) { // memory, say
  std::fprintf(stderr, "%s: %s\n", argv[0], exception.what());
  return 1;
}
