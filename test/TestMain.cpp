//===- TestMain.cpp - main() of every GoogleTest program ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives the cases the same surroundings whether ctest starts them or a person
// does: where the sources and the build lie, the NVRTC that the build found,
// and a kernel cache of the build's own. What the environment already says,
// stays.
//
//===----------------------------------------------------------------------===//

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <string>

/// Leaks of the driver, which it keeps for the life of a process, are not ours.
extern "C" const char *__lsan_default_suppressions() {
  return "leak:libcuda\n";
}

/// LeakSanitizer sometimes crashes while it reads the memory of NVRTC's
/// threads. A process that has loaded NVRTC is not searched for leaks.
extern "C" int __lsan_is_turned_off() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libnvrtc") != std::string::npos)
      return 1;
  return 0;
}

int main(int argc, char **argv) {
  setenv("MOEC_SOURCE_DIR", MOEC_SOURCE_DIR, /*overwrite=*/0);
  setenv("MOEC_BINARY_DIR", MOEC_BINARY_DIR, /*overwrite=*/0);
  setenv("MOEC_CACHE_DIR", MOEC_BINARY_DIR "/test/cache", /*overwrite=*/0);
  if (MOEC_NVRTC_PATH[0] != '\0')
    setenv("MOEC_NVRTC_PATH", MOEC_NVRTC_PATH, /*overwrite=*/0);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
