//===- LayerJson.h - the resolved layer for the reference -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// manifest.layer: every name of the catalog expanded into structure, so that
// whoever reads it (the reference, an auditor) needs no table of moec's.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_BACKEND_CUDA_LAYERJSON_H
#define MOEC_COMPILER_BACKEND_CUDA_LAYERJSON_H

#include "dialect/Moe.h"

#include <nlohmann/json.hpp>

namespace moec::compiler {

/// The word for how experts are selected: that of the method's row, or "table".
std::string selectionOf(moe::RoutingAttr routing, moe::LayerOp layer);

/// Sets the parameters that differ from what the plain function has.
void addActivationNumbers(moe::ActivationAttr activation, nlohmann::json &to);

/// The layer must be resolved (moe-resolve-parallel, moe-infer-routing).
nlohmann::json layerJson(moe::LayerOp layer);

/// A number, or null for an absent attribute.
nlohmann::json numberOrNull(mlir::FloatAttr attribute);

} // namespace moec::compiler

#endif // MOEC_COMPILER_BACKEND_CUDA_LAYERJSON_H
