//===- Paths.cpp - paths as strings ---------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Paths.h"

#include <cerrno>
#include <system_error>

using namespace moec;

Error moec::fileError(std::string_view what, std::string_view path) {
  // Unlike strerror, std::system_category is thread-safe.
  return {ErrorCode::FileSystem, "{} '{}': {}", what, path,
          std::system_category().message(errno)};
}

std::string moec::joinPath(std::string_view folder, std::string_view name) {
  if (folder.empty())
    return std::string(name);
  std::string path(folder);
  if (path.back() != '/')
    path += '/';
  return path.append(name);
}

std::string moec::parentFolder(std::string_view path) {
  size_t slash = path.rfind('/');
  if (slash == std::string_view::npos)
    return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

bool moec::isContainedPath(std::string_view path) {
  if (path.empty() || path.find('\\') != std::string_view::npos ||
      path.find('\0') != std::string_view::npos)
    return false;
  while (true) {
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..")
      return false;
    if (slash == std::string_view::npos)
      return true;
    path.remove_prefix(slash + 1);
  }
}
