//===- TensorMap.h - descriptors of TMA tiles -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emulator's own content of the 128 bytes that cuTensorMapEncodeTiled
// fills.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_CORE_TENSORMAP_H
#define MOEC_TEST_EMULATOR_CORE_TENSORMAP_H

#include <array>
#include <cstdint>
#include <string>

namespace moec::emulator {

/// Chunks of 16 bytes that trade places within rows of a tile.
enum class Swizzle : uint8_t { None, Bytes32, Bytes64, Bytes128 };

struct TensorMap {
  static constexpr uint32_t kMagic = 0x50414D54;

  uint32_t magic = 0;
  uint8_t rank = 0, type = 0; ///< type: CU_TENSOR_MAP_DATA_TYPE_*
  Swizzle swizzle = Swizzle::None;
  uint8_t fillsNan = 0;
  uint64_t base = 0;
  std::array<uint64_t, 4> strides = {}; ///< of dimensions 1 on [bytes]
  std::array<uint32_t, 5> extents = {}; ///< [elements], 2^32 is 0
  std::array<uint16_t, 5> box = {};     ///< [elements]
  std::array<uint8_t, 5> elementStrides = {};

  /// Bytes of an element of 8 bits or more; 0: two are in a byte.
  unsigned elementBytes() const;
  /// Bytes of a row of the box in global memory.
  uint32_t rowBytes() const {
    return elementBytes() ? box[0] * elementBytes() : box[0] / 2u;
  }
  /// The same in shared memory. The type of 4 bits that fills 16 bytes with
  /// 16 elements leaves the upper half of them.
  uint32_t sharedRowBytes() const {
    return type == 14 ? rowBytes() * 2 : rowBytes();
  }
  uint32_t numRows() const;
};
static_assert(sizeof(TensorMap) <= 128);

/// The arguments of cuTensorMapEncodeTiled.
struct TensorMapRequest {
  int type;
  uint32_t rank;
  uint64_t address;
  const uint64_t *extents, *strides;
  const uint32_t *box, *elementStrides;
  int interleave, swizzle, l2Promotion, fill;
};

/// Fills `map`; the sentence says which rule of the driver is broken.
std::string encodeTensorMap(const TensorMapRequest &request, TensorMap &map);

/// The place of byte `offset` of shared memory in a swizzled tile: bits of the
/// row are added to those of the chunk.
inline uint32_t swizzled(uint32_t offset, Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::Bytes128:
    return offset ^ (offset >> 7 & 7) << 4;
  case Swizzle::Bytes64:
    return offset ^ (offset >> 7 & 3) << 4;
  case Swizzle::Bytes32:
    return offset ^ (offset >> 7 & 1) << 4;
  default:
    return offset;
  }
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_CORE_TENSORMAP_H
