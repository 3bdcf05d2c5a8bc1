//===- KernelRun.cpp - one launch on the host device ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Addresses are read from the packed argument block, never from the binding, so
// that the manifest's offsets are tested, too. Before a View is accessed, it is
// checked to be within the memory of one value of this launch.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"

#include "runtime/host/GateUpOrders.h"
#include "runtime/package/Arguments.h"
#include "runtime/package/ElementTypes.h"

#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

using namespace moec;
using namespace moec::host;
using Kind = ArgumentField::Kind;

const ArgumentField *KernelRun::findField(std::string_view name) const {
  for (const ArgumentField &field : kernel.arguments.fields)
    if (field.name == name)
      return &field;
  return nullptr;
}

const Value *KernelRun::valueOf(const ArgumentField &field) const {
  if (field.kind != Kind::TensorMap)
    return findValue(manifest, target, field.value);
  for (const TensorMap &map : target.tensorMaps)
    if (map.name == field.tensorMap)
      return findValue(manifest, target, map.value);
  return nullptr;
}

/// Returns the value of an argument field: an integer or an address.
Result<int64_t> KernelRun::readField(const ArgumentField &field) const {
  int64_t width = field.bytes();
  if (field.offset < 0 ||
      field.offset + width > static_cast<int64_t>(arguments.size()))
    return invalidManifest(
        "kernel '{}': argument '{}' is outside the argument block", kernel.name,
        field.name);
  // On the host, the first 8 bytes of a tensor map are the address.
  if (width >= 8) {
    int64_t wide = 0;
    std::memcpy(&wide, arguments.data() + field.offset, 8);
    return wide;
  }
  int32_t narrow = 0;
  std::memcpy(&narrow, arguments.data() + field.offset, 4);
  return narrow;
}

Result<int64_t> KernelRun::size(const std::string &name) const {
  const ArgumentField *field = findField(name);
  if (!field || (field->kind != Kind::Size && field->kind != Kind::FirstExpert))
    return invalidManifest("host device, kernel '{}': expected an argument "
                           "'{}' of kind size or first_expert",
                           kernel.name, name);
  return readField(*field);
}

Result<int64_t> KernelRun::ofRank(const std::string &operand,
                                  int64_t otherwise) const {
  const auto found = stage->operands.find(operand);
  if (found == stage->operands.end())
    return otherwise;
  return size(found->second);
}

static const nlohmann::json &attributeOf(const Stage &stage,
                                         const std::string &attribute) {
  static const nlohmann::json absent;
  const auto found = stage.attributes->find(attribute);
  return found == stage.attributes->end() ? absent : *found;
}

int64_t KernelRun::integer(const Stage &stage, const std::string &attribute,
                           int64_t otherwise) {
  const nlohmann::json &value = attributeOf(stage, attribute);
  return value.is_number_integer() ? value.get<int64_t>() : otherwise;
}

bool KernelRun::flag(const std::string &attribute, bool otherwise) const {
  const nlohmann::json &value = attributeOf(*stage, attribute);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string KernelRun::word(const std::string &attribute,
                            const std::string &otherwise) const {
  const nlohmann::json &value = attributeOf(*stage, attribute);
  return value.is_string() ? value.get<std::string>() : otherwise;
}

std::optional<float> KernelRun::number(const std::string &attribute) const {
  const nlohmann::json &value = attributeOf(*stage, attribute);
  return value.is_number() ? std::optional(value.get<float>()) : std::nullopt;
}

bool KernelRun::hasAttribute(const std::string &attribute) const {
  return stage->attributes->contains(attribute);
}

/// Returns a * b, or the maximum int64_t if the product overflows. The maximum
/// exceeds the size of any memory, so later checks reject it.
static int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product)
             ? std::numeric_limits<int64_t>::max()
             : product;
}

int64_t KernelRun::ctas() const {
  return multiply(multiply(grid[0], grid[1]), grid[2]);
}

int64_t KernelRun::blockTokens(const Stage &stage, int64_t tokens) {
  const int64_t least = integer(stage, "block_tokens");
  const int64_t covered = multiply(least, integer(stage, "most_blocks"));
  return covered > 0 && tokens > covered
             ? multiply(least, (tokens - 1) / covered + 1)
             : least;
}

int64_t KernelRun::coveredTokens(int64_t tokens, int64_t blockTokens) const {
  if (blockTokens < 1)
    return tokens;
  return std::min(tokens, multiply(grid[0], blockTokens));
}

