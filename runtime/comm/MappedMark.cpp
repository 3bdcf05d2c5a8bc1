//===- MappedMark.cpp - which processes still map a memory ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/MappedMark.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <random>
#include <sys/file.h>
#include <unistd.h>

using namespace moec;
using namespace moec::comm;

/// A folder in memory (tmpfs) that all processes of a host or container share.
static constexpr std::string_view kFolder = "/dev/shm";

static Error cannot(std::string_view what, const std::string &path) {
  return Error(ErrorCode::NoCommunication, "it cannot {} {}: {}", what, path,
               std::strerror(errno));
}

Result<MappedMark> MappedMark::create() {
  std::random_device random;
  const std::string path = fmt::format("{}/moec-window-{}-{:08x}{:08x}",
                                       kFolder, ::getpid(), random(), random());
  Descriptor opened(::open(
      path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!opened)
    return cannot("create", path);
  return MappedMark(std::move(opened), path, /*owns=*/true);
}

Result<MappedMark> MappedMark::join(const std::string &path) {
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!opened)
    return cannot("open", path);
  if (::flock(opened.get(), LOCK_SH | LOCK_NB) != 0)
    return cannot("lock", path);
  return MappedMark(std::move(opened), path, /*owns=*/false);
}

MappedMark::MappedMark(Descriptor given, std::string path, bool owns)
    : opened(std::move(given)), file(std::move(path)), owns(owns),
      slot(closeInChildren(opened)), process(::getpid()) {}

MappedMark::~MappedMark() {
  if (!opened)
    return;
  if (process != ::getpid()) {
    // The descriptor was closed in the child at the fork, and its number may
    // since refer to another file.
    opened.release();
    return;
  }
  keepNoMore(slot);
  if (owns)
    removeFile();
  else
    ::flock(opened.get(), LOCK_UN);
}

void MappedMark::removeFile() {
  if (!file.empty())
    ::unlink(file.c_str());
  file.clear();
}

bool MappedMark::isAlone() const {
  return ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0;
}
