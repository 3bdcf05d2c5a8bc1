//===- ApiInputsTest.cpp - types, ids and memory of a run's tensors -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The promises of moec.h on moec_run: which types logits and weights may have,
// what an id of no expert does, and which tensors may share memory.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Element.h"
#include "test/runtime/api/ApiTesting.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

constexpr int64_t kTokens = 9, kTopK = 2;

/// Numbers that f32, f16 and bf16 all hold.
std::vector<double> sharedNumbers(int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  uint32_t state = 17;
  for (double &number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = double(state >> 25) / 16 - 4;
  }
  return numbers;
}

Buffer stored(const std::vector<double> &numbers, const char *type) {
  const reference::Element &element = *reference::findElement(type);
  Buffer buffer(static_cast<uint64_t>(
      element.bytesOf(static_cast<int64_t>(numbers.size()))));
  for (size_t i = 0; i < numbers.size(); ++i)
    reference::store(element, buffer.data(), static_cast<int64_t>(i),
                     numbers[i]);
  return buffer;
}

class ApiInputs : public testing::Test {
protected:
  std::vector<moec_tensor> tensors(moec_tensor what) {
    std::vector<moec_tensor> list = data.tensors();
    list[1] = what;
    return list;
  }
  std::vector<moec_tensor> given(void *ids, const char *idType, void *routed,
                                 const char *type) {
    std::vector<moec_tensor> list =
        tensors(tensor("given_ids", ids, {kTokens, kTopK}, idType));
    list.push_back(tensor("given_weights", routed, {kTokens, kTopK}, type));
    return list;
  }
  moec_status runWith(const std::vector<moec_tensor> &list) {
    std::memset(data.out.data(), 0xFF, data.out.bytes());
    moec_status status = run(layer, context, list, kTokens);
    message = moec_last_error();
    return status;
  }
  std::vector<uint16_t> output() const {
    const auto *first = data.out.as<uint16_t>();
    return {first, first + data.out.bytes() / 2};
  }

  TinyLayer tiny;
  Weights weights{tiny.shape, 1};
  LayerHandle layer{tiny.package, weights.tensors()};
  OwnContext context{tiny.package, kTokens};
  RunData data{tiny.shape, kTokens};
  std::string message;
};

} // namespace

TEST_F(ApiInputs, LogitsOfEachType) {
  const std::vector<double> numbers =
      sharedNumbers(kTokens * tiny.shape.experts);
  std::vector<uint16_t> expected;
  for (const char *type : {"f32", "f16", "bf16"}) {
    Buffer logits = stored(numbers, type);
    ASSERT_EQ(runWith(tensors(tensor("logits", logits.data(),
                                     {kTokens, tiny.shape.experts}, type))),
              MOEC_OK)
        << message;
    if (expected.empty())
      expected = output();
    EXPECT_EQ(output(), expected) << type;
  }
  // Without a word it is the first of them.
  Buffer logits = stored(numbers, "f32");
  ASSERT_EQ(runWith(tensors(tensor("logits", logits.data(),
                                   {kTokens, tiny.shape.experts}))),
            MOEC_OK)
      << message;
  EXPECT_EQ(output(), expected);
}

TEST_F(ApiInputs, GivenWeightsOfEachType) {
  const std::vector<double> numbers = sharedNumbers(kTokens * kTopK);
  std::vector<double> experts(numbers.size());
  for (size_t i = 0; i < experts.size(); ++i)
    experts[i] = double((i * 5 + i / 2) % 4);
  std::vector<uint16_t> expected;
  for (const char *idType : {"i32", "i64"})
    for (const char *type : {"f32", "f16", "bf16"}) {
      Buffer ids = stored(experts, idType), routed = stored(numbers, type);
      ASSERT_EQ(runWith(given(ids.data(), idType, routed.data(), type)),
                MOEC_OK)
          << message;
      if (expected.empty())
        expected = output();
      EXPECT_EQ(output(), expected) << idType << " " << type;
    }
}

