//===- ArgumentBlock.cpp - layout of a kernel's argument block ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The offsets follow the C++ rules for the field types that occur: natural
// alignment, and 64 bytes for tensor maps.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/ArgumentBlock.h"

#include "runtime/package/ElementTypes.h"
#include "runtime/package/Stages.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

using namespace moec;
using namespace moec::compiler;

std::string_view compiler::cppElementType(std::string_view elementType) {
  const ElementType *row = findElementType(elementType);
  return row ? row->cpp : std::string_view();
}

/// Returns the alignment of the field's C++ type. moe::TensorMap is declared
/// alignas(64).
static int64_t alignmentOf(const ArgumentField &field) {
  return field.kind == ArgumentField::Kind::TensorMap ? 64 : field.bytes();
}

void ArgumentLayout::add(ArgumentField field, std::string cppType) {
  int64_t bytes = field.bytes(), alignment = alignmentOf(field);
  layout.bytes = (layout.bytes + alignment - 1) / alignment * alignment;
  field.offset = layout.bytes;
  layout.bytes += bytes;
  layout.fields.push_back(std::move(field));
  cppTypes.push_back(std::move(cppType));
}

static ArgumentField fieldOf(ArgumentField::Kind kind, std::string_view name,
                             std::string_view value = {}) {
  ArgumentField field;
  field.name = name;
  field.kind = kind;
  field.value = value;
  return field;
}

void ArgumentLayout::pointer(std::string_view name, std::string_view cppType,
                             std::string_view value, bool written) {
  add(fieldOf(ArgumentField::Kind::Pointer, name, value),
      fmt::format("{}{} *", written ? "" : "const ", cppType));
}

void ArgumentLayout::size(std::string_view name, const Expression &expression,
                          std::string_view elementType) {
  ArgumentField field = fieldOf(ArgumentField::Kind::Size, name);
  field.expression = expression;
  field.elementType = elementType;
  add(std::move(field), std::string(cppElementType(elementType)) + " ");
}

void ArgumentLayout::rowStride(std::string_view name, std::string_view value) {
  add(fieldOf(ArgumentField::Kind::RowStride, name, value), "long long ");
}

void ArgumentLayout::elementType(std::string_view name,
                                 std::string_view value) {
  add(fieldOf(ArgumentField::Kind::ElementType, name, value),
      "moe::ElementCode ");
}

void ArgumentLayout::firstExpert(std::string_view name) {
  add(fieldOf(ArgumentField::Kind::FirstExpert, name), "int ");
}

void ArgumentLayout::ofRank(std::string_view operand) {
  size(operand, Expression::symbol(findRankOperand(operand)->symbol));
}

void ArgumentLayout::peers(std::string_view name) {
  add(fieldOf(ArgumentField::Kind::Peers, name), "const unsigned long long *");
}

void ArgumentLayout::status(std::string_view name) {
  add(fieldOf(ArgumentField::Kind::Status, name), "moe::ExchangeBlock *");
}

void ArgumentLayout::tensorMap(std::string_view name, std::string_view map) {
  ArgumentField field = fieldOf(ArgumentField::Kind::TensorMap, name);
  field.tensorMap = map;
  add(std::move(field), "moe::TensorMap ");
}

void ArgumentLayout::mapSizes(
    llvm::function_ref<Expression(const Expression &)> map) {
  for (ArgumentField &field : layout.fields)
    field.expression = map(field.expression);
}

ArgumentBlock ArgumentLayout::block() const {
  ArgumentBlock block = layout;
  for (const ArgumentField &field : block.fields)
    block.alignment = std::max(block.alignment, alignmentOf(field));
  block.bytes =
      (block.bytes + block.alignment - 1) / block.alignment * block.alignment;
  return block;
}

bool ArgumentLayout::has(std::string_view name) const {
  return std::ranges::any_of(
      layout.fields, [&](const ArgumentField &f) { return f.name == name; });
}

/// Returns sizeof(Args). The size is only a multiple of the largest field
/// alignment, whereas the argument block's size in the manifest is at least a
/// multiple of 8.
static int64_t structBytes(const ArgumentBlock &block) {
  int64_t alignment = 1;
  for (const ArgumentField &field : block.fields)
    alignment = std::max(alignment, alignmentOf(field));
  return (block.bytes + alignment - 1) / alignment * alignment;
}

// NVRTC does not define offsetof. The emitted assertion uses the front end's
// built-in __INTADDR__ instead, to which offsetof usually expands.
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
  text += ",\n              \"manifest and kernel disagree on the argument "
          "block\");\n";
  if (std::ranges::none_of(layout.fields, [](const ArgumentField &field) {
        return field.kind == ArgumentField::Kind::ElementType;
      }))
    return text;
  static constexpr std::pair<std::string_view, std::string_view> kCodes[] = {
      {"F32", "f32"},
      {"F16", "f16"},
      {"BF16", "bf16"},
      {"I64", "i64"},
      {"I32", "i32"}};
  std::string_view separator = "static_assert(";
  for (auto [code, name] : kCodes) {
    text += fmt::format("{}int(moe::ElementCode::{}) == {}", separator, code,
                        codeOf(*findElementType(name)));
    separator = " &&\n                  ";
  }
  return text + ",\n              \"manifest and kernel disagree on the codes "
                "of element types\");\n";
}
