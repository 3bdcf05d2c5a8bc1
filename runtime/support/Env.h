//===- Env.h - every environment variable, declared once -*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one list of what moec reads from the environment. A name that is not in
// the table does not compile, so the table is complete; docs and
// `moec-run --help` print it. Values are read at the call, not at start.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_ENV_H
#define MOEC_RUNTIME_SUPPORT_ENV_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct EnvVariable {
  std::string_view name;
  std::string_view type;         ///< path, flag, integer, size, word or words
  std::string_view defaultValue; ///< as one would write it
  std::string_view help;         ///< a sentence
};

inline constexpr EnvVariable kEnvVariables[] = {
    {"MOEC_CACHE_DIR", "path", "",
     "Folder of compiled kernels; default $XDG_CACHE_HOME/moec, else "
     "$HOME/.cache/moec."},
    {"MOEC_CACHE_SIZE", "size", "0",
     "Bound of the kernel cache, such as 2G: a load that has compiled removes "
     "the "
     "kernels that were not used for longest; 0: no bound."},
    {"MOEC_TUNED_STORE", "path", "",
     "Folder of the schedules that moec tune measured for this user; off: "
     "none; "
     "default: tuned in the folder of MOEC_CACHE_DIR."},
    {"MOEC_STRICT", "flag", "0",
     "Never compile at load: a kernel that is neither in the package nor in "
     "the cache is an error."},
    {"MOEC_NVRTC_PATH", "path", "",
     "The libnvrtc.so to open, or the folder that holds it; default: searched "
     "for."},
    {"MOEC_CUDA_DRIVER_PATH", "path", "",
     "The libcuda.so.1 to open; default: as the loader finds it."},
    {"MOEC_EMULATOR", "words", "",
     "Settings of emulated GPUs, such as arch=sm_80 timing=late: "
     "docs/reference/emulator.md."},
    {"MOEC_JOBS", "integer", "0",
     "Kernels that compile at once, or threads of the host device; 0 means one "
     "for each core."},
    {"MOEC_WORKER", "path", "",
     "The program moec-nvrtc, which compiles kernels in processes of its own; "
     "off: threads of the process that loads compile them; default: beside "
     "the library."},
    {"MOEC_MEASURE", "path", "",
     "The program moec-measure, which checks and times packages for moec tune; "
     "default: beside moec-nvrtc."},
    {"MOEC_SPIN_DEADLINE", "integer", "0",
     "Milliseconds after which a kernel that waits for other threads ends "
     "with an assertion that names the wait; 0: never. Kernels are compiled "
     "for it, and are slower."},
    {"MOEC_BACKEND", "word", "",
     "The backend that compile and explain force; --backend wins."},
    {"MOEC_ENGINE", "word", "",
     "The engine that compile and explain force; --engine wins."},
    {"MOEC_EXCLUDE", "words", "",
     "Backends, engines and realizations that compile and explain do not take, "
     "with commas between them; --exclude wins."},
    {"MOEC_PYTHON", "path", "",
     "The Python that moec bench and moec warmup run in; default: python3 of "
     "PATH."},
    {"MOEC_DUMP_DIR", "path", "",
     "Folder that receives every source, log and cubin of a load."},
    {"MOEC_LOG", "word", "warning",
     "What is written to stderr: none, error, warning, info or debug."},
    {"NO_COLOR", "word", "", "Anything: programs print no colors."},
    {"TERM", "word", "", "dumb: programs print no colors."},
    {"CUDA_HOME", "path", "",
     "A CUDA toolkit, one of the places searched for NVRTC."},
    {"CUDA_PATH", "path", "", "The same, as other systems spell it."},
    {"LD_LIBRARY_PATH", "path", "",
     "Folders, one of the places searched for NVRTC."},
    {"VIRTUAL_ENV", "path", "",
     "A Python environment, one of the places searched for NVRTC."},
    {"PATH", "path", "", "Folders, searched for a toolkit's nvcc."},
    {"XDG_CACHE_HOME", "path", "", "See MOEC_CACHE_DIR."},
    {"HOME", "path", "", "See MOEC_CACHE_DIR."},
};

/// A name of the table; another one is a compile error.
class EnvName {
public:
  consteval EnvName(const char *name) : row(-1) {
    // An index, not a pointer: g++ with -fsanitize=undefined does not compare
    // addresses at compile time.
    for (int i = 0; i < static_cast<int>(std::size(kEnvVariables)); ++i)
      if (kEnvVariables[i].name == std::string_view(name))
        row = i;
    if (row < 0)
      throw "declare the variable in kEnvVariables";
  }
  constexpr const EnvVariable &variable() const { return kEnvVariables[row]; }

private:
  int row;
};

/// The value as it stands; an unset or empty variable gives the default.
std::string envString(const EnvVariable &variable);
std::string envString(EnvName name);

/// 1/on/true/yes or 0/off/false/no; anything else is InvalidArgument.
Result<bool> envFlag(EnvName name);

/// A decimal integer >= 0; anything else is InvalidArgument.
Result<int64_t> envInteger(EnvName name);

/// A size, 2G say; anything else is InvalidArgument.
Result<uint64_t> envBytes(EnvName name);

/// A warning for each variable that is set and has nearly the name of one of
/// the table, MOEC_JOB say.
std::vector<std::string> misspeltVariables();

/// All variables, for a program to be started.
char *const *envBlock();

/// The cache's folder by MOEC_CACHE_DIR, XDG_CACHE_HOME and HOME; an error if
/// none of them is set.
Result<std::string> envCacheFolder();

/// Hardware threads that the calling thread may run on: those of its affinity
/// mask (taskset, containers' cpusets), at least 1. Compilations and the host
/// device start as many.
int usableThreads();

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_ENV_H
