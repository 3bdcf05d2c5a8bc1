//===- Origin.h - where a layer comes from ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an importer read of a model's config and what it assumed, for the
// report and the manifest. No pass reads it, and no kernel depends on it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_ORIGIN_H
#define MOEC_DIALECT_ORIGIN_H

#include "llvm/ADT/StringRef.h"

namespace moec::moe {

/// An attribute of moe.layer, a dictionary with the fields of the manifest's
/// layer.origin; absent where no model's config was read.
inline constexpr llvm::StringLiteral kOrigin = "moe.origin";

} // namespace moec::moe

#endif // MOEC_DIALECT_ORIGIN_H
