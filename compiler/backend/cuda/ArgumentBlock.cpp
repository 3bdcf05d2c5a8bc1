//===- ArgumentBlock.cpp - a kernel's only parameter ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layout rules are those of C++ for these few field types.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/ArgumentBlock.h"

#include <fmt/format.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

std::string_view compiler::cppElementType(std::string_view elementType) {
  struct Row {
    std::string_view name, cpp;
  };
  static constexpr Row rows[] = {{"f32", "float"},
                                 {"f16", "moe::f16"},
                                 {"bf16", "moe::bf16"},
                                 {"i32", "int"},
                                 {"i64", "long long"}};
  for (const Row &row : rows)
    if (row.name == elementType)
      return row.cpp;
  return {};
}

void ArgumentLayout::add(ArgumentField field, std::string cppType) {
  int64_t bytes = field.bytes();
  layout.bytes = (layout.bytes + bytes - 1) / bytes * bytes;
  field.offset = layout.bytes;
  layout.bytes += bytes;
  layout.fields.push_back(std::move(field));
  cppTypes.push_back(std::move(cppType));
}

void ArgumentLayout::pointer(std::string_view name, std::string_view cppType,
                             std::string_view value, bool written) {
  ArgumentField field;
  field.name = name;
  field.kind = ArgumentField::Kind::Pointer;
  field.value = value;
  add(std::move(field),
      fmt::format("{}{} *", written ? "" : "const ", cppType));
}

void ArgumentLayout::size(std::string_view name, const Expression &expression,
                          std::string_view elementType) {
  ArgumentField field;
  field.name = name;
  field.kind = ArgumentField::Kind::Size;
  field.expression = expression;
  field.elementType = elementType;
  add(std::move(field), std::string(cppElementType(elementType)) + " ");
}

void ArgumentLayout::rowStride(std::string_view name, std::string_view value) {
  ArgumentField field;
  field.name = name;
  field.kind = ArgumentField::Kind::RowStride;
  field.value = value;
  add(std::move(field), "long long ");
}

void ArgumentLayout::elementBytes(std::string_view name,
                                  std::string_view value) {
  ArgumentField field;
  field.name = name;
  field.kind = ArgumentField::Kind::ElementBytes;
  field.value = value;
  add(std::move(field), "int ");
}

void ArgumentLayout::firstExpert(std::string_view name) {
  ArgumentField field;
  field.name = name;
  field.kind = ArgumentField::Kind::FirstExpert;
  add(std::move(field), "int ");
}

ArgumentBlock ArgumentLayout::block() const {
  ArgumentBlock block = layout;
  block.bytes = (block.bytes + 7) / 8 * 8;
  return block;
}

bool ArgumentLayout::has(std::string_view name) const {
  return std::any_of(layout.fields.begin(), layout.fields.end(),
                     [&](const ArgumentField &f) { return f.name == name; });
}

/// Size of the C++ struct: its last field may leave it at a multiple of 4.
static int64_t structBytes(const ArgumentBlock &block) {
  int64_t alignment = 1;
  for (const ArgumentField &field : block.fields)
    alignment = std::max(alignment, field.bytes());
  return (block.bytes + alignment - 1) / alignment * alignment;
}

// NVRTC has no offsetof; __INTADDR__ is what its front end makes of one.
std::string ArgumentLayout::text() const {
  std::string text = "struct Args {\n";
  for (size_t i = 0; i < cppTypes.size(); ++i)
    text += fmt::format("  {}{};\n", cppTypes[i], layout.fields[i].name);
  text += "};\n";
  text += fmt::format("static_assert(sizeof(Args) == {}", structBytes(layout));
  for (const ArgumentField &field : layout.fields)
    text += fmt::format(
        " &&\n                  __INTADDR__(&((Args *)0)->{}) == {}",
        field.name, field.offset);
  return text +
         ",\n              \"manifest and kernel disagree on the argument "
         "block\");\n";
}
