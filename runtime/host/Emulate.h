//===- Emulate.h - values as a quantization leaves them ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Activations whose codes no engine multiplies are quantized and dequantized at
// once.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_EMULATE_H
#define MOEC_RUNTIME_HOST_EMULATE_H

#include "runtime/host/KernelRun.h"

namespace moec::host {

/// The emulation that a stage's `emulates`, `scale_rule` and `second_per_row`
/// say.
class Emulation {
public:
  static Result<Emulation> read(const KernelRun &run);
  /// The same of codes in `storage`, with a scale for each group.
  static Result<Emulation> readEncoding(const KernelRun &run, Storage storage);

  bool takesWholeRows() const { return ofRow; }
  /// Values that share a scale, or that a thread has where more share one.
  int64_t unit() const { return group == -1 ? 8 : group; }
  /// Quantizes and dequantizes a row. `ofAll`: the stored scale, or the largest
  /// of all values, where there is one.
  void run(float *values, int64_t count, float ofAll) const {
    emulate(values, count, group == -1 ? count : group, ofAll);
  }
  /// Changes a row to the numbers of its codes, and fills in their scales.
  /// Returns the second scale of the row, if it has one.
  float encode(float *values, int64_t count, float ofAll, float *scales) const {
    return encodeRow(values, count, group, ofAll, scales);
  }

private:
  template <class Scaling> void take();
  template <class Element> bool choose(const KernelRun &run);
  bool choose(const KernelRun &run, Storage storage);

  int64_t group = -1; ///< elements along the row that share a scale, -1: all
  bool ofRow = false;
  void (*emulate)(float *values, int64_t count, int64_t group,
                  float ofAll) = nullptr;
  /// Returns null for a scaling whose codes have no scales of blocks.
  float (*encodeRow)(float *values, int64_t count, int64_t group, float ofAll,
                     float *scales) = nullptr;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_EMULATE_H
