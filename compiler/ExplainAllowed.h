//===- ExplainAllowed.h - what leave would gain -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EXPLAINALLOWED_H
#define MOEC_COMPILER_EXPLAINALLOWED_H

#include <nlohmann/json.hpp>

#include <string>

namespace moec::compiler {

/// Whether a realization of the report would serve if the caller allowed it.
bool waitsForLeave(const nlohmann::ordered_json &report);

/// Adds to the targets what `allowed`, the report with leave, predicts for the
/// same numbers of tokens.
void addAllowed(nlohmann::ordered_json &report,
                const nlohmann::ordered_json &allowed);

/// The same for people; "" where nothing is predicted.
std::string allowedText(const nlohmann::ordered_json &target);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAINALLOWED_H
