//===- FindFamily.h - the family of a config.json ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// By its architecture, or where it names none by its model type. What a config
// calls itself must not disagree with itself.
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
  /// The architecture or model type as the config or --as says it.
  std::string model;
  /// A name for a layer whose file has none.
  std::string shortName;
};

/// The object at "outer.inner"; nothing where one of both is not there.
std::optional<JsonReader> objectAt(JsonReader &config, std::string_view path);

/// Without a row there is an error in the reader.
FoundFamily findFamily(JsonReader &config, const ImportOptions &options);

/// The user has declared the key to be without influence (--ignore-field).
bool isIgnored(std::string_view key, const ImportOptions &options);

/// Refuses keys that may change the layer and that were not read. A config has
/// hundreds of keys that do not concern the experts: an unknown one is refused
/// if its name says that it may. `model` is what the config calls itself.
void refuseSuspicious(JsonReader &config, const ModelFamily &family,
                      std::string_view model, const ImportOptions &options);

/// Refuses the names of --ignore-field that no object of the config has.
void refuseAbsentFields(const nlohmann::json &config,
                        const ImportOptions &options, JsonErrors &errors);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FINDFAMILY_H
