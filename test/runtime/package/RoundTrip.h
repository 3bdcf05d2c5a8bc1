//===- RoundTrip.h - manifests that are written and read ----------*- C++
//-*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_PACKAGE_ROUNDTRIP_H
#define MOEC_TEST_RUNTIME_PACKAGE_ROUNDTRIP_H

#include "runtime/package/Manifest.h"

#include <gtest/gtest.h>

#include <string>

namespace moec::test {

/// The text of a valid manifest, which reads as the same one.
inline std::string textOfValid(const Manifest &manifest) {
  const Result<void> valid = validate(manifest);
  EXPECT_TRUE(valid) << valid.error().message;
  std::string text = toJson(manifest);
  const Result<Manifest> again = fromJson(text);
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_EQ(again ? toJson(*again) : "", text);
  return text;
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_PACKAGE_ROUNDTRIP_H
