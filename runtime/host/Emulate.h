//===- Emulate.h - quantization emulated in f32 -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization of activations to codes (quantized values) that no matmul engine
// supports. Values are quantized and immediately dequantized.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_EMULATE_H
#define MOEC_RUNTIME_HOST_EMULATE_H

#include "runtime/host/KernelRun.h"

namespace moec::host {

/// The emulated quantization that a stage's attributes `emulates`, `scale_rule`
/// and `second_per_row` specify.
class Emulation {
public:
  /// Reads the emulation from the attributes of the run's stage.
  static Result<Emulation> read(const KernelRun &run);
  /// Like read(), for a stage that stores the codes, of type `storage`, and a
  /// scale for each group.
  static Result<Emulation> readEncoding(const KernelRun &run, Storage storage);

  /// Returns true if each row has a second scale, so that a row must be
  /// processed as a whole.
  bool takesWholeRows() const { return ofRow; }
  /// Returns the number of values that share a scale. If a whole row or tensor
  /// shares a scale, returns 8, the number of values that one thread of the
  /// kernel processes.
  int64_t unit() const { return group == -1 ? 8 : group; }
  /// Quantizes and dequantizes the `count` values of a row. `ofAll`: the static
  /// scale or the maximum magnitude of all values of the tensor, if the scaling
  /// uses one.
  void run(float *values, int64_t count, float ofAll) const {
    emulate(values, count, group == -1 ? count : group, ofAll);
  }
  /// Replaces the values of a row by the values that their codes represent, and
  /// stores each group's scale to `scales`. Returns the row's second scale.
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
  /// Null if the scaling has no scale per group.
  float (*encodeRow)(float *values, int64_t count, int64_t group, float ofAll,
                     float *scales) = nullptr;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_EMULATE_H
