//===- Env.h - all environment variables ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only list of environment variables that moec reads. Code that reads any
// other name does not compile, so the table is complete. The documentation and
// `moec-run --help` print the table. Variables are read at each call, not at
// program start.
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
  std::string_view defaultValue; ///< as a user would write it
  std::string_view help;         ///< one sentence
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
     "The program moec-nvrtc, which compiles kernels in separate processes; "
     "off: threads of the loading process compile them; default: next to the "
     "library."},
    {"MOEC_MEASURE", "path", "",
     "The program moec-measure, which checks and times packages for moec tune; "
     "default: next to moec-nvrtc."},
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

/// The name of a variable in the table. Any other name is a compile error.
class EnvName {
public:
  consteval EnvName(const char *name) : row(-1) {
    // This is an index, not a pointer, because g++ with -fsanitize=undefined
    // does not compare addresses at compile time.
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

/// Returns the value without changes, or the default if the variable is unset
/// or empty.
std::string envString(const EnvVariable &variable);
std::string envString(EnvName name);

/// Parses 1/on/true/yes or 0/off/false/no. Returns InvalidArgument for any
/// other value.
Result<bool> envFlag(EnvName name);

/// Parses a decimal integer >= 0. Returns InvalidArgument for any other value.
Result<int64_t> envInteger(EnvName name);

/// Parses a size such as 2G. Returns InvalidArgument for any other value.
Result<uint64_t> envBytes(EnvName name);

/// Returns a warning for each set variable that is not in the table but whose
/// name is similar to a name in the table, such as MOEC_JOB.
std::vector<std::string> misspeltVariables();

/// Returns all environment variables of this process, for starting a program.
char *const *envBlock();

/// Returns the cache folder that MOEC_CACHE_DIR, XDG_CACHE_HOME or HOME
/// specifies. Returns an error if none of them is set.
Result<std::string> envCacheFolder();

/// Returns the number of hardware threads on which the calling thread may run,
/// at least 1. This is the size of its affinity mask (taskset, container
/// cpusets). Compilation and the host device start this many threads.
int usableThreads();

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_ENV_H
