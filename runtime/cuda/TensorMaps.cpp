//===- TensorMaps.cpp - TMA descriptors from the manifest -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts names in the manifest to constants of cuda.h, and checks the rules
// of the hardware.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/TensorMaps.h"

#include <fmt/core.h>

#include <span>

using namespace moec;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

namespace {
struct NamedNumber {
  std::string_view name;
  int number;
};
} // namespace

// CU_TENSOR_MAP_DATA_TYPE_* constants. Types without a constant are transferred
// as bytes; 4-bit types are transferred as 16 elements in 8 bytes.
static constexpr NamedNumber kDataTypes[] = {
    {"i8", 0},  {"f8E4M3FN", 0}, {"f8E5M2", 0}, {"f8E8M0FNU", 0},
    {"i16", 1}, {"i32", 3},      {"i64", 5},    {"f16", 6},
    {"f32", 7}, {"bf16", 9},     {"i4", 13},    {"f4E2M1FN", 13},
};
static constexpr NamedNumber kInterleaves[] = {
    {"none", 0}, {"16b", 1}, {"32b", 2}};
static constexpr NamedNumber kSwizzles[] = {
    {"none", 0}, {"32b", 1}, {"64b", 2}, {"128b", 3}};
static constexpr NamedNumber kL2Promotions[] = {
    {"none", 0}, {"64b", 1}, {"128b", 2}, {"256b", 3}};
static constexpr NamedNumber kFills[] = {{"zeros", 0}, {"nan", 1}};

template <typename... Args>
static Error invalid(const TensorMap &map, fmt::format_string<Args...> text,
                     Args &&...args) {
  return invalidManifest("tensor map {}: {}", map.name,
                         fmt::format(text, std::forward<Args>(args)...));
}

static Result<int> number(const TensorMap &map, std::string_view field,
                          std::string_view name,
                          std::span<const NamedNumber> table) {
  std::string known;
  for (const NamedNumber &row : table) {
    if (row.name == name)
      return row.number;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return invalid(map, "{} is '{}', expected one of {}", field, name, known);
}

Result<TensorMapShape> moec::runtime::shapeOf(const TensorMap &map,
                                              const Symbols &symbols) {
  TensorMapShape shape;
  size_t rank = map.extents.size();
  if (rank < 1 || rank > 5)
    return invalid(map, "has {} extents, expected 1 to 5", rank);
  if (map.strides.size() != rank - 1 || map.box.size() != rank ||
      map.elementStrides.size() != rank)
    return invalid(map,
                   "has {} strides, {} box extents and {} element strides, "
                   "expected {}, {} and {} for {} dimensions",
                   map.strides.size(), map.box.size(),
                   map.elementStrides.size(), rank - 1, rank, rank, rank);
  shape.rank = static_cast<uint32_t>(rank);
  const struct {
    std::string_view field, name;
    std::span<const NamedNumber> table;
    int *to;
  } names[] = {
      {"element type", map.elementType, kDataTypes, &shape.dataType},
      {"interleave", map.interleave, kInterleaves, &shape.interleave},
      {"swizzle", map.swizzle, kSwizzles, &shape.swizzle},
      {"l2 promotion", map.l2Promotion, kL2Promotions, &shape.l2Promotion},
      {"out of bounds fill", map.outOfBoundsFill, kFills,
       &shape.outOfBoundsFill},
  };
  for (const auto &entry : names) {
    *entry.to = TRY(number(map, entry.field, entry.name, entry.table));
  }
  for (size_t i = 0; i < rank; ++i) {
    auto extent = TRY(map.extents[i].evaluate(symbols));
    if (extent < 1 || extent > (int64_t(1) << 32))
      return invalid(map, "extent {} is {}, expected 1 to 2^32", i, extent);
    if (map.box[i] < 1 || map.box[i] > 256)
      return invalid(map, "box extent {} is {}, expected 1 to 256", i,
                     map.box[i]);
    if (map.elementStrides[i] < 1 || map.elementStrides[i] > 8)
      return invalid(map, "element stride {} is {}, expected 1 to 8", i,
                     map.elementStrides[i]);
    shape.extents[i] = static_cast<uint64_t>(extent);
    shape.box[i] = static_cast<uint32_t>(map.box[i]);
    shape.elementStrides[i] = static_cast<uint32_t>(map.elementStrides[i]);
    if (i + 1 == rank)
      break;
    auto stride = TRY(map.strides[i].evaluate(symbols));
    if (stride <= 0 || stride % 16 != 0 || stride >= (int64_t(1) << 40))
      return invalid(
          map, "stride {} is {} bytes, expected a multiple of 16 below 2^40",
          i + 1, stride);
    shape.strides[i] = static_cast<uint64_t>(stride);
  }
  return shape;
}

Result<CUtensorMap> moec::runtime::encode(const CudaDriver &driver,
                                          const TensorMap &map,
                                          uint64_t address,
                                          const Symbols &symbols) {
  if (!driver.tensorMapEncodeTiled)
    return Error(ErrorCode::DeviceLimit,
                 "tensor map {}: this driver has no cuTensorMapEncodeTiled "
                 "(CUDA 12.0 or later has)",
                 map.name);
  auto shape = TRY(shapeOf(map, symbols));
  uint64_t alignment = map.interleave == "32b" ? 32 : 16;
  if (address == 0 || address % alignment != 0)
    return Error(
        ErrorCode::Misaligned,
        "tensor map {}: the address {:#x} of {} is not a multiple of {}",
        map.name, address, map.value, alignment);
  CUtensorMap result;
  auto ok = driver.check(driver.tensorMapEncodeTiled(
                             &result, shape.dataType, shape.rank,
                             reinterpret_cast<void *>(address), shape.extents,
                             shape.strides, shape.box, shape.elementStrides,
                             shape.interleave, shape.swizzle, shape.l2Promotion,
                             shape.outOfBoundsFill),
                         "cuTensorMapEncodeTiled");
  if (!ok)
    return invalid(map, "{}", ok.error().message);
  return result;
}