TEST_F(ApiInputs, OtherTypesAreRefused) {
  Buffer memory(4096);
  for (const char *type : {"f64", "i32", "f8E4M3FN", "float16", "bfloat16"}) {
    EXPECT_EQ(runWith(tensors(tensor("logits", memory.data(),
                                     {kTokens, tiny.shape.experts}, type))),
              MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(message, "value 'logits': expected element type f32 or f16 or "
                       "bf16, got '" +
                           std::string(type) + "'");
    EXPECT_EQ(runWith(given(memory.data(), "i32", memory.data(), type)),
              MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(message, "value 'given_weights': expected element type f32 or "
                       "f16 or bf16, got '" +
                           std::string(type) + "'");
  }
  EXPECT_EQ(runWith(given(memory.data(), "i16", memory.data(), "f32")),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message,
            "value 'given_ids': expected element type i32 or i64, got 'i16'");
}

TEST_F(ApiInputs, EachTypeNeedsTheAlignmentOfItsSize) {
  Buffer memory(4096);
  std::memset(memory.data(), 0, memory.bytes());
  for (auto [type, size] : {std::pair{"f32", 4}, {"f16", 2}, {"bf16", 2}}) {
    auto at = [&](int bytes) {
      return runWith(tensors(tensor("logits", memory.as<char>() + bytes,
                                    {kTokens, tiny.shape.experts}, type)));
    };
    EXPECT_EQ(at(size), MOEC_OK) << type << ": " << message;
    EXPECT_EQ(at(size / 2), MOEC_MISALIGNED) << type;
    EXPECT_THAT(message,
                HasSubstr("expected an address that is a multiple of " +
                          std::to_string(size) + " bytes"));
  }
}

TEST_F(ApiInputs, AnIdOfNoExpertWeighsNothing) {
  // The first expert of each token is one; of the second each of the ids that
  // name none gives what -1 does.
  std::vector<double> experts(kTokens * kTopK), numbers(kTokens * kTopK, 0.5);
  for (size_t i = 0; i < experts.size(); ++i) {
    experts[i] = i % 2 ? -1 : double(i % 4);
    if (i % 2)
      numbers[i] = NAN;
  }
  Buffer absent = stored(experts, "i32"), routed = stored(numbers, "f32");
  ASSERT_EQ(runWith(given(absent.data(), "i32", routed.data(), "f32")), MOEC_OK)
      << message;
  const std::vector<uint16_t> expected = output();
  for (uint16_t bits : expected)
    EXPECT_NE(bits & 0x7f80, 0x7f80) << "a NaN that weighs something";

  const int64_t kNames[] = {tiny.shape.experts,
                            -2,
                            std::numeric_limits<int32_t>::max(),
                            std::numeric_limits<int32_t>::min(),
                            (int64_t(1) << 32) + 1,
                            -(int64_t(1) << 32),
                            std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()};
  for (int64_t name : kNames) {
    Buffer ids(kTokens * kTopK * 8), shown(kTokens * kTopK * 4);
    for (size_t i = 0; i < experts.size(); ++i)
      ids.as<int64_t>()[i] = i % 2 ? name : int64_t(experts[i]);
    auto list = given(ids.data(), "i64", routed.data(), "f32");
    list.push_back(tensor("ids", shown.data(), {kTokens, kTopK}));
    ASSERT_EQ(runWith(list), MOEC_OK) << message;
    EXPECT_EQ(output(), expected) << name;
    const bool fits = name == int32_t(name);
    EXPECT_EQ(shown.as<int32_t>()[1], fits ? int32_t(name) : -1);
    EXPECT_EQ(shown.as<int32_t>()[2], int32_t(experts[2]));
  }
}

TEST_F(ApiInputs, TheOutputMayBeX) {
  ASSERT_EQ(runWith(data.tensors()), MOEC_OK) << message;
  const std::vector<uint16_t> expected = output();
  std::vector<moec_tensor> list = data.tensors();
  list[2].data = data.x.data();
  ASSERT_EQ(run(layer, context, list, kTokens), MOEC_OK) << moec_last_error();
  const auto *first = data.x.as<uint16_t>();
  EXPECT_EQ(std::vector<uint16_t>(first, first + data.x.bytes() / 2), expected);
}

/// Rows of out have no gaps: with gaps in x they would lie in other rows of x.
TEST_F(ApiInputs, TheOutputHasTheRowsOfX) {
  auto list = data.tensors();
  const int64_t columns = list[0].shape[1];
  Buffer memory(uint64_t(2 * kTokens * columns) * 2);
  const int64_t gaps[] = {2 * columns, 1}, none[] = {columns, 1};
  list[0].data = list[2].data = memory.data();
  list[0].strides = none;
  EXPECT_EQ(runWith(list), MOEC_OK) << message;
  list[0].strides = gaps;
  EXPECT_EQ(runWith(list), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("tensor 'x' at "));
  EXPECT_THAT(message, HasSubstr(" overlaps 'out' at "));
}

/// Whoever writes an element of another type has not read what lies there.
TEST_F(ApiInputs, TheOutputHasTheTypeOfX) {
  PackageFiles files = tinyPackage();
  for (Value &value : files.manifest.values)
    if (value.name == "x")
      value.elementTypes = {"bf16", "f16"};
  for (Kernel &kernel : files.manifest.targets[0].kernels)
    if (kernel.name == "gate_up")
      kernel.arguments = BlockBuilder()
                             .chosen("x")
                             .rowStride("x_row_stride", "x")
                             .pointer("rows")
                             .pointer("tiles")
                             .pointer("tile_count")
                             .pointer("rhs", "w13_packed")
                             .pointer("result", "t")
                             .build();
  for (Kernel &kernel : files.manifest.targets[0].kernels)
    for (Stage &stage : kernel.stages)
      if (kernel.name == "gate_up" && stage.operands.contains("lhs"))
        stage.operands["lhs"] = "x";
  const TinyLayer typed(files);
  ASSERT_EQ(typed.status, MOEC_OK) << moec_last_error();
  const Weights own(typed.shape, 1);
  const LayerHandle made(typed.package, own.tensors());
  const OwnContext place(typed.package, kTokens);
  auto list = data.tensors();
  list[2].data = data.x.data();
  list[0].element_type = "bf16";
  EXPECT_EQ(run(made, place, list, kTokens), MOEC_OK) << moec_last_error();
  list[0].element_type = "f16";
  EXPECT_EQ(run(made, place, list, kTokens), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(), HasSubstr(" overlaps 'out' at "));
}

TEST_F(ApiInputs, OtherOverlapsAreRefused) {
  const std::string rule =
      ", which the run writes; only x and residual may share memory with out, "
      "at its address, of its element type and with contiguous rows";
  Buffer memory(8192);
  char *base = memory.as<char>();
  auto refused = [&](const char *name, const char *written,
                     std::vector<moec_tensor> list) {
    EXPECT_EQ(runWith(list), MOEC_INVALID_ARGUMENT) << name << written;
    EXPECT_THAT(message, HasSubstr(std::string("tensor '") + name + "' at "));
    EXPECT_THAT(message,
                HasSubstr(std::string(" overlaps '") + written + "' at "));
    EXPECT_THAT(message, HasSubstr(rule));
  };
  // x begins in the last row of out, out in the last row of x.
  for (int64_t apart : {-(kTokens - 1) * 32, -32L, 32L, (kTokens - 1) * 32}) {
    auto list = data.tensors();
    list[0].data = base + 4096;
    list[2].data = base + 4096 + apart;
    refused("x", "out", list);
  }
  // Beside each other is not over each other.
  auto list = data.tensors();
  list[0].data = base + 4096;
  for (int64_t apart : {-kTokens * 32, kTokens * 32}) {
    list[2].data = base + 4096 + apart;
    EXPECT_EQ(runWith(list), MOEC_OK) << message;
  }
  list[1].data = base;
  list[2].data = base;
  refused("logits", "out", list);

  list = data.tensors();
  list.push_back(tensor("ids", base, {kTokens, kTopK}));
  list.push_back(tensor("weights", base + 64, {kTokens, kTopK}));
  refused("weights", "ids", list);
  Buffer ids(kTokens * kTopK * 4), routed(kTokens * kTopK * 4);
  list = given(ids.data(), "i32", routed.data(), "f32");
  list.push_back(tensor("weights", routed.data(), {kTokens, kTopK}));
  refused("given_weights", "weights", list);
}

/// A run writes its workspace, and its outputs would spoil the weights of all
/// later runs.
TEST_F(ApiInputs, TensorsLieNeitherInTheWorkspaceNorInWeights) {
  const auto at = [&](size_t index, void *address) {
    auto list = data.tensors();
    list[index].data = address;
    return list;
  };
  char *workspace = context.workspace.as<char>();
  for (const size_t index : {0, 1, 2}) {
    EXPECT_EQ(runWith(at(index, workspace)), MOEC_INVALID_ARGUMENT) << index;
    EXPECT_THAT(message, HasSubstr(" overlaps the context's workspace at "));
  }
  EXPECT_EQ(runWith(at(2, workspace - 32)), MOEC_INVALID_ARGUMENT);
  // Directly before it and directly behind it is beside it.
  const uint64_t before = (data.out.bytes() + 255) / 256 * 256,
                 bytes = context.workspace.bytes();
  const Buffer shared(before + bytes + data.out.bytes());
  const OwnMemory beside(tiny.package, shared.as<char>() + before, bytes);
  ASSERT_EQ(beside.status, MOEC_OK) << moec_last_error();
  for (char *out : {shared.as<char>() + before - data.out.bytes(),
                    shared.as<char>() + before + bytes}) {
    const auto list = at(2, out);
    EXPECT_EQ(moec_run(layer.handle, beside.handle, nullptr, list.data(),
                       list.size(), kTokens, nullptr),
              MOEC_OK)
        << moec_last_error();
  }
  char *const w13 = weights.w13.as<char>(), *const w2 = weights.w2.as<char>();
  for (auto [address, name] : {std::pair(w13, "'w13_packed'"),
                               {w13 + weights.w13.bytes() - 32, "'w13_packed'"},
                               {w2, "'w2'"},
                               {w2 - 32, "'w2'"}}) {
    EXPECT_EQ(runWith(at(2, address)), MOEC_INVALID_ARGUMENT) << name;
    EXPECT_THAT(message, HasSubstr("tensor 'out' at "));
    EXPECT_THAT(message, HasSubstr(std::string(", which the run writes, "
                                               "overlaps weight ") +
                                   name + " of the layer at "));
  }
  ASSERT_EQ(runWith(data.tensors()), MOEC_OK) << message;
}
