//===- Fuzz.cpp - what the fuzzers share ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Fuzz.h"

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>

using namespace moec;

void fuzz::require(bool holds, std::string_view what) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

void fuzz::requireRefusal(const Error &error) {
  require(error.code != ErrorCode::Ok, "an error has a code");
  require(error.code != ErrorCode::Internal,
          "a foreign input is no bug of moec: " + error.message);
  require(!error.message.empty(), "an error has a sentence");
  constexpr size_t kLongest = 8000;
  require(error.message.size() < kLongest,
          "a message is short: " + error.message.substr(0, kLongest / 10));
}

uint64_t fuzz::hashOf(std::string_view text) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash ^ hash >> 29;
}

void fuzz::writeFile(const std::string &path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0)
    return; // a name too long, say
  require(::write(file, bytes.data(), bytes.size()) ==
              static_cast<ssize_t>(bytes.size()),
          "a file can be written");
  ::close(file);
}

const std::string &fuzz::scratchFolder() {
  struct Folder {
    Folder() {
      path = isFolder("/dev/shm") ? "/dev/shm" : "/tmp";
      path += "/moec-fuzz-" + std::to_string(::getpid());
      require(static_cast<bool>(createFolders(path)), "a folder can be made");
    }
    ~Folder() { (void)static_cast<bool>(removeAll(path)); }
    std::string path;
  };
  static Folder folder;
  return folder.path;
}
