//===- WrapperTest.cpp - the C++ header over the C interface --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As an engine would use moec.hpp.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"

#include "runtime/include/moec/moec.hpp"

#include <gtest/gtest.h>

using namespace moec::test;

TEST(Wrapper, LoadCreateRun) {
  auto files =
      moec::api::Files::wrap(MOEC_OK, new moec_package_files{tinyPackage()});
  auto options = moec::api::loadOptions();
  options.device = MOEC_DEVICE_HOST;
  auto package = moec::api::Package::load(*files, options);
  ASSERT_TRUE(package) << package.error().message;
  EXPECT_EQ(package->name(), "tiny");
  Weights weights({}, 1);
  auto layer = moec::api::Layer::create(*package, weights.tensors(), nullptr);
  ASSERT_TRUE(layer) << layer.error().message;
  auto bytes = package->workspaceBytes(7);
  ASSERT_TRUE(bytes);
  Buffer workspace(*bytes);
  auto context = moec::api::Context::create(*package, workspace.data(), *bytes);
  ASSERT_TRUE(context);
  RunData data({}, 7);
  auto done = context->run(*layer, nullptr, data.tensors(), 7);
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_NE(data.out.as<uint16_t>()[0], 0xFFFF);
  auto refused = context->run(*layer, nullptr, data.tensors(), 1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, MOEC_TOO_MANY_TOKENS);
  EXPECT_FALSE(moec::api::Package::load("/nowhere", options));
}
