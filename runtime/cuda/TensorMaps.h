//===- TensorMaps.h - TMA descriptors from the manifest ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Encodes a tensor map of the manifest, for an address and a token count, into
// the 128 bytes that the hardware reads. The encoding is done by
// cuTensorMapEncodeTiled. Extents and strides are checked before the driver is
// called, so that an error message names the map and the dimension.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_CUDA_TENSORMAPS_H
#define MOEC_RUNTIME_CUDA_TENSORMAPS_H

#include "runtime/cuda/CudaDriver.h"
#include "runtime/package/Manifest.h"

#include <cstdint>

namespace moec::runtime {

/// The arguments for cuTensorMapEncodeTiled, without the address.
struct TensorMapShape {
  int dataType = 0;
  uint32_t rank = 0;
  uint64_t extents[5] = {};
  uint64_t strides[4] = {}; ///< in bytes, of dimensions 1 and up
  uint32_t box[5] = {};
  uint32_t elementStrides[5] = {};
  int interleave = 0, swizzle = 0, l2Promotion = 0, outOfBoundsFill = 0;
};

/// Evaluates a map's expressions. If cuTensorMapEncodeTiled would reject a name
/// or value, returns an InvalidManifest error.
Result<TensorMapShape> shapeOf(const TensorMap &map, const Symbols &symbols);

/// Encodes a tensor map. `address` must be a multiple of 16 bytes (32 bytes
/// with interleave 32b).
Result<cuda::CUtensorMap> encode(const cuda::CudaDriver &driver,
                                 const TensorMap &map, uint64_t address,
                                 const Symbols &symbols);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_CUDA_TENSORMAPS_H
