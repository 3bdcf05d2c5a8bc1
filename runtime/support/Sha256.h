//===- Sha256.h - SHA-256 ---------------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SHA-256 as lowercase hex, computed by mbedTLS. The manifest's `files` and the
// keys of the cache are such strings.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_SHA256_H
#define MOEC_RUNTIME_SUPPORT_SHA256_H

#include "runtime/support/Result.h"

#include <memory>
#include <string>
#include <string_view>

namespace moec {

/// An incremental hash.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(Sha256 &&) noexcept;
  Sha256 &operator=(Sha256 &&) noexcept;

  void update(std::string_view bytes);
  /// Returns 64 lowercase hex digits. The object must not be used afterwards.
  std::string finish();

private:
  struct Context;
  std::unique_ptr<Context> context;
};

/// Returns the hash of `bytes` as 64 lowercase hex digits.
std::string sha256(std::string_view bytes);

/// Returns the hash of a file's content. FileSystem errors name the path.
Result<std::string> sha256File(const std::string &path);

/// Returns true if `text` consists of 64 lowercase hex digits.
bool isSha256(std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_SHA256_H
