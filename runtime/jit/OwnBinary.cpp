//===- OwnBinary.cpp - the file that contains this code -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queries the dynamic loader for the file that contains this code.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Nvrtc.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

std::string moec::runtime::pathOfOwnBinary() {
  Dl_info self = {};
  link_map *map = nullptr;
  if (!dladdr1(reinterpret_cast<void *>(&pathOfOwnBinary), &self,
               reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) ||
      !map || !map->l_name)
    return "";
  // The loader reports an empty name for the main program.
  const char *name = map->l_name[0] ? map->l_name : "/proc/self/exe";
  std::error_code failed;
  auto binary = std::filesystem::canonical(name, failed);
  return failed ? "" : binary.string();
}
