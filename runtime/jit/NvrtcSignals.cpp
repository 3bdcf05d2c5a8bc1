//===- NvrtcSignals.cpp - prevents NVRTC from handling signals ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// While NVRTC parses, it handles SIGINT, SIGTERM and SIGHUP by calling exit(4).
// This would end the host process without Python's KeyboardInterrupt and
// without removing temporary files. If two threads compile at the same time,
// the handler may even remain installed. NVRTC has no option to disable it.
// Therefore this file replaces the entry of signal() in NVRTC's import table,
// so that the host's handlers stay installed.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Nvrtc.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>

using namespace moec;

namespace {

using Handler = void (*)(int);

/// The function that NVRTC calls instead of signal().
Handler signalOfNvrtc(int number, Handler handler) {
  if (number == SIGINT || number == SIGTERM || number == SIGHUP ||
      number == SIGQUIT)
    return SIG_DFL;
  return ::signal(number, handler);
}

/// The tables of a loaded library that describe its imported functions.
struct Imports {
  const ElfW(Sym) *symbols = nullptr;
  const char *names = nullptr;
  struct Table {
    const ElfW(Rela) *rows = nullptr;
    size_t bytes = 0;
  };
  Table ofCalls, ofAddresses; ///< DT_JMPREL, DT_RELA
};

Imports importsOf(const link_map &map) {
  Imports found;
  // In glibc, the loader has already added the library's base address to these
  // pointers.
  for (const ElfW(Dyn) *row = map.l_ld; row->d_tag != DT_NULL; ++row) {
    const auto pointer = row->d_un.d_ptr;
    switch (row->d_tag) {
    case DT_SYMTAB:
      found.symbols = reinterpret_cast<const ElfW(Sym) *>(pointer);
      break;
    case DT_STRTAB:
      found.names = reinterpret_cast<const char *>(pointer);
      break;
    case DT_JMPREL:
      found.ofCalls.rows = reinterpret_cast<const ElfW(Rela) *>(pointer);
      break;
    case DT_PLTRELSZ:
      found.ofCalls.bytes = row->d_un.d_val;
      break;
    case DT_RELA:
      found.ofAddresses.rows = reinterpret_cast<const ElfW(Rela) *>(pointer);
      break;
    case DT_RELASZ:
      found.ofAddresses.bytes = row->d_un.d_val;
      break;
    default:
      break;
    }
  }
  return found;
}

/// Writes an address to a table that the loader may have made read-only.
/// Returns false on failure.
bool replace(void **entry, void *with) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(entry) & ~(page - 1);
  // The entry is aligned, so it does not cross a page boundary.
  if (::mprotect(reinterpret_cast<void *>(begin), page,
                 PROT_READ | PROT_WRITE) != 0)
    return false;
  *entry = with;
  return true;
}

} // namespace

bool moec::runtime::keepSignals(void *nvrtc) {
  link_map *map = nullptr;
  if (::dlinfo(nvrtc, RTLD_DI_LINKMAP, &map) != 0 || !map)
    return false;
  const Imports imports = importsOf(*map);
  if (!imports.symbols || !imports.names)
    return false;
  bool isDone = false;
  for (const Imports::Table &table : {imports.ofCalls, imports.ofAddresses}) {
    const size_t count = table.rows ? table.bytes / sizeof(ElfW(Rela)) : 0;
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Rela) &row = table.rows[i];
      const size_t symbol = ELF64_R_SYM(row.r_info);
      if (symbol == 0 ||
          std::strcmp(imports.names + imports.symbols[symbol].st_name,
                      "signal") != 0)
        continue;
      auto *entry = reinterpret_cast<void **>(map->l_addr + row.r_offset);
      isDone |= replace(entry, reinterpret_cast<void *>(&signalOfNvrtc));
    }
  }
  return isDone;
}
