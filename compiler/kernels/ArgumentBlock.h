//===- ArgumentBlock.h - layout of a kernel's argument block ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lays out the fields of `struct Args`, which is the only parameter of each
// kernel. The emitted .cu file and the manifest are both written from this
// layout. The .cu file asserts every offset, so the two cannot disagree.
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
  /// Adds a pointer to elements of type `cppType`, which is const unless
  /// `written`. `value` is the name of the program value whose address the
  /// field holds.
  void pointer(std::string_view name, std::string_view cppType,
               std::string_view value, bool written = false);
  /// Adds an integer of `elementType`, i32 or i64. The runtime evaluates
  /// `expression` at each run.
  void size(std::string_view name, const Expression &expression,
            std::string_view elementType = "i32");
  /// Adds the row stride of the program value `value`, as a 64-bit integer.
  void rowStride(std::string_view name, std::string_view value);
  /// Adds the element type that the caller chose for `value`, as a
  /// moe::ElementCode.
  void elementType(std::string_view name, std::string_view value);
  /// Adds the index of the first expert that a packing step writes.
  void firstExpert(std::string_view name);
  /// Adds a parameter whose value differs per rank. `operand` is its name in
  /// the table of rank operands (runtime/package/Stages.h).
  void ofRank(std::string_view operand);
  /// Adds a pointer to the addresses of all ranks' windows. A window is the
  /// memory of one rank that the other ranks access directly.
  void peers(std::string_view name);
  /// Adds a pointer to the moe::ExchangeBlock.
  void status(std::string_view name);
  /// Adds the manifest's tensor map `map`, 128 bytes passed by value.
  void tensorMap(std::string_view name, std::string_view map);

  /// Replaces the expression `size` of each field by `map(size)`.
  void mapSizes(llvm::function_ref<Expression(const Expression &)> map);

  bool has(std::string_view name) const;
  /// Returns the layout. Fields have ascending offsets and natural alignment.
  /// The size is a multiple of 8 bytes, or of 64 bytes if there is a tensor
  /// map.
  ArgumentBlock block() const;
  /// Returns the C++ text of `struct Args` and the static_assert that checks
  /// its size and offsets.
  std::string text() const;

private:
  void add(ArgumentField field, std::string cppType);
  ArgumentBlock layout;
  std::vector<std::string> cppTypes; ///< one C++ type per field, in field order
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_ARGUMENTBLOCK_H
