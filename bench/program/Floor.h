//===- Floor.h - the least time that a layer can take -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// max(bytes that must move / bandwidth, flops / the matmul rate of the layer's
// element type), with the rates that the catalog knows of a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_PROGRAM_FLOOR_H
#define MOEC_BENCH_PROGRAM_FLOOR_H

#include "runtime/support/Result.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace moec::bench {

/// The rates of the GPU, by the catalog or as given.
struct Rates {
  double bandwidth = 0;  ///< GB/s
  double matmulRate = 0; ///< TFLOP/s of 16-bit operands
  double fp8Rate = 0;    ///< TFLOP/s where both operands have 8 bits
  std::string source;    ///< measured, maker's, given
  std::string gpu;       ///< the catalog's row; "" where none fits
};

/// Rates given by the caller; 0 where not.
struct GivenRates {
  double bandwidth = 0, matmulRate = 0, fp8Rate = 0;
};

/// The rates of the GPU that the driver calls `device`. Errors: no row for it,
/// and not both of bandwidth and matmul rate given.
Result<Rates> ratesOf(const std::string &device, const GivenRates &given);

/// Returns true if a pure read of `gbs` GB/s differs by more than 5 % from the
/// floor's bandwidth. A bandwidth that the maker states is not reached, so
/// nothing differs from it.
bool isOff(double gbs, const Rates &rates);

/// Whether both operands of the first matmul have 8 bits, by the manifest's
/// layer.
bool multipliesFp8(const nlohmann::json &layer);

/// Bytes and flops of one layer.
struct Work {
  double bytes = 0, flops = 0;
  bool fp8 = false;
};

/// The TFLOP/s that bound this work.
double rateFor(const Work &work, const Rates &rates);

/// Microseconds; 0 without rates.
double floorOf(const Work &work, const Rates &rates);

/// tiny: the whole layer in at most two launches. prefill: the smallest tile
/// of its matmuls has at least 128 rows of tokens. decode: what is between.
/// `kernels` is an array of {"schedule": {...}} in the order of the launches.
std::string regimeOf(const nlohmann::ordered_json &kernels);

} // namespace moec::bench

#endif // MOEC_BENCH_PROGRAM_FLOOR_H
