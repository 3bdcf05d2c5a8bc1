//===- Safetensors.cpp - reads safetensors files --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes in a header are multiplied with overflow checks. Offsets are checked to
// be within the file before they are used.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/Safetensors.h"

#include "runtime/package/ElementTypes.h"
#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"
#include "runtime/support/Json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <ranges>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
/// The same limit as in the safetensors library.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kLengthBytes = 8;

struct Type {
  std::string_view name;
  int64_t bits;
};

/// Safetensors types that are not element types of moec.
constexpr Type kOtherTypes[] = {
    {"F64", 64}, {"U64", 64}, {"U32", 32}, {"U16", 16},
    {"U8", 8},   {"BOOL", 8}, {"C64", 64},
};

/// Parses the header of one file.
class HeaderReader {
public:
  HeaderReader(std::span<const std::byte> file, std::string_view name)
      : file(file), name(name) {}

  Result<StoredTensors> read();

private:
  Error fail(const std::string &text) const {
    return invalidArgument("{}: {}", name, text);
  }
  Error expected(std::string_view tensor, std::string_view what,
                 const std::string &got) const {
    return fail(fmt::format("tensor '{}': expected {}, got {}",
                            shortText(tensor, 200), what, got));
  }
  Result<StoredTensor> tensor(const std::string &key, const json &entry);
  Result<void> checkCoverage() const;

  std::span<const std::byte> file, data;
  std::string_view name;
  struct Extent {
    uint64_t begin, end;
    std::string tensor;
  };
  std::vector<Extent> extents;
};

Result<StoredTensor> HeaderReader::tensor(const std::string &key,
                                          const json &entry) {
  StoredTensor made;
  if (!entry.is_object())
    return expected(key, "an object with dtype, shape and data_offsets",
                    shortJson(entry));
  static const json absent;
  const auto field = [&](const char *word) -> const json & {
    auto it = entry.find(word);
    return it == entry.end() ? absent : *it;
  };
  const json &type = field("dtype"), &shape = field("shape"),
             &offsets = field("data_offsets");
  made.type = type.is_string() ? type.get<std::string>() : "";
  const int64_t bits = bitsOf(made.type);
  if (bits == 0) {
    std::string known;
    for (const ElementType &row : kElementTypes)
      if (!row.stored.empty())
        known += fmt::format("{}, ", row.stored);
    const auto others = std::views::transform(kOtherTypes, &Type::name);
    known += fmt::format("{}", fmt::join(others, ", "));
    return expected(key, "a dtype of " + known, shortJson(type));
  }
  bool fits = shape.is_array();
  int64_t total = bits;
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const json &extent = shape[i];
    fits = extent.is_number_unsigned() &&
           extent.get<uint64_t>() <= uint64_t(INT64_MAX);
    made.shape.push_back(fits ? extent.get<int64_t>() : 0);
    fits = fits && !__builtin_mul_overflow(total, made.shape.back(), &total);
  }
  if (!fits || total % 8 != 0)
    return expected(key, "a shape of whole numbers that fills whole bytes",
                    shortJson(shape));
  const bool isPair = offsets.is_array() && offsets.size() == 2 &&
                      offsets[0].is_number_unsigned() &&
                      offsets[1].is_number_unsigned();
  const uint64_t begin = isPair ? offsets[0].get<uint64_t>() : 1;
  const uint64_t end = isPair ? offsets[1].get<uint64_t>() : 0;
  if (begin > end || end > data.size())
    return expected(
        key,
        fmt::format(
            "data_offsets [begin, end] in the {} bytes after the header",
            data.size()),
        shortJson(offsets));
  if (end - begin != uint64_t(total / 8))
    return expected(
        key,
        fmt::format("data_offsets of the {} bytes of {}", total / 8,
                    made.describe()),
        fmt::format("{}, {} bytes", shortJson(offsets), end - begin));
  made.bytes = data.subspan(begin, end - begin);
  if (begin != end)
    extents.push_back({begin, end, key});
  return made;
}

/// Checks that each byte after the header belongs to exactly one tensor.
Result<void> HeaderReader::checkCoverage() const {
  std::vector<Extent> sorted = extents;
  std::ranges::sort(sorted, [](const Extent &a, const Extent &b) {
    return a.begin < b.begin;
  });
  uint64_t end = 0;
  for (const Extent &extent : sorted) {
    if (extent.begin != end)
      return expected(
          extent.tensor,
          fmt::format(
              "data_offsets that start at {}, where the previous tensor ends",
              end),
          std::to_string(extent.begin));
    end = extent.end;
  }
  if (end != data.size())
    return fail(fmt::format("expected {} bytes of tensors after the header, as "
                            "the header specifies, got {}",
                            end, data.size()));
  return {};
}

Result<StoredTensors> HeaderReader::read() {
  if (file.size() < kLengthBytes)
    return fail(fmt::format("expected eight bytes with the length of a header, "
                            "got a file of {}",
                            file.size()));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= uint64_t(std::to_integer<uint8_t>(file[i])) << (8 * i);
  const uint64_t rest = file.size() - kLengthBytes;
  if (length > std::min(rest, kMaxHeaderBytes))
    return fail(fmt::format("expected a safetensors file, whose first eight "
                            "bytes specify a header length of at most {} "
                            "bytes, got a length of {}",
                            std::min(rest, kMaxHeaderBytes), length));
  data = file.subspan(kLengthBytes + length);
  json header = TRY(parseJsonObject(
      {reinterpret_cast<const char *>(file.data()) + kLengthBytes, length},
      fmt::format("{}: header", name), ErrorCode::InvalidArgument,
      {kMaxHeaderBytes}));
  StoredTensors made;
  for (const auto &[key, entry] : header.items()) {
    if (key == "__metadata__") // human-readable text
      continue;
    StoredTensor one = TRY(tensor(key, entry));
    made.emplace(key, std::move(one));
  }
  TRY(checkCoverage());
  return made;
}

} // namespace

