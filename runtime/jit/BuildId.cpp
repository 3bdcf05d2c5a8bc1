//===- BuildId.cpp - the build-id of an ELF file --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the program headers, finds the PT_NOTE segments and searches them for
// NT_GNU_BUILD_ID. The file is untrusted, so every offset is checked against
// the file size.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Nvrtc.h"

#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"

#include <fmt/core.h>

#include <elf.h>

#include <cstring>
#include <fstream>
#include <vector>

using namespace moec;

static bool readAt(std::ifstream &file, uint64_t offset, void *to,
                   uint64_t bytes) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(static_cast<char *>(to), static_cast<std::streamsize>(bytes));
  return file.good();
}

/// Returns the build-id in the notes of one segment, or "" if the segment has
/// none.
static std::string findInNotes(const std::vector<char> &notes,
                               uint64_t alignment) {
  auto align = [&](uint64_t offset) {
    return (offset + alignment - 1) / alignment * alignment;
  };
  uint64_t at = 0;
  while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    uint64_t name = at + sizeof(note);
    uint64_t description = align(name + note.n_namesz);
    uint64_t end = align(description + note.n_descsz);
    if (description + note.n_descsz > notes.size())
      break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      std::string hex;
      for (uint64_t i = 0; i < note.n_descsz; ++i)
        hex += fmt::format("{:02x}",
                           static_cast<unsigned char>(notes[description + i]));
      return hex;
    }
    at = end;
  }
  return "";
}

static std::string findBuildId(std::ifstream &file) {
  Elf64_Ehdr header;
  if (!readAt(file, 0, &header, sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return "";
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!readAt(file, header.e_phoff + i * sizeof(segment), &segment,
                sizeof(segment)))
      return "";
    // Real note segments have a few hundred bytes.
    constexpr uint64_t kMostNotes = 1 << 20;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNotes)
      continue;
    std::vector<char> notes(segment.p_filesz);
    if (!readAt(file, segment.p_offset, notes.data(), notes.size()))
      return "";
    if (auto id = findInNotes(notes, segment.p_align == 8 ? 8 : 4); !id.empty())
      return id;
  }
  return "";
}

Result<std::string> moec::runtime::readBuildId(const std::string &path) {
  if (Result<Descriptor> regular = openRegular(path); !regular)
    return regular.takeError();
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fileError("cannot read", path);
  if (auto id = findBuildId(file); !id.empty())
    return id;
  auto hash = TRY(sha256File(path));
  return "sha256:" + hash;
}
