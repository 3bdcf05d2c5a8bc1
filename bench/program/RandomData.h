//===- RandomData.h - what weights and inputs are filled with ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random elements, so that power is what it is in service. Large buffers are
// filled on the device from blocks that the host makes once for each element
// type; logits are drawn one by one.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_PROGRAM_RANDOMDATA_H
#define MOEC_BENCH_PROGRAM_RANDOMDATA_H

#include "tools/device/Device.h"

#include <map>
#include <string>

namespace moec::bench {

/// How the elements of a buffer are distributed.
enum class Kind {
  Input,       ///< normal, deviation 1
  Weight,      ///< normal, deviation 0.02 in 16 and 32 bits; 8-bit floats as
               ///< quantized weights are, deviation 100
  WeightScale, ///< uniform, what makes quantized weights those of 16 bits;
               ///< about 1 in e4m3, which has a second scale
  InputScale,  ///< uniform, what fits inputs into 8 bits
};

/// The kind of a stored weight, by its name.
Kind kindOfWeight(const std::string &name);

class RandomData {
public:
  RandomData(const tools::Device &device, uint64_t seed)
      : device(device), seed(seed) {}

  /// Fills the whole buffer from the block of its type and kind, from an
  /// offset that `stream` says.
  Result<void> fill(const tools::Buffer &buffer, const std::string &type,
                    Kind kind, uint64_t stream);

private:
  const tools::Device &device;
  uint64_t seed;
  std::map<std::string, tools::Buffer> blocks;
};

/// `count` elements of a block. Errors: a type that is no float.
Result<std::vector<char>> randomElements(const std::string &type, int64_t count,
                                         Kind kind, uint64_t seed);

} // namespace moec::bench

#endif // MOEC_BENCH_PROGRAM_RANDOMDATA_H
