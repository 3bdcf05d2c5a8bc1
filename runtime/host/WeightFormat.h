//===- WeightFormat.h - what a float weight becomes -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_WEIGHTFORMAT_H
#define MOEC_RUNTIME_HOST_WEIGHTFORMAT_H

#include <cstdint>
#include <string>

namespace moec::host {

/// The format of a packed weight: a descriptor of the manifest's layer.
struct WeightFormat {
  std::string element; ///< of the codes
  std::string scale;   ///< of the scales; "" where weights stay floats
  int64_t groupRows = 0, groupColumns = 0; ///< -1: all
  bool second = false;                     ///< scales have an f32 scale
  bool zeroPoint = false;
  /// How a power of two is chosen: even, ceil or floor; "" is even for 4 bits
  /// and ceil for more.
  std::string scaleRule;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_WEIGHTFORMAT_H
