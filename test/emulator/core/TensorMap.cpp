//===- TensorMap.cpp - descriptors of TMA tiles ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of cuTensorMapEncodeTiled, as the driver's manual has them.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"

#include <fmt/core.h>

using namespace moec::emulator;

/// Bytes of CU_TENSOR_MAP_DATA_TYPE_*, by number; 0: two elements a byte, or
/// four in three bytes.
static constexpr uint8_t kTypeBytes[] = {1, 2, 4, 4, 8, 8, 2, 4,
                                         8, 2, 4, 4, 4, 0, 0, 0};
static constexpr int kPacked8 = 13, kPacked16 = 14;

unsigned TensorMap::elementBytes() const { return kTypeBytes[type]; }

uint32_t TensorMap::numRows() const {
  uint32_t rows = 1;
  for (unsigned i = 1; i < rank; ++i)
    rows *= box[i];
  return rows;
}

std::string moec::emulator::encodeTensorMap(const TensorMapRequest &request,
                                            TensorMap &map) {
  if (request.type < 0 || request.type > kPacked16)
    return fmt::format("data type {} is not covered", request.type);
  if (request.rank < 1 || request.rank > 5)
    return fmt::format("rank {}, expected 1 to 5", request.rank);
  if (request.interleave != 0)
    return "interleaved layouts are not covered";
  if (request.swizzle < 0 || request.swizzle > 3)
    return fmt::format("swizzle {} is not covered", request.swizzle);
  if (request.fill < 0 || request.fill > 1)
    return fmt::format("fill {}, expected 0 or 1", request.fill);
  if (request.l2Promotion < 0 || request.l2Promotion > 3)
    return fmt::format("L2 promotion {}, expected 0 to 3", request.l2Promotion);
  const bool isPacked16 = request.type == kPacked16;
  const uint64_t alignment = isPacked16 ? 32 : 16;
  if (request.address % alignment)
    return fmt::format("address {:#x} is no multiple of {}", request.address,
                       alignment);
  map = {};
  map.type = uint8_t(request.type);
  map.rank = uint8_t(request.rank);
  map.swizzle = Swizzle(request.swizzle);
  map.fillsNan = uint8_t(request.fill);
  map.base = request.address;
  for (uint32_t i = 0; i < request.rank; ++i) {
    if (request.extents[i] < 1 || request.extents[i] > uint64_t(1) << 32)
      return fmt::format("extent {} is {}, expected 1 to 2^32", i,
                         request.extents[i]);
    if (request.box[i] < 1 || request.box[i] > 256)
      return fmt::format("box extent {} is {}, expected 1 to 256", i,
                         request.box[i]);
    if (request.elementStrides[i] < 1 || request.elementStrides[i] > 8)
      return fmt::format("element stride {} is {}, expected 1 to 8", i,
                         request.elementStrides[i]);
    if (request.elementStrides[i] != 1)
      return "element strides other than 1 are not covered";
    map.extents[i] = uint32_t(request.extents[i]);
    map.box[i] = uint16_t(request.box[i]);
    map.elementStrides[i] = 1;
    if (i + 1 == request.rank)
      break;
    const uint64_t stride = request.strides[i];
    if (stride == 0 || stride % alignment || stride >= uint64_t(1) << 40)
      return fmt::format("stride {} is {} bytes, expected a multiple of {} "
                         "below 2^40",
                         i + 1, stride, alignment);
    map.strides[i] = stride;
  }
  if (kTypeBytes[request.type] == 0) {
    if (request.extents[0] % (isPacked16 ? 128 : 2))
      return fmt::format("extent 0 is {} of 4 bits, expected a multiple of {}",
                         request.extents[0], isPacked16 ? 128 : 2);
    if (isPacked16 && request.box[0] != 128)
      return "box extent 0 of this type must be 128";
    if (isPacked16 && request.swizzle != 0 && request.swizzle != 3)
      return "this type takes no swizzle or that of 128 bytes";
  }
  const uint32_t inner = map.rowBytes();
  if (inner % 16)
    return fmt::format("rows of the box have {} bytes, expected a multiple of "
                       "16",
                       inner);
  static constexpr uint32_t kMost[] = {~0u, 32, 64, 128};
  if (map.sharedRowBytes() > kMost[request.swizzle])
    return fmt::format("rows of the box have {} bytes, at most {} fit the "
                       "swizzle",
                       map.sharedRowBytes(), kMost[request.swizzle]);
  map.magic = TensorMap::kMagic;
  return "";
}
