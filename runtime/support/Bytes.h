//===- Bytes.h - sizes in human-readable form -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_BYTES_H
#define MOEC_RUNTIME_SUPPORT_BYTES_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace moec {

/// Parses a size in bytes: 500M, 2G or 1.5GB (powers of 1000), 2Gi or 2GiB
/// (powers of 1024), or a plain number of bytes. Returns InvalidArgument for
/// any other text.
Result<uint64_t> parseBytes(std::string_view text);

/// Returns a size such as "0.41 MB" or "1.32 GB", with two decimal places. The
/// smallest unit is MB.
std::string bytesText(uint64_t bytes);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_BYTES_H
