//===- ElementTypes.h - names of element types ------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types that a manifest may name, spelled as in MLIR, with their
// size. Everything else about a type (its rounding, its largest value) belongs
// to those who compute with it.
//
// Where a caller chooses the type at each run, a kernel is told the code of it:
// the number of its row. Generated kernels assert that the templates' codes
// (moe::ElementCode) are these.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_ELEMENTTYPES_H
#define MOEC_RUNTIME_PACKAGE_ELEMENTTYPES_H

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace moec {

struct ElementType {
  std::string_view name;
  int64_t bits;
  bool floating;
};

inline constexpr ElementType kElementTypes[] = {
    {"f32", 32, true},     {"f16", 16, true},      {"bf16", 16, true},
    {"i64", 64, false},    {"i32", 32, false},     {"i16", 16, false},
    {"i8", 8, false},      {"i4", 4, false},       {"f8E4M3FN", 8, true},
    {"f8E5M2", 8, true},   {"f8E8M0FNU", 8, true}, {"f6E3M2FN", 6, true},
    {"f6E2M3FN", 6, true}, {"f4E2M1FN", 4, true},
};

/// The row of a name, or null.
constexpr const ElementType *findElementType(std::string_view name) {
  for (const ElementType &type : kElementTypes)
    if (type.name == name)
      return &type;
  return nullptr;
}

/// The code of a row, as an argument block carries it.
constexpr int32_t codeOf(const ElementType &type) {
  return static_cast<int32_t>(&type - kElementTypes);
}

/// The row of a code, or null.
constexpr const ElementType *elementTypeOfCode(int64_t code) {
  return code >= 0 && code < static_cast<int64_t>(std::size(kElementTypes))
             ? &kElementTypes[code]
             : nullptr;
}

/// "f32, f16, ...", for messages.
inline std::string elementTypeNames() {
  std::string names;
  for (const ElementType &type : kElementTypes)
    names.append(names.empty() ? "" : ", ").append(type.name);
  return names;
}

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_ELEMENTTYPES_H
