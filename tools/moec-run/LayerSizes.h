//===- LayerSizes.h - the layer of a manifest and its values ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference computes with the sizes of a manifest's `layer`, in arrays that
// have the sizes of its `values`. Anybody may have written both.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_LAYERSIZES_H
#define MOEC_TOOLS_MOECRUN_LAYERSIZES_H

#include "runtime/package/Manifest.h"
#include "test/reference/Reference.h"

namespace moec::run {

/// Checks that inputs, outputs and weights have the extents and element types
/// that the layer says, and that no size of a weight overflows. An error names
/// the field of the layer and the value.
Result<void> checkSizes(const reference::Layer &layer,
                        const Manifest &manifest);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_LAYERSIZES_H
