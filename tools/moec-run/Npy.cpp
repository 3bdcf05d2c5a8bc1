//===- Npy.cpp - arrays in NumPy's file format ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The header is a Python dictionary literal. The parser accepts the grammar
// that numpy.save prints, with any spaces between words.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/Npy.h"

#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;
using namespace moec::run;

static constexpr std::string_view kMagic = "\x93NUMPY";
static constexpr size_t kShortPrefix = 10, kLongPrefix = 12;
/// Limit for the header; numpy.save writes about 100 bytes.
static constexpr size_t kMostHeader = 1 << 16;

std::string moec::run::shapeText(const std::vector<int64_t> &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

namespace {
/// Parses the dictionary of the header. read() returns false if it is
/// malformed.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : rest(text) {}
  std::optional<std::string> dtype;
  std::optional<bool> fortranOrder;
  std::optional<std::vector<int64_t>> shape;

  bool read() {
    if (!take("{"))
      return false;
    while (!take("}"))
      if (!readEntry() || (!take(",") && !startsWith("}")))
        return false;
    skipSpace();
    return rest.empty() && dtype && fortranOrder && shape;
  }

private:
  void skipSpace() {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
  }
  bool startsWith(std::string_view word) {
    skipSpace();
    return rest.starts_with(word);
  }
  bool take(std::string_view word) {
    if (!startsWith(word))
      return false;
    rest.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> readString() {
    skipSpace();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return std::nullopt;
    const size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string text(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    return text;
  }
  bool readEntry() {
    const std::optional<std::string> key = readString();
    if (!key || !take(":"))
      return false;
    if (*key == "descr" && !dtype)
      return (dtype = readString()).has_value();
    if (*key == "fortran_order" && !fortranOrder) {
      fortranOrder = startsWith("True");
      return take("True") || take("False");
    }
    if (*key == "shape" && !shape)
      return readShape(shape.emplace());
    return false;
  }
  bool readShape(std::vector<int64_t> &extents) {
    if (!take("("))
      return false;
    while (!take(")")) {
      skipSpace();
      int64_t extent = 0;
      const auto [end, error] =
          std::from_chars(rest.data(), rest.data() + rest.size(), extent);
      if (error != std::errc() || extent < 0)
        return false;
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
      extents.push_back(extent);
      if (!take(",") && !startsWith(")"))
        return false;
    }
    return true;
  }

  std::string_view rest;
};

/// A file that is read from its start.
class NpyFile {
public:
  NpyFile(const std::string &path, Descriptor file)
      : path(path), file(std::move(file)) {}
  Result<NpyArray> read();

private:
  Error refuse(std::string_view what) const {
    return refused("'{}': {}", path, what);
  }
  Result<void> readBytes(void *to, size_t count);
  Result<std::string> readHeader();

  const std::string &path;
  Descriptor file;
};
} // namespace

Result<void> NpyFile::readBytes(void *to, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t got =
        ::read(file.get(), static_cast<char *>(to) + done, count - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return fileError("cannot read", path);
    if (got == 0)
      return refuse("expected a .npy file, got one that ends too early");
    done += static_cast<size_t>(got);
  }
  return {};
}

Result<std::string> NpyFile::readHeader() {
  unsigned char prefix[kLongPrefix] = {};
  TRY(readBytes(prefix, kShortPrefix));
  if (std::memcmp(prefix, kMagic.data(), kMagic.size()) != 0)
    return refuse("expected a .npy file, as numpy.save writes it, got another "
                  "format");
  const int major = prefix[6], minor = prefix[7];
  if ((major != 1 && major != 2) || minor != 0)
    return refuse(fmt::format("expected version 1.0 or 2.0 of the .npy format, "
                              "got {}.{}",
                              major, minor));
  size_t length = prefix[8] | size_t(prefix[9]) << 8;
  if (major == 2) {
    TRY(readBytes(prefix + kShortPrefix, kLongPrefix - kShortPrefix));
    length |= size_t(prefix[10]) << 16 | size_t(prefix[11]) << 24;
  }
  if (length > kMostHeader)
    return refuse(fmt::format("expected a header of at most {} bytes, got {}",
                              kMostHeader, length));
  std::string header(length, '\0');
  TRY(readBytes(header.data(), length));
  return header;
}

/// Returns the bytes of one element of a dtype, or 0 if it is not supported.
static int64_t bytesOf(std::string_view dtype) {
  for (const char *one : {"|i1", "|u1"})
    if (dtype == one)
      return 1;
  if (dtype.size() != 3 || dtype[0] != '<' ||
      std::string_view("fiu").find(dtype[1]) == std::string_view::npos)
    return 0;
  const int64_t bytes = dtype[2] - '0';
  return bytes == 2 || bytes == 4 || bytes == 8 ? bytes : 0;
}

Result<NpyArray> NpyFile::read() {
  std::string header = TRY(readHeader());
  // A structured dtype is a list, whose elements are not plain numbers.
  if (header.find("'descr': [") != std::string::npos)
    return refuse("expected plain numbers, got a structured dtype");
  HeaderReader fields(header);
  if (!fields.read())
    return refuse("expected a header with descr, fortran_order and shape");
  const int64_t bytes = bytesOf(*fields.dtype);
  if (bytes == 0)
    return refuse(fmt::format("expected little-endian numbers of 1, 2, 4 or 8 "
                              "bytes, got dtype '{}'; array.view(numpy.uint16) "
                              "or (numpy.uint8) has the bits of other types",
                              *fields.dtype));
  if (*fields.fortranOrder)
    return refuse("expected C order, got Fortran order; "
                  "numpy.ascontiguousarray(array) has C order");
  int64_t total = bytes;
  for (const int64_t extent : *fields.shape)
    if (__builtin_mul_overflow(total, extent, &total))
      return refuse(fmt::format("shape {} has too many elements",
                                shapeText(*fields.shape)));
  struct stat info = {};
  const off_t at = ::lseek(file.get(), 0, SEEK_CUR);
  if (at < 0 || ::fstat(file.get(), &info) != 0)
    return fileError("cannot read", path);
  // Checked before memory is allocated.
  if (info.st_size - at != total)
    return refuse(fmt::format("expected {} bytes of elements for dtype '{}' "
                              "and shape {}, got {}",
                              total, *fields.dtype, shapeText(*fields.shape),
                              info.st_size - at));
  NpyArray array{std::move(*fields.dtype), std::move(*fields.shape),
                 HostArray(total)};
  TRY(readBytes(array.elements.data.get(), size_t(total)));
  return array;
}

Result<NpyArray> moec::run::readNpy(const std::string &path) {
  Descriptor file = TRY(openRegular(path));
  return NpyFile(path, std::move(file)).read();
}

Result<void> moec::run::writeNpy(const std::string &path,
                                 std::string_view dtype,
                                 const std::vector<int64_t> &shape,
                                 const HostArray &elements) {
  std::string header = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", dtype,
      fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // The elements start at a multiple of 64.
  constexpr size_t kAlignment = 64;
  while ((kShortPrefix + header.size() + 1) % kAlignment != 0)
    header += ' ';
  header += '\n';
  std::string text(kMagic);
  for (const size_t byte :
       {size_t(1), size_t(0), header.size() & 255, header.size() >> 8})
    text += static_cast<char>(byte);
  text += header;
  text.append(reinterpret_cast<const char *>(elements.data.get()),
              static_cast<size_t>(elements.bytes));
  return writeFileAtomically(path, text);
}
