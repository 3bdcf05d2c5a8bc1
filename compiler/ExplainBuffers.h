//===- ExplainBuffers.h - what kernels read and write -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the report that pictures are drawn from: values of each kernel,
// and the places of a variant's workspace.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EXPLAINBUFFERS_H
#define MOEC_COMPILER_EXPLAINBUFFERS_H

#include "runtime/package/Manifest.h"

#include <nlohmann/json.hpp>

namespace moec::compiler {

/// Adds `reads` and `writes`: names of values, each once, in the order in
/// which the kernel's stages name them.
void addBuffers(nlohmann::ordered_json &json, const Kernel &kernel,
                const Target &target);

/// The workspace's values with their bytes and offsets in a run of `symbols`;
/// a value whose place cannot be evaluated is absent.
nlohmann::ordered_json buffersJson(const Variant &variant,
                                   const Symbols &symbols);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAINBUFFERS_H
