//===- ExplainSummary.h - the end of a report -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EXPLAINSUMMARY_H
#define MOEC_COMPILER_EXPLAINSUMMARY_H

#include "runtime/package/Manifest.h"

#include <nlohmann/json.hpp>

#include <string>

namespace moec::compiler {

/// `target` is a report with weights, variants and realization. `sms` are those
/// of the GPU that it assumes, 0 without one.
nlohmann::ordered_json summaryOf(const nlohmann::ordered_json &target,
                                 const Manifest &manifest,
                                 const Target &compiled, int64_t sms);

/// The same for people; `sizeText` prints a number of bytes.
std::string summaryText(const nlohmann::ordered_json &summary,
                        std::string (*sizeText)(int64_t));

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAINSUMMARY_H
