//===- TemplateLibrary.h - the embedded kernel templates --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up embedded headers by the name that #include uses, and finds all that
// a source needs. A package holds exactly that closure.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_TEMPLATELIBRARY_H
#define MOEC_COMPILER_EMIT_TEMPLATELIBRARY_H

#include "runtime/support/Result.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler {

/// The text of "moe/kernel/route.cuh" and so on; nullopt if there is none.
std::optional<std::string_view> findTemplate(std::string_view name);

/// Names in the #include "..." lines of a text, in order.
std::vector<std::string> includedNames(std::string_view text);

/// Every header that `source` includes, directly or not, sorted by name. A
/// header that `find` does not know is an Internal error with the chain that
/// asked for it.
Result<std::vector<std::string>> includeClosure(
    std::string_view source,
    const std::function<std::optional<std::string_view>(std::string_view)>
        &find = findTemplate);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_TEMPLATELIBRARY_H
