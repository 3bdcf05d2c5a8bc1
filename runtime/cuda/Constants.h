//===- Constants.h - a constant's numbers as bytes --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Value::data, which the manifest holds as numbers, in the value's own element
// type, rounded to nearest even.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_CUDA_CONSTANTS_H
#define MOEC_RUNTIME_CUDA_CONSTANTS_H

#include "runtime/package/Manifest.h"

#include <string>

namespace moec::runtime {

/// The bytes of a constant. Types: f32, f16, bf16, i64, i32, i16, i8.
Result<std::string> encodeConstant(const Value &value);

/// The bits of a float as bf16 and as IEEE half, rounded to nearest even;
/// NaN stays NaN, what is too large becomes infinite.
uint16_t toBf16(float value);
uint16_t toF16(float value);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_CUDA_CONSTANTS_H