int64_t weights::bitsOf(std::string_view type) {
  if (const ElementType *row = elementTypeOfStored(type))
    return row->bits;
  for (const Type &row : kOtherTypes)
    if (row.name == type)
      return row.bits;
  return 0;
}

std::string StoredTensor::describe() const {
  return fmt::format("{} [{}]", type, fmt::join(shape, ", "));
}

Result<StoredTensors> weights::parseSafetensors(std::span<const std::byte> file,
                                                std::string_view name) {
  return HeaderReader(file, name).read();
}

Result<std::unique_ptr<SafetensorsFile>>
SafetensorsFile::open(const std::string &path) {
  Descriptor file = TRY(openRegular(path));
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return fileError("cannot read", path);
  const auto bytes = static_cast<size_t>(info.st_size);
  // An empty file cannot be mapped. The parser then reports the missing header.
  void *address = bytes == 0 ? nullptr
                             : ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE,
                                      file.get(), 0);
  if (address == MAP_FAILED)
    return fileError("cannot map", path);
  std::unique_ptr<SafetensorsFile> made(new SafetensorsFile(address, bytes));
  made->stored = TRY(
      parseSafetensors({static_cast<const std::byte *>(address), bytes}, path));
  return made;
}

SafetensorsFile::~SafetensorsFile() {
  if (address)
    ::munmap(address, bytes);
}

Result<SafetensorsFile *> Checkpoint::openFile(const std::string &path) {
  std::unique_ptr<SafetensorsFile> &file = opened[path];
  if (!file) {
    file = TRY(SafetensorsFile::open(path));
  }
  return file.get();
}

Result<void> Checkpoint::addFile(const std::string &path) {
  SafetensorsFile *file = TRY(openFile(path));
  for (const auto &[name, tensor] : file->tensors())
    if (auto [known, isNew] = files.emplace(name, path); !isNew)
      return invalidArgument("tensor '{}' is in two files, {} and {}", name,
                             known->second, path);
  return {};
}

Result<void> Checkpoint::readIndex(const std::string &folder,
                                   const std::string &index) {
  const std::string path = joinPath(folder, index);
  std::string text = TRY(readFile(path));
  json read = TRY(parseJsonObject(text, path, ErrorCode::InvalidArgument,
                                  {kMaxHeaderBytes}));
  const auto map = read.find("weight_map");
  if (map == read.end() || !map->is_object())
    return invalidArgument("{}: expected a JSON object with \"weight_map\", an "
                           "object of tensors' names and their files",
                           path);
  for (const auto &[name, file] : map->items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : "";
    if (!isContainedPath(shard))
      return invalidArgument(
          "{}: weight_map of '{}': expected a file in the folder, got {}", path,
          name, shortJson(file));
    files.emplace(name, joinPath(folder, shard));
  }
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string &path) {
  Checkpoint made;
  made.root = path;
  if (!fileExists(path))
    return Error(ErrorCode::FileSystem,
                 "'{}': expected a model's folder with files *{}, or one such "
                 "file; there is none of this name",
                 path, kSuffix);
  if (!isFolder(path)) {
    TRY(made.addFile(path));
    return made;
  }
  std::vector<std::string> list = TRY(listFiles(path));
  std::vector<std::string> shards, indices;
  for (const std::string &file : list) {
    if (file.find('/') != std::string::npos)
      continue; // the folder may hold a copy of the original checkpoint in a
                // subfolder
    if (file.ends_with(kIndexSuffix))
      indices.push_back(file);
    else if (file.ends_with(kSuffix))
      shards.push_back(file);
  }
  if (indices.size() > 1 || (indices.empty() && shards.empty()))
    return invalidArgument("{}: expected one *{} or files *{}, got {}", path,
                           kIndexSuffix, kSuffix,
                           indices.empty()
                               ? "neither"
                               : fmt::format("{}", fmt::join(indices, ", ")));
  if (!indices.empty()) {
    TRY(made.readIndex(path, indices.front()));
    return made;
  }
  for (const std::string &shard : shards)
    TRY(made.addFile(joinPath(path, shard)));
  return made;
}

Result<const StoredTensor *> Checkpoint::find(std::string_view name) {
  auto where = files.find(name);
  if (where == files.end())
    return invalidArgument("{} has no tensor '{}'", root, name);
  const std::lock_guard<std::mutex> guard(*mutex);
  SafetensorsFile *file = TRY(openFile(where->second));
  auto tensor = file->tensors().find(name);
  if (tensor == file->tensors().end())
    return invalidArgument("{}: expected tensor '{}', which the index lists, "
                           "got a file without it",
                           where->second, name);
  return &tensor->second;
}

Result<void> Checkpoint::checkNames(
    const std::function<bool(std::string_view)> &isAsked) const {
  const std::lock_guard<std::mutex> guard(*mutex);
  for (const auto &[path, file] : opened) {
    if (!file)
      continue;
    for (const auto &[name, tensor] : file->tensors()) {
      if (!isAsked(name))
        continue;
      const auto known = files.find(name);
      if (known == files.end())
        return invalidArgument(
            "{} holds tensor '{}', which the index of {} does not name", path,
            name, root);
      if (known->second != path)
        return invalidArgument("tensor '{}' is in two files, {} and {}", name,
                               known->second, path);
    }
  }
  return {};
}
