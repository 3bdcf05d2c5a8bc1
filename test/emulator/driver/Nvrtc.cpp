//===- Nvrtc.cpp - an NVRTC whose cubins are PTX --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hands everything on to the NVRTC that MOEC_EMULATOR_NVRTC names (default:
// libnvrtc.so.13), but compiles for a virtual architecture, with lines of the
// source, and gives the PTX for the cubin.
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <glob.h>
#include <string>
#include <vector>

/// The real library, which never ends; its builtins are beside it.
static void *realNvrtc() {
  static void *library = [] {
    const char *path = std::getenv("MOEC_EMULATOR_NVRTC");
    const std::string name = path && *path ? path : "libnvrtc.so.13";
    if (const size_t slash = name.rfind('/'); slash != std::string::npos) {
      glob_t found = {};
      const std::string pattern =
          name.substr(0, slash) + "/libnvrtc-builtins.so.*";
      if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
      globfree(&found);
    }
    void *opened = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      std::fprintf(stderr,
                   "emulator: %s; set MOEC_EMULATOR_NVRTC to a libnvrtc.so\n",
                   dlerror());
      std::exit(1);
    }
    return opened;
  }();
  return library;
}

template <typename F> static F *real(F *, const char *name) {
  return reinterpret_cast<F *>(dlsym(realNvrtc(), name));
}

// A function that only hands on.
#define MOEC_FORWARD(name, parameters, arguments)                              \
  extern "C" int name parameters { return real(&name, #name) arguments; }
MOEC_FORWARD(nvrtcVersion, (int *major, int *minor), (major, minor))
MOEC_FORWARD(nvrtcGetNumSupportedArchs, (int *count), (count))
MOEC_FORWARD(nvrtcGetSupportedArchs, (int *archs), (archs))
MOEC_FORWARD(nvrtcCreateProgram,
             (void **program, const char *source, const char *name, int count,
              const char *const *headers, const char *const *names),
             (program, source, name, count, headers, names))
MOEC_FORWARD(nvrtcDestroyProgram, (void **program), (program))
MOEC_FORWARD(nvrtcGetPTXSize, (void *program, size_t *size), (program, size))
MOEC_FORWARD(nvrtcGetPTX, (void *program, char *ptx), (program, ptx))
MOEC_FORWARD(nvrtcGetProgramLogSize, (void *program, size_t *size),
             (program, size))
MOEC_FORWARD(nvrtcGetProgramLog, (void *program, char *log), (program, log))
#undef MOEC_FORWARD

extern "C" const char *nvrtcGetErrorString(int error) {
  return real(&nvrtcGetErrorString, "nvrtcGetErrorString")(error);
}

extern "C" int nvrtcCompileProgram(void *program, int count,
                                   const char *const *given) {
  std::vector<std::string> options;
  for (int i = 0; i < count; ++i) {
    std::string option = given[i];
    for (const char *name : {"-arch=", "--gpu-architecture="})
      if (const std::string real = std::string(name) + "sm_";
          option.rfind(real, 0) == 0)
        option = name + ("compute_" + option.substr(real.size()));
    // ptxas does not run.
    if (option.find("ptxas") == std::string::npos)
      options.push_back(std::move(option));
  }
  options.push_back("-lineinfo");
  std::vector<const char *> texts;
  for (const std::string &option : options)
    texts.push_back(option.c_str());
  return real(&nvrtcCompileProgram,
              "nvrtcCompileProgram")(program, int(texts.size()), texts.data());
}

extern "C" int nvrtcGetCUBINSize(void *program, size_t *size) {
  return nvrtcGetPTXSize(program, size);
}
extern "C" int nvrtcGetCUBIN(void *program, char *ptx) {
  return nvrtcGetPTX(program, ptx);
}
