//===- FindFamily.h - the family of a config.json ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the family by the config's architecture, or by its model type if the
// config names no architecture. If the config has both names, they must
// not contradict each other.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_FINDFAMILY_H
#define MOEC_COMPILER_IMPORT_FINDFAMILY_H

#include "compiler/import/Families.h"
#include "compiler/import/ImportOptions.h"
#include "runtime/support/JsonReader.h"

#include <optional>

namespace moec::compiler {

struct FoundFamily {
  const ModelFamily *row = nullptr;
  /// The architecture or model type in the config or in --as.
  std::string model;
  /// The layer's name if the file's name provides none.
  std::string shortName;
};

/// Returns the object at "outer.inner", or nullopt if one of the two is absent.
std::optional<JsonReader> objectAt(JsonReader &config, std::string_view path);

/// Returns the family, or reports an error to the reader if there is no row.
FoundFamily findFamily(JsonReader &config, const ImportOptions &options);

/// Returns true if the user declares that the key has no effect on the layer
/// (--ignore-field).
bool isIgnored(std::string_view key, const ImportOptions &options);

/// Reports keys that may change the layer and that were not read. A config has
/// hundreds of keys that do not concern the experts; an unknown key is an error
/// only if its name suggests that it could. `model` is the architecture or
/// model type of the config.
void refuseSuspicious(JsonReader &config, const ModelFamily &family,
                      std::string_view model, const ImportOptions &options);

/// Reports names in --ignore-field that no object of the config has.
void refuseAbsentFields(const nlohmann::json &config,
                        const ImportOptions &options, JsonErrors &errors);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FINDFAMILY_H