Result<int64_t> moec::host::tokensOfBlocks(const KernelRun &run) {
  const int64_t size = TRY(run.size("tokens"));
  int64_t tokens = size;
  for (const Stage &other : run.kernel.stages)
    if (const int64_t block = KernelRun::blockTokens(other, size))
      tokens = run.coveredTokens(size, block);
  return tokens;
}

Result<int64_t> KernelRun::columnsOf(const std::string &name) const {
  auto found = stage->operands.find(name);
  if (found == stage->operands.end())
    return fail("expected operand '{}'", name);
  if (auto local = locals.find(found->second); local != locals.end())
    return local->second.view.columns;
  const ArgumentField *field = findField(found->second);
  const Value *value = field ? valueOf(*field) : nullptr;
  if (!value || value->shape.empty())
    return fail(
        "expected operand '{}' to be a tensor of one or more dimensions", name);
  return value->shape.back().evaluate(symbols);
}

Result<int64_t> KernelRun::rowsOf(const std::string &name) const {
  auto found = stage->operands.find(name);
  if (found != stage->operands.end())
    if (auto local = locals.find(found->second); local != locals.end())
      return local->second.view.rows;
  return fail("expected operand '{}' to be a value of this kernel", name);
}

Result<View> KernelRun::view(const std::string &name,
                             const std::map<std::string, std::string> &names,
                             int64_t rows, int64_t columns) {
  auto found = names.find(name);
  if (found == names.end())
    return View();
  if (auto local = locals.find(found->second); local != locals.end()) {
    const View &view = local->second.view;
    if (view.rows < rows || view.columns < columns)
      return fail("expected '{}' to have {} x {} elements, it has {} x {}",
                  found->second, rows, columns, view.rows, view.columns);
    return view;
  }
  const ArgumentField *field = findField(found->second);
  if (!field ||
      (field->kind != Kind::Pointer && field->kind != Kind::TensorMap))
    return fail(
        "expected '{}' to be a pointer or a tensor map of the argument block",
        found->second);
  const Value *value = valueOf(*field);
  if (!value)
    return fail("argument '{}' names no value", found->second);
  int64_t address = TRY(readField(*field));
  View view;
  view.rows = rows;
  view.columns = columns;
  if (address == 0)
    return view;

  // If the kernel receives the element type or the row stride as an argument,
  // that argument overrides the manifest's default.
  view.storage = storageOf(value->elementTypes.front());
  view.rowStride = TRY(rowStride(*value, symbols));
  if (value->shape.size() != 2)
    view.rowStride = columns;
  for (const ArgumentField &other : kernel.arguments.fields) {
    if (other.value != value->name ||
        (other.kind != Kind::RowStride && other.kind != Kind::ElementType))
      continue;
    int64_t number = TRY(readField(other));
    if (other.kind == Kind::RowStride) {
      view.rowStride = number;
      continue;
    }
    const ElementType *type = elementTypeOfCode(number);
    if (!type || std::ranges::find(value->elementTypes, type->name) ==
                     value->elementTypes.end())
      return fail("expected the code of {} for '{}', got {}",
                  fmt::join(value->elementTypes, " or "), value->name, number);
    view.storage = storageOf(type->name);
  }
  if (view.storage == Storage::None)
    return fail("value '{}' has element type {}, which the host device does "
                "not compute with",
                value->name, value->elementTypes.front());
  if (rows == 0 || columns == 0)
    return view;
  if (view.rowStride < columns && rows > 1)
    return fail(
        "expected rows of '{}' to be at least {} elements apart, they are {}",
        value->name, columns, view.rowStride);
  __int128 bytes =
      ((static_cast<__int128>(rows - 1) * view.rowStride + columns) *
           storageBits(view.storage) +
       7) /
      8;
  uint64_t begin = static_cast<uint64_t>(address);
  for (const Range &range : ranges)
    if (range.value == value->name && begin >= range.begin &&
        begin <= range.end && bytes <= range.end - begin) {
      view.data = reinterpret_cast<std::byte *>(begin);
      return view;
    }
  for (const Range &range : ranges)
    if (range.value == value->name)
      return fail(
          "needs {} bytes of '{}' ({} x {} elements), its memory has {}",
          static_cast<int64_t>(bytes), value->name, rows, columns,
          range.end - range.begin);
  return fail("'{}' has no memory at this launch", value->name);
}

