//===- Sha256.cpp - SHA-256 -----------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses mbedTLS's SHA-256, which is linked statically. Its functions can only
// fail in builds with hardware drivers, which moec does not use, so their
// results are ignored.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Sha256.h"

#include "runtime/support/Descriptor.h"
#include "runtime/support/Files.h"

#include <array>
#include <fcntl.h>
#include <mbedtls/sha256.h>
#include <unistd.h>

using namespace moec;

struct Sha256::Context {
  mbedtls_sha256_context state;
};

Sha256::Sha256() : context(std::make_unique<Context>()) {
  mbedtls_sha256_init(&context->state);
  mbedtls_sha256_starts_ret(&context->state, /*is224=*/0);
}

Sha256::~Sha256() {
  if (context)
    mbedtls_sha256_free(&context->state);
}

Sha256::Sha256(Sha256 &&) noexcept = default;
Sha256 &Sha256::operator=(Sha256 &&) noexcept = default;

void Sha256::update(std::string_view bytes) {
  mbedtls_sha256_update_ret(
      &context->state, reinterpret_cast<const unsigned char *>(bytes.data()),
      bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest;
  mbedtls_sha256_finish_ret(&context->state, digest.data());
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(64);
  for (unsigned char byte : digest) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

std::string moec::sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Result<std::string> moec::sha256File(const std::string &path) {
  Descriptor file = TRY(openRegular(path));
  Sha256 hash;
  std::array<char, 65536> buffer;
  while (true) {
    ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0)
      return fileError("cannot read", path);
    if (count == 0)
      break;
    hash.update({buffer.data(), static_cast<size_t>(count)});
  }
  return hash.finish();
}

bool moec::isSha256(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
