//===- TemplateLibrary.h - embedded kernel templates ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds embedded headers by the names that #include uses. Computes the set of
// headers that a source needs, which is exactly the set that a package
// contains.
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

/// Returns the text of a header such as "moe/kernel/route.cuh", or nullopt.
std::optional<std::string_view> findTemplate(std::string_view name);

/// Returns the names in the #include "..." lines of `text`, in order.
std::vector<std::string> includedNames(std::string_view text);

/// Returns the names of all headers that `source` includes directly or
/// indirectly, sorted. If `find` does not find a header, returns an Internal
/// error that names the header and the file that includes it.
Result<std::vector<std::string>> includeClosure(
    std::string_view source,
    const std::function<std::optional<std::string_view>(std::string_view)>
        &find = findTemplate);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_TEMPLATELIBRARY_H
