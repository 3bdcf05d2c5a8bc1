//===- LayerJsonTesting.h - a small layer JSON with changes -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a layer JSON: a description, or a refusal.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_IMPORT_LAYERJSONTESTING_H
#define MOEC_TEST_IMPORT_LAYERJSONTESTING_H

#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

namespace moec::compiler::testing {

using nlohmann::json;

inline LayerDescription accepted(const json &changes,
                                 const ImportOptions &options = {}) {
  Result<LayerDescription> layer =
      readDescription(layerText(changes), "dir/in.json", options);
  if (!layer) {
    ADD_FAILURE() << layer.error().message;
    return {};
  }
  return *layer;
}

inline std::string refused(const json &changes,
                           const ImportOptions &options = {}) {
  return refusalOf(layerText(changes), options);
}

} // namespace moec::compiler::testing

#endif // MOEC_TEST_IMPORT_LAYERJSONTESTING_H
