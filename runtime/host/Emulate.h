//===- Emulate.h - quantization emulated in f32 -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For activations whose codes (quantized values) no matmul engine supports:
// values are quantized and immediately dequantized.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_EMULATE_H
#define MOEC_RUNTIME_HOST_EMULATE_H

#include "runtime/host/KernelRun.h"

namespace moec::host {

/// The emulation that a stage's attributes `emulates`, `scale_rule` and
/// `second_per_row` specify.
class Emulation {
public:
  /// Reads the emulation from the attributes of the run's stage.
  static Result<Emulation> read(const KernelRun &run);
  /// Like read(), for a stage that stores codes of type `storage` with a scale
  /// for each group.
  static Result<Emulation> readEncoding(const KernelRun &run, Storage storage);

  /// Returns true if each row has a second scale, so that a row must be
  /// processed as a whole.
  bool takesWholeRows() const { return ofRow; }
  /// Returns the number of values that share a scale; 8, the values of one
  /// thread of the kernel, if a whole row or tensor shares one.
  int64_t unit() const { return group == -1 ? 8 : group; }
  /// Quantizes and dequantizes the `count` values of a row. `ofAll`: the stored
  /// scale or the maximum magnitude of all values, if the scaling uses one.
  void run(float *values, int64_t count, float ofAll) const {
    emulate(values, count, group == -1 ? count : group, ofAll);
  }
  /// Replaces the values of a row by the values of their codes, and stores the
  /// scale of each group to `scales`. Returns the second scale of the row.
  float encode(float *values, int64_t count, float ofAll, float *scales) const {
    return encodeRow(values, count, group, ofAll, scales);
  }

private:
  template <class Scaling> void take();
  template <class Element> bool choose(const KernelRun &run);
  bool choose(const KernelRun &run, Storage storage);

  int64_t group = -1; ///< elements of a row that share a scale; -1: the whole
                      ///< row
  bool ofRow = false;
  void (*emulate)(float *values, int64_t count, int64_t group,
                  float ofAll) = nullptr;
  /// Null if the codes of the scaling have no scale per group.
  float (*encodeRow)(float *values, int64_t count, int64_t group, float ofAll,
                     float *scales) = nullptr;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_EMULATE_H
