//===- Safetensors.h - reads safetensors files ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file consists of the length of a JSON header in eight bytes,
// the header, and the bytes of the tensors. Files are memory-mapped. Every
// field of a header is checked before any tensor byte is used, because the file
// may come from an untrusted source. A checkpoint is one file, or a folder of
// files with or without the index that Hugging Face writes. A file is opened
// when one of its tensors is first requested.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_SAFETENSORS_H
#define MOEC_RUNTIME_WEIGHTS_SAFETENSORS_H

#include "runtime/support/Result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec::weights {

/// A tensor as described by the header. `bytes` points into the mapped file.
struct StoredTensor {
  std::string type; ///< safetensors type name, such as "BF16", "F8_E4M3", "U8"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  /// Returns type and shape as a text for messages, such as "BF16 [4, 96, 64]".
  std::string describe() const;
};

/// Returns the number of bits per element of a safetensors type, or 0 for an
/// unknown type.
int64_t bitsOf(std::string_view type);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// Parses a whole file in memory. `name`: the file's name for messages. An
/// error describes the header field and the expected content.
Result<StoredTensors> parseSafetensors(std::span<const std::byte> file,
                                       std::string_view name);

/// One memory-mapped file.
class SafetensorsFile {
public:
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::string &path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile &) = delete;
  SafetensorsFile &operator=(const SafetensorsFile &) = delete;

  const StoredTensors &tensors() const { return stored; }

private:
  SafetensorsFile(void *address, size_t bytes)
      : address(address), bytes(bytes) {}
  void *address;
  size_t bytes;
  StoredTensors stored;
};

/// All tensors of a model, by name. find() is thread-safe.
class Checkpoint {
public:
  /// Opens a file NAME.safetensors, or a folder that has an index of shards or
  /// that only has safetensors files.
  static Result<Checkpoint> open(const std::string &path);

  const std::string &path() const { return root; }
  /// Returns the names of all tensors, with the path of the file that contains
  /// each tensor.
  const std::map<std::string, std::string, std::less<>> &names() const {
    return files;
  }
  /// Checks the tensors of all opened files whose names satisfy `isAsked`: each
  /// must be in the list of names(), with the same file.
  Result<void>
  checkNames(const std::function<bool(std::string_view)> &isAsked) const;
  /// Returns the tensor `name`. Opens its file if necessary.
  Result<const StoredTensor *> find(std::string_view name);

private:
  Result<SafetensorsFile *> openFile(const std::string &path);
  Result<void> addFile(const std::string &path);
  Result<void> readIndex(const std::string &folder, const std::string &index);

  std::string root;
  std::map<std::string, std::string, std::less<>> files;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> opened;
  /// Protects `opened`.
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_SAFETENSORS_H
