//===- Safetensors.h - reading files of tensors -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The safetensors format: eight bytes with the length of a JSON header, the
// header, then the tensors' bytes. Files are mapped, and everything that a
// header says is checked before a byte is used: it may be anybody's. A
// checkpoint is one file, or a folder of them, with the index that Hugging Face
// writes or without one; files are opened when a tensor of theirs is asked for.
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

/// A tensor as the header describes it; `bytes` are the file's.
struct StoredTensor {
  std::string type; ///< as the format spells it: "BF16", "F8_E4M3", "U8"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  /// "BF16 [4, 96, 64]", for messages.
  std::string describe() const;
};

/// Bits of an element of a type as the format spells it; 0 for an unknown one.
int64_t bitsOf(std::string_view type);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// The tensors of a whole file in memory. An error says where in the header
/// what was expected; `name` is the file's, for messages.
Result<StoredTensors> parseSafetensors(std::span<const std::byte> file,
                                       std::string_view name);

/// One mapped file.
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

/// All tensors of a model by name. Any number of threads may ask at once.
class Checkpoint {
public:
  /// A file NAME.safetensors, or a folder with an index of shards or with such
  /// files alone.
  static Result<Checkpoint> open(const std::string &path);

  const std::string &path() const { return root; }
  /// Names of all tensors with the file that holds each.
  const std::map<std::string, std::string, std::less<>> &names() const {
    return files;
  }
  /// Checks that each tensor whose name `isAsked` wants is known by that name
  /// in the open files, and in that file.
  Result<void>
  checkNames(const std::function<bool(std::string_view)> &isAsked) const;
  /// Opens the tensor's file if it is not open yet.
  Result<const StoredTensor *> find(std::string_view name);

private:
  Result<SafetensorsFile *> openFile(const std::string &path);
  Result<void> addFile(const std::string &path);
  Result<void> readIndex(const std::string &folder, const std::string &index);

  std::string root;
  std::map<std::string, std::string, std::less<>> files;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> opened;
  /// Guards `opened`.
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_SAFETENSORS_H
