//===- Sha256.h - SHA-256 ---------------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SHA-256 as lowercase hex, computed by mbedTLS. The manifest's `files` and the
// cache keys use this form.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_SHA256_H
#define MOEC_RUNTIME_SUPPORT_SHA256_H

#include "runtime/support/Result.h"

#include <memory>
#include <string>
#include <string_view>

namespace moec {

/// A hash that is computed incrementally.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(Sha256 &&) noexcept;
  Sha256 &operator=(Sha256 &&) noexcept;

  void update(std::string_view bytes);
  /// Returns the hash as 64 lowercase hex digits. The object must not be used
  /// afterwards.
  std::string finish();

private:
  struct Context;
  std::unique_ptr<Context> context;
};

/// Returns the hash of `bytes` as 64 lowercase hex digits.
std::string sha256(std::string_view bytes);

/// Returns the hash of a file's content. A FileSystem error contains the path.
Result<std::string> sha256File(const std::string &path);

/// Returns true if `text` consists of 64 lowercase hex digits.
bool isSha256(std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_SHA256_H
