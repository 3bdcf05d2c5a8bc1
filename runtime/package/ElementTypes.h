//===- ElementTypes.h - names of element types ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types of a manifest, named as in MLIR, with their sizes and with
// their names in C++, safetensors, PyTorch and vLLM. All other properties of a
// type, such as its rounding and its largest value, are defined by the code
// that computes with the type.
//
// If a caller may choose an element type at each run, the kernel receives a
// type code, which is the type's row index in kElementTypes. Generated kernels
// contain assertions that these codes equal the codes of the templates
// (moe::ElementCode).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_ELEMENTTYPES_H
#define MOEC_RUNTIME_PACKAGE_ELEMENTTYPES_H

#include "runtime/support/WordList.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace moec {

struct ElementType {
  std::string_view name;
  int64_t bits;
  bool floating;
  std::string_view cpp;    ///< C++ type in kernels; "": kernels do not have it
  std::string_view stored; ///< name in safetensors; "": stored as bytes
  /// Other names: the names in PyTorch (without "torch.") and in vLLM's
  /// FusedMoEQuantDesc. Quantization schemes may only use types that have such
  /// a name.
  WordList spellings;
};

inline constexpr ElementType kElementTypes[] = {
    {"f32", 32, true, "float", "F32", "float32 float"},
    {"f16", 16, true, "moe::f16", "F16", "float16 half"},
    {"bf16", 16, true, "moe::bf16", "BF16", "bfloat16"},
    {"i64", 64, false, "long long", "I64", ""},
    {"i32", 32, false, "int", "I32", ""},
    {"i16", 16, false, "", "I16", ""},
    {"i8", 8, false, "moe::i8", "I8", "int8"},
    {"i4", 4, false, "moe::i4", "", "int4"},
    {"f8E4M3FN", 8, true, "moe::e4m3", "F8_E4M3", "float8_e4m3fn"},
    {"f8E5M2", 8, true, "moe::e5m2", "F8_E5M2", "float8_e5m2"},
    {"f8E8M0FNU", 8, true, "moe::ue8m0", "F8_E8M0", "float8_e8m0fnu"},
    {"f6E3M2FN", 6, true, "moe::e3m2", "F6_E3M2", "mxfp6_e3m2"},
    {"f6E2M3FN", 6, true, "moe::e2m3", "F6_E2M3", "mxfp6_e2m3"},
    {"f4E2M1FN", 4, true, "moe::e2m1", "F4", "float4_e2m1fn_x2"},
};

/// Returns the element type called `name`, or null.
constexpr const ElementType *findElementType(std::string_view name) {
  for (const ElementType &type : kElementTypes)
    if (type.name == name)
      return &type;
  return nullptr;
}

/// Returns the element type whose safetensors name is `stored`, or null.
constexpr const ElementType *elementTypeOfStored(std::string_view stored) {
  for (const ElementType &type : kElementTypes)
    if (!stored.empty() && type.stored == stored)
      return &type;
  return nullptr;
}

/// Returns the type code of an element type, as argument blocks contain it.
constexpr int32_t codeOf(const ElementType &type) {
  return static_cast<int32_t>(&type - kElementTypes);
}

/// Returns the element type with type code `code`, or null.
constexpr const ElementType *elementTypeOfCode(int64_t code) {
  return code >= 0 && code < static_cast<int64_t>(std::size(kElementTypes))
             ? &kElementTypes[code]
             : nullptr;
}

/// Returns "f32, f16, ...", for messages.
inline std::string elementTypeNames() {
  std::string names;
  for (const ElementType &type : kElementTypes)
    names.append(names.empty() ? "" : ", ").append(type.name);
  return names;
}

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_ELEMENTTYPES_H
