//===- OrderTest.cpp - the order of columns on the host device ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/host/HostDevice.h"
#include "test/runtime/TinyManifest.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include <algorithm>

using namespace moec;
using namespace moec::host;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr int64_t kColumns = 7;

/// Packs the order of one expert's columns, whose groups are of three.
Result<std::vector<int32_t>> orderOf(std::vector<int32_t> groups) {
  Manifest manifest = tinyManifest();
  Target &target = manifest.targets[0];
  for (const char *name : {"index", "index_packed"}) {
    Value value;
    value.name = name;
    value.role = ValueRole::StoredWeight;
    value.elementTypes = {"i32"};
    value.shape = {Expression(1), Expression(kColumns)};
    manifest.values.push_back(value);
  }
  Kernel kernel = *std::find_if(
      target.kernels.begin(), target.kernels.end(),
      [](const Kernel &each) { return each.name == "pack_copy"; });
  kernel.name = "pack_order";
  for (ArgumentField &field : kernel.arguments.fields)
    if (field.name == "source" || field.name == "destination")
      field.value = field.name == "source" ? "index" : "index_packed";
  kernel.stages[0].op = "pack_order";
  *kernel.stages[0].attributes = {{"columns", kColumns}, {"group", 3}};
  target.kernels.push_back(kernel);
  Pack pack;
  pack.result = "index_packed";
  pack.from = {"index"};
  pack.totalExperts = 1;
  Launch launch;
  launch.kernel = "pack_order";
  launch.grid.ctas[0] = Expression(1);
  pack.launches = {launch};
  target.pack = {pack};
  Result<HostDevice> device = HostDevice::create(manifest, target, {});
  if (!device)
    return device.takeError();
  alignas(256) static int32_t order[kColumns];
  alignas(256) static int32_t index[kColumns];
  std::copy(groups.begin(), groups.end(), index);
  const Tensors tensors = {{"index", {index, "", 0}},
                           {"index_packed", {order, "", 0}}};
  if (Result<void> done = device->pack(pack, tensors, {}, 0, 1); !done)
    return done.takeError();
  return std::vector<int32_t>(order, order + kColumns);
}

std::string errorOf(std::vector<int32_t> groups) {
  Result<std::vector<int32_t>> order = orderOf(std::move(groups));
  return order ? "no error" : order.error().message;
}

TEST(Order, columnsFollowTheirGroups) {
  Result<std::vector<int32_t>> order = orderOf({2, 0, 1, 1, 0, 1, 0});
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_THAT(*order, ElementsAre(1, 4, 6, 2, 3, 5, 0));
}

TEST(Order, groupsHaveTheirColumns) {
  EXPECT_THAT(errorOf({2, 0, 1, 1, 0, 1, 3}),
              HasSubstr("expected groups below 3, column 6 of expert 0 has 3"));
  EXPECT_THAT(
      errorOf({2, 0, 1, 1, 0, 1, -1}),
      HasSubstr("expected groups below 3, column 6 of expert 0 has -1"));
  EXPECT_THAT(errorOf({2, 0, 1, 1, 0, 1, 1}),
              HasSubstr("expected 3 columns of group 0 of expert 0, got 2"));
}

} // namespace
