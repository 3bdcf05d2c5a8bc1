//===- UnreadKeys.h - keys of a config that nobody read ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A config has hundreds of keys that do not concern the experts. One that moec
// does not know is refused where its name says that it may.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_UNREADKEYS_H
#define MOEC_COMPILER_IMPORT_UNREADKEYS_H

#include "compiler/import/Families.h"
#include "compiler/import/ImportOptions.h"
#include "runtime/support/JsonReader.h"

namespace moec::compiler {

/// The user has declared the key to be without influence (--ignore-field).
bool isIgnored(std::string_view key, const ImportOptions &options);

/// Refuses keys that may change the layer and that nobody looked for. `model`
/// is what the config calls itself.
void refuseSuspicious(JsonReader &config, const ModelFamily &family,
                      std::string_view model, const ImportOptions &options);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_UNREADKEYS_H
