//===- FakeNvrtc.cpp - a library with the functions of NVRTC --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FAKE_NVRTC has its version and the milliseconds of a compilation, "11 2 0"
// say. While it compiles it handles SIGINT by exit(4), as NVRTC does.
//
//===----------------------------------------------------------------------===//

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

struct Setting {
  int major = 13, minor = 0, milliseconds = 0;
  Setting() {
    if (const char *text = std::getenv("FAKE_NVRTC"))
      std::sscanf(text, "%d %d %d", &major, &minor, &milliseconds);
  }
};

constexpr char kText[] = "made by a fake";

int giveSize(size_t *size) {
  *size = sizeof kText;
  return 0;
}

int giveText(char *text) {
  std::memcpy(text, kText, sizeof kText);
  return 0;
}

} // namespace

extern "C" {

const char *nvrtcGetErrorString(int) { return "NVRTC_ERROR"; }

int nvrtcVersion(int *major, int *minor) {
  const Setting setting;
  *major = setting.major;
  *minor = setting.minor;
  return 0;
}

int nvrtcGetNumSupportedArchs(int *count) {
  *count = 1;
  return 0;
}

int nvrtcGetSupportedArchs(int *archs) {
  archs[0] = 90;
  return 0;
}

int nvrtcCreateProgram(void **program, const char *, const char *, int,
                       const char *const *, const char *const *) {
  *program = const_cast<char *>(kText);
  return 0;
}

int nvrtcDestroyProgram(void **) { return 0; }

int nvrtcCompileProgram(void *, int, const char *const *) {
  const auto before = std::signal(SIGINT, [](int) { std::_Exit(4); });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(Setting().milliseconds));
  std::signal(SIGINT, before);
  return 0;
}

int nvrtcGetPTXSize(void *, size_t *size) { return giveSize(size); }
int nvrtcGetPTX(void *, char *text) { return giveText(text); }
int nvrtcGetCUBINSize(void *, size_t *size) { return giveSize(size); }
int nvrtcGetCUBIN(void *, char *text) { return giveText(text); }
int nvrtcGetProgramLogSize(void *, size_t *size) {
  *size = 0;
  return 0;
}
int nvrtcGetProgramLog(void *, char *) { return 0; }

} // extern "C"
