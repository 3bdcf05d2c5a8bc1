//===- CacheStress.cpp - one of N processes that race for a cold key ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the cache in the folder given for one kernel, whose slow "compilation"
// adds a line to compiles.log, and exits 0 if it got the right bytes.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/jit/JitTesting.h"

#include <fcntl.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using namespace moec::runtime;

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  std::string folder = argv[1];
  const std::string expected(200000, 'k');
  auto compile = [&](const Recipe &) -> Result<Cubin> {
    int log = ::open((folder + "/compiles.log").c_str(),
                     O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (log < 0 || ::write(log, "x\n", 2) != 2)
      return Error{ErrorCode::Internal, "no log"};
    ::close(log);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Cubin{expected, ""};
  };
  auto cubin =
      KernelCache(folder).get(test::tinyRecipe(), /*strict=*/false, compile);
  return cubin && cubin->bytes == expected ? 0 : 1;
}
