//===- LayerSizes.h - checks a manifest's sizes -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference computes with the sizes in a manifest's `layer` on arrays with
// the sizes in its `values`. The manifest is an untrusted file, so the sizes
// may contradict each other.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_LAYERSIZES_H
#define MOEC_TOOLS_MOECRUN_LAYERSIZES_H

#include "runtime/package/Manifest.h"
#include "test/reference/Reference.h"

namespace moec::run {

/// Checks that inputs, outputs and weights have the extents and element types
/// that the layer specifies, and that no weight size overflows. An error names
/// the field of the layer and the value.
Result<void> checkSizes(const reference::Layer &layer,
                        const Manifest &manifest);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_LAYERSIZES_H
