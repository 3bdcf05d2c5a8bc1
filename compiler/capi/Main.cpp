//===- Main.cpp - command and catalog in the C ABI ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"
#include "runtime/api/Handles.h"

#include "moec/compiler.h"

#include <nlohmann/json.hpp>

using namespace moec;

extern "C" int moec_main(int argc, char **argv) {
  return compiler::runCommand(argc, argv);
}

static moec_status give(const char *function, const char *argument,
                        nlohmann::ordered_json (*make)(), moec_text **text) {
  return runtime::guarded([&]() -> Result<void> {
    if (!text)
      return runtime::nullArgument(function, argument);
    *text = nullptr;
    *text = new moec_text{make().dump()};
    return {};
  });
}

extern "C" moec_status moec_catalog_json(moec_text **catalog) {
  return give("moec_catalog_json", "catalog", compiler::catalogJson, catalog);
}

extern "C" moec_status moec_families_json(moec_text **families) {
  return give("moec_families_json", "families", compiler::familiesJson,
              families);
}
