//===- ArgumentBlock.h - a kernel's only parameter --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lays out the fields of struct Args once, for the generated .cu and for the
// manifest. The .cu asserts every offset, so neither can drift.
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

/// The C++ spelling of an element type in the templates: "moe::bf16" of
/// "bf16", "float" of "f32"; "" for a type that the templates lack.
std::string_view cppElementType(std::string_view elementType);

class ArgumentLayout {
public:
  /// A pointer to elements of `cppType`, const unless `written`.
  void pointer(std::string_view name, std::string_view cppType,
               std::string_view value, bool written = false);
  /// `elementType` is i32 or i64.
  void size(std::string_view name, const Expression &expression,
            std::string_view elementType = "i32");
  void rowStride(std::string_view name, std::string_view value);
  /// The code of the element type that the caller chose for `value`.
  void elementType(std::string_view name, std::string_view value);
  void firstExpert(std::string_view name);
  /// A number of the rank that runs, by its operand's name
  /// (runtime/package/Stages.h).
  void ofRank(std::string_view operand);
  /// The addresses of all ranks' windows, and of the moe::ExchangeBlock.
  void peers(std::string_view name);
  void status(std::string_view name);
  /// 128 bytes by value, of the manifest's tensor map `map`.
  void tensorMap(std::string_view name, std::string_view map);

  /// Puts what `map` makes of it in the place of each size.
  void mapSizes(llvm::function_ref<Expression(const Expression &)> map);

  bool has(std::string_view name) const;
  /// Offsets ascending, natural alignment, size rounded up to 8, or to 64
  /// where there is a tensor map.
  ArgumentBlock block() const;
  /// "struct Args {...};" and its static_assert.
  std::string text() const;

private:
  void add(ArgumentField field, std::string cppType);
  ArgumentBlock layout;
  std::vector<std::string> cppTypes; ///< parallel to the fields
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_ARGUMENTBLOCK_H