Result<View> KernelRun::operand(const std::string &name, int64_t rows,
                                int64_t columns) {
  return view(name, stage->operands, rows, columns);
}

/// Returns `view`, or an error if the matrix has elements but the view has no
/// memory.
static Result<View> withMemory(const KernelRun &run, const std::string &name,
                               Result<View> view, int64_t elements) {
  if (view && !*view && elements > 0)
    return run.fail("expected memory for {}", name);
  return view;
}

Result<View> KernelRun::needed(const std::string &name, int64_t rows,
                               int64_t columns) {
  return withMemory(*this, name, operand(name, rows, columns),
                    std::min(rows, columns));
}

Result<View> KernelRun::neededIfNamed(const std::string &name, int64_t rows,
                                      int64_t columns) {
  return has(name) ? needed(name, rows, columns) : View();
}

Result<View> KernelRun::neededResult(const std::string &name, int64_t rows,
                                     int64_t columns, Storage storage) {
  return withMemory(*this, name, result(name, rows, columns, storage),
                    std::min(rows, columns));
}

Result<View> KernelRun::result(const std::string &name, int64_t rows,
                               int64_t columns, Storage storage) {
  auto found = stage->results.find(name);
  if (found == stage->results.end() || found->second.empty() ||
      found->second[0] != '%')
    return view(name, stage->results, rows, columns);
  // The extents come from the manifest, so their product may exceed the memory
  // of any machine.
  constexpr int64_t kMostBytes = int64_t(1) << 40;
  const int64_t bytes = multiply(
      multiply(std::max<int64_t>(rows, 0), std::max<int64_t>(columns, 0)),
      storageBytes(storage));
  if (bytes > kMostBytes)
    return fail(
        "expected '{}' to have at most {} bytes, it has {} x {} elements",
        found->second, kMostBytes, rows, columns);
  Local &local = locals[found->second];
  // All bits are set, which is NaN for floats and -1 for integers.
  local.bytes.assign(
      static_cast<size_t>(std::max<int64_t>(bytes, storageBytes(storage))),
      std::byte{0xff});
  local.view = {local.bytes.data(), storage, rows, columns, columns};
  return local.view;
}

Result<View> KernelRun::resultAt(int64_t rank, const std::string &name,
                                 int64_t rows, int64_t columns) {
  View there = TRY(neededResult(name, rows, columns));
  const ArgumentField *table = nullptr;
  for (const ArgumentField &field : kernel.arguments.fields)
    if (field.kind == Kind::Peers)
      table = &field;
  const auto named = stage->results.find(name);
  const ArgumentField *field =
      named == stage->results.end() ? nullptr : findField(named->second);
  const Value *value = field ? valueOf(*field) : nullptr;
  if (!window || !table || !value || value->role != ValueRole::Window)
    return fail("expected '{}' to be a value of the window, and an argument of "
                "kind peers",
                name);
  const std::span<const uint64_t> all = window->addresses();
  if (rank < 0 || std::cmp_greater_equal(rank, all.size()))
    return fail("expected a rank from 0 to {}, got {}", all.size() - 1, rank);
  const int64_t packed = TRY(readField(*table));
  const auto *addresses = reinterpret_cast<const uint64_t *>(packed);
  if (addresses != reinterpret_cast<const uint64_t *>(window->peers()))
    return fail("expected the windows of all ranks in argument '{}'",
                table->name);
  if (there)
    there.data = reinterpret_cast<std::byte *>(
        addresses[rank] +
        (reinterpret_cast<uint64_t>(there.data) - window->own()));
  return there;
}

Result<RowOrder> RowOrder::of(KernelRun &run, int64_t size) {
  RowOrder order;
  order.size = size;
  order.interleave = run.integer("interleave");
  const std::string stored = run.word("gate_up_order", "gate_first");
  const GateUpOrder *row = findGateUpOrder(stored);
  if (!row)
    return run.fail("expected one of gate_up_order {}, got '{}'",
                    gateUpOrderNames(), stored);
  order.upFirst = row->upFirst;
  order.run = row->run;
  if (order.interleave < 0 || (order.run > 0 && size % (2 * order.run)) ||
      (order.interleave > 0 && size % (2 * order.interleave)))
    return run.fail(
        "expected rows to be a multiple of twice the interleave {}, got {}",
        order.interleave, size);
  return order;
}
