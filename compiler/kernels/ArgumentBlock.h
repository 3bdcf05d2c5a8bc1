//===- ArgumentBlock.h - layout of a kernel's argument block ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lays out the fields of `struct Args`, the only parameter of a kernel. The
// emitted .cu file and the manifest both use this layout, and the .cu file
// asserts every offset, so they cannot differ.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_ARGUMENTBLOCK_H
#define MOEC_COMPILER_KERNELS_ARGUMENTBLOCK_H

#include "runtime/package/Manifest.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler {

/// Returns the C++ name of an element type in the templates: "moe::bf16" for
/// "bf16", "float" for "f32". Returns "" for a type that the templates do not
/// support.
std::string_view cppElementType(std::string_view elementType);

class ArgumentLayout {
public:
  /// Adds a pointer to elements of `cppType`, const unless `written`. `value`
  /// is the name of the program's value.
  void pointer(std::string_view name, std::string_view cppType,
               std::string_view value, bool written = false);
  /// Adds an integer whose value is `expression`. `elementType` is i32 or i64.
  void size(std::string_view name, const Expression &expression,
            std::string_view elementType = "i32");
  void rowStride(std::string_view name, std::string_view value);
  /// Adds the code of the element type that the caller chose for `value`.
  void elementType(std::string_view name, std::string_view value);
  void firstExpert(std::string_view name);
  /// Adds a per-rank parameter, by its operand's name
  /// (runtime/package/Stages.h).
  void ofRank(std::string_view operand);
  /// Adds the addresses of all ranks' windows, and of moe::ExchangeBlock.
  void peers(std::string_view name);
  void status(std::string_view name);
  /// Adds 128 bytes by value: the manifest's tensor map `map`.
  void tensorMap(std::string_view name, std::string_view map);

  /// Replaces each size by `map(size)`.
  void mapSizes(llvm::function_ref<Expression(const Expression &)> map);

  bool has(std::string_view name) const;
  /// Returns the layout: ascending offsets, natural alignment, and a size that
  /// is a multiple of 8, or of 64 if there is a tensor map.
  ArgumentBlock block() const;
  /// Returns the text of "struct Args {...};" and its static_assert.
  std::string text() const;

private:
  void add(ArgumentField field, std::string cppType);
  ArgumentBlock layout;
  std::vector<std::string> cppTypes; ///< one for each field, in the same order
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_ARGUMENTBLOCK_H
