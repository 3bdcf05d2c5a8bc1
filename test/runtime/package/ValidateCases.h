//===- ValidateCases.h - one wrong entry at a time -----*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of the validator's tests: what is changed, and what the message says.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_PACKAGE_VALIDATECASES_H
#define MOEC_TEST_RUNTIME_PACKAGE_VALIDATECASES_H

#include "test/runtime/RichManifest.h"

#include <functional>
#include <gmock/gmock.h>

namespace moec::test {

struct Row {
  const char *path; ///< the message begins with it and ": "
  const char *text; ///< and contains this
  std::function<void(Manifest &, Target &)> change;
};

inline const Expression kTokens = Expression::symbol("tokens");
inline const std::string kLong(64, 'A');

/// A change of the manifest `m` or its only target `t`.
#define CHANGE(...)                                                            \
  []([[maybe_unused]] Manifest &m, [[maybe_unused]] Target &t) { __VA_ARGS__; }

inline void expectFailures(const std::vector<Row> &rows) {
  using testing::HasSubstr;
  using testing::StartsWith;
  for (const Row &row : rows) {
    Manifest manifest = richManifest();
    row.change(manifest, manifest.targets[0]);
    Result<void> valid = validate(manifest);
    ASSERT_FALSE(valid) << row.path << ": " << row.text;
    EXPECT_EQ(valid.error().code, ErrorCode::InvalidManifest);
    EXPECT_THAT(valid.error().message,
                StartsWith(std::string(row.path) +
                           (std::string_view(row.text).substr(0, 7) == "has no "
                                ? ": expression"
                                : ": ")));
    EXPECT_THAT(valid.error().message, HasSubstr(row.text));
  }
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_PACKAGE_VALIDATECASES_H
