//===- Sha256.h - the hash of a package and of the cache -*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SHA-256 as lower-case hex, by mbedTLS. The manifest's `files` and the keys of
// the cache are such strings.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_SHA256_H
#define MOEC_RUNTIME_SUPPORT_SHA256_H

#include "runtime/support/Result.h"

#include <memory>
#include <string>
#include <string_view>

namespace moec {

/// A hash that is fed piece by piece.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(Sha256 &&) noexcept;
  Sha256 &operator=(Sha256 &&) noexcept;

  void update(std::string_view bytes);
  /// 64 lower-case hex digits; the object is spent.
  std::string finish();

private:
  struct Context;
  std::unique_ptr<Context> context;
};

/// The hash of some bytes: 64 lower-case hex digits.
std::string sha256(std::string_view bytes);

/// The hash of a file's content; FileSystem errors name the path.
Result<std::string> sha256File(const std::string &path);

/// Whether `text` is 64 lower-case hex digits.
bool isSha256(std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_SHA256_H
