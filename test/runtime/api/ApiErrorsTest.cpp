//===- ApiErrorsTest.cpp - what the C interface refuses, and its words ----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every wrong call is a status and a sentence, never a crash.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {
class ApiErrors : public testing::Test {
protected:
  /// The status of a run, whose message goes to `message`.
  moec_status runWith(const std::vector<moec_tensor> &tensors, int64_t tokens,
                      const moec_run_options *options = nullptr) {
    moec_status status = run(layer, context, tensors, tokens, options);
    message = moec_last_error();
    return status;
  }
  /// All tensors but `name`.
  std::vector<moec_tensor> without(const std::string &name) {
    auto tensors = data.tensors();
    std::erase_if(tensors, [&](const moec_tensor &tensor) {
      return tensor.name == name;
    });
    return tensors;
  }

  TinyLayer tiny;
  Weights weights{tiny.shape, 1};
  LayerHandle layer{tiny.package, weights.tensors()};
  OwnContext context{tiny.package, 9};
  RunData data{tiny.shape, 9};
  std::string message;
};
} // namespace

TEST_F(ApiErrors, TooManyTokens) {
  EXPECT_EQ(runWith(data.tensors(), 65), MOEC_TOO_MANY_TOKENS);
  EXPECT_THAT(message, HasSubstr("65"));
  EXPECT_THAT(message, HasSubstr("64"));
  uint64_t bytes = 0;
  EXPECT_EQ(moec_package_workspace_bytes(tiny.package, 65, &bytes),
            MOEC_TOO_MANY_TOKENS);
  EXPECT_EQ(runWith(data.tensors(), -1), MOEC_INVALID_ARGUMENT);
}

TEST_F(ApiErrors, WorkspaceTooSmall) {
  ASSERT_EQ(moec_context_set_workspace(context.handle, context.workspace.data(),
                                       1024),
            MOEC_OK);
  EXPECT_EQ(runWith(data.tensors(), 9), MOEC_WORKSPACE_TOO_SMALL);
  EXPECT_THAT(message, HasSubstr("variant large of package tiny needs "));
  EXPECT_THAT(message,
              HasSubstr(" bytes of workspace for 9 tokens, and the context has "
                        "1024; moec_package_workspace_bytes tells"));
}

TEST_F(ApiErrors, MisalignedWorkspace) {
  EXPECT_EQ(moec_context_set_workspace(context.handle,
                                       context.workspace.as<char>() + 16, 1024),
            MOEC_MISALIGNED);
  EXPECT_THAT(moec_last_error(), HasSubstr("is not a multiple of 256"));
  EXPECT_EQ(moec_context_set_workspace(context.handle, nullptr, 1024),
            MOEC_INVALID_ARGUMENT);
}

TEST_F(ApiErrors, MisalignedTensor) {
  auto tensors = data.tensors();
  Buffer wide(4096);
  tensors[0].data = wide.as<char>() + 2;
  EXPECT_EQ(runWith(tensors, 9), MOEC_MISALIGNED);
  EXPECT_THAT(message, HasSubstr("x"));
}

TEST_F(ApiErrors, RowStrides) {
  auto tensors = data.tensors();
  const auto said = [&](size_t index, const std::vector<int64_t> &strides) {
    auto changed = tensors;
    changed[index] = withStrides(changed[index], strides);
    EXPECT_EQ(runWith(changed, 9), MOEC_INVALID_ARGUMENT);
    return message;
  };
  // Shorter than a row; turned; each second element.
  const std::string ofX = "value 'x': expected strides [16, 1] or a larger "
                          "outermost stride, got ";
  const std::string rows = "; accepted: a contiguous tensor or rows of one";
  EXPECT_EQ(said(0, {8, 1}), ofX + "[8, 1]" + rows);
  EXPECT_EQ(said(0, {1, 9}), ofX + "[1, 9]" + rows);
  EXPECT_EQ(said(0, {32, 2}), ofX + "[32, 2]" + rows);
  EXPECT_EQ(said(0, {0, 1}), ofX + "[0, 1]" + rows);
  EXPECT_EQ(said(0, {-16, 1}), ofX + "[-16, 1]" + rows);
  // A stride of the caller's is for x alone.
  EXPECT_EQ(said(2, {32, 1}),
            "value 'out': expected strides [16, 1], got [32, 1]; accepted: a "
            "contiguous tensor");
  // Every row must be aligned, and lie in the address space.
  auto changed = tensors;
  changed[0] = withStrides(changed[0], {17, 1});
  EXPECT_EQ(runWith(changed, 9), MOEC_MISALIGNED);
  EXPECT_EQ(said(0, {INT64_MAX / 16 * 8, 1}),
            fmt::format("value 'x': expected a row stride whose rows fit 64 "
                        "bits, got {}",
                        INT64_MAX / 16 * 8));
  // The stride of a single row does not matter.
  RunData one(tiny.shape, 1);
  auto single = one.tensors();
  single[0] = withStrides(single[0], {3, 1});
  single[2] = withStrides(single[2], {0, 1});
  EXPECT_EQ(runWith(single, 1), MOEC_OK) << message;
}

TEST_F(ApiErrors, Shapes) {
  auto tensors = data.tensors();
  const auto said = [&](const moec_tensor &changed) {
    auto given = tensors;
    given[0] = changed;
    EXPECT_EQ(runWith(given, 9), MOEC_INVALID_ARGUMENT);
    return message;
  };
  void *x = data.x.data();
  EXPECT_EQ(said(tensor("x", x, {9})), "value 'x': expected [9, 16], got [9]");
  EXPECT_EQ(said(tensor("x", x, {16, 9})),
            "value 'x': expected [9, 16], got [16, 9]");
  EXPECT_EQ(said(tensor("x", x, {1, 9, 16})),
            "value 'x': expected [9, 16], got [1, 9, 16]");
  EXPECT_EQ(said(tensor("x", x, {-9, 16})),
            "value 'x': expected [9, 16], got [-9, 16]");
  EXPECT_EQ(said(tensor("x", x, {})), "value 'x': expected [9, 16], got []");
  // For another number of tokens than the run's.
  EXPECT_EQ(said(tensor("x", x, {10, 16})),
            "value 'x': expected [9, 16], got [10, 16]");
  moec_tensor broken = tensors[0];
  broken.rank = 9;
  EXPECT_EQ(said(broken),
            "moec_run: tensor 'x': expected a rank of 0 to 8, got 9");
  broken.rank = -1;
  EXPECT_EQ(said(broken),
            "moec_run: tensor 'x': expected a rank of 0 to 8, got -1");
  broken.rank = 2;
  broken.shape = nullptr;
  EXPECT_EQ(said(broken),
            "moec_run: tensor 'x': shape is NULL; expected 2 extents");
  EXPECT_EQ(said(tensor("x", x, {9, 16}, "u8")),
            "value 'x': expected element type bf16, got 'u8'");
}

TEST_F(ApiErrors, UnknownTensor) {
  auto tensors = data.tensors();
  tensors.push_back(tensor("gate_logits", data.x.data(), {9, 16}));
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(
      message,
      "a run of package tiny takes no tensor 'gate_logits'; it takes x, "
      "logits, given_ids, given_weights, valid_tokens, out, ids, weights, "
      "counts");
  tensors.back().name = "w2"; // a weight is no tensor of a run
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
  tensors.back().name = "x";
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "tensor 'x' was given twice");
  tensors.back().name = nullptr;
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
}

TEST_F(ApiErrors, MissingTensor) {
  EXPECT_EQ(runWith(without("x"), 9), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("tensor 'x' is missing; "));
  EXPECT_EQ(runWith(without("out"), 9), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("tensor 'out' is missing; "));
}

TEST_F(ApiErrors, OneGroupOfInputs) {
  const std::string either = "a run of package tiny takes either logits, or "
                             "given_ids and given_weights; ";
  EXPECT_EQ(runWith(without("logits"), 9), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, either + "none of them was given");
  Buffer ids(9 * 2 * 4), routed(9 * 2 * 4);
  auto tensors = without("logits");
  tensors.push_back(tensor("given_ids", ids.data(), {9, 2}));
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, either + "one of these is incomplete or mixed with "
                              "another");
  tensors = data.tensors();
  tensors.push_back(tensor("given_ids", ids.data(), {9, 2}));
  tensors.push_back(tensor("given_weights", routed.data(), {9, 2}));
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, either + "more than one of these was given");
  // A whole group, and a part of the other one.
  for (const char *name : {"given_ids", "given_weights"}) {
    tensors = data.tensors();
    tensors.push_back(tensor(name, ids.data(), {9, 2}));
    EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT) << name;
    EXPECT_EQ(message, either + "one of these is incomplete or mixed with "
                                "another");
  }
}

TEST_F(ApiErrors, WrongElementType) {
  auto tensors = data.tensors();
  tensors[0].element_type = "f32";
  EXPECT_EQ(runWith(tensors, 9), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("bf16"));
}

TEST_F(ApiErrors, Variants) {
  moec_run_options options = {};
  options.struct_size = sizeof(options);
  options.variant = "large";
  EXPECT_EQ(runWith(data.tensors(), 9, &options), MOEC_OK);
  options.variant = "small";
  EXPECT_EQ(runWith(data.tensors(), 9, &options), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "variant small supports 1 to 8 tokens, and 9 were given");
  EXPECT_EQ(runWith(RunData(tiny.shape, 8).tensors(), 8, &options), MOEC_OK)
      << message;
  options.variant = "tiny";
  EXPECT_EQ(runWith(data.tensors(), 9, &options), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message,
            "package tiny has no variant 'tiny' for sm_90a; it has small, "
            "large");
}

TEST_F(ApiErrors, OptionsOfOtherVersions) {
  moec_run_options options = {};
  EXPECT_EQ(runWith(data.tensors(), 9, &options), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "moec_run_options.struct_size is 0; set it to "
                     "sizeof(moec_run_options)");
  // A struct that was never set: nothing behind it is read.
  options.struct_size = SIZE_MAX;
  EXPECT_EQ(runWith(data.tensors(), 9, &options), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "moec_run_options.struct_size is 18446744073709551615; "
                     "set it to sizeof(moec_run_options)");
  struct {
    moec_run_options options;
    int64_t later;
  } larger = {};
  larger.options.struct_size = sizeof(larger);
  EXPECT_EQ(runWith(data.tensors(), 9, &larger.options), MOEC_OK);
  larger.later = 1;
  EXPECT_EQ(runWith(data.tensors(), 9, &larger.options), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("does not know; leave them zero"));
}

TEST_F(ApiErrors, AnotherPackagesContext) {
  TinyLayer other;
  OwnContext foreign(other.package, 9);
  auto tensors = data.tensors();
  EXPECT_EQ(run(layer, foreign, tensors, 9), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(), HasSubstr("another load of tiny"));
}

TEST_F(ApiErrors, Weights) {
  auto create = [&](const std::vector<moec_tensor> &tensors,
                    const moec_layer_options *options = nullptr) {
    LayerHandle made(tiny.package, tensors, options);
    message = moec_last_error();
    EXPECT_TRUE(made.status == MOEC_OK || !made.handle);
    return made.status;
  };
  EXPECT_EQ(create({weights.tensors()[0]}), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "weight 'w2' is missing; the weights of package tiny are "
                     "w13, w2, w13_packed");
  auto tensors = weights.tensors();
  tensors.push_back(tensor("w3", weights.w2.data(), weights.w2Shape));
  EXPECT_EQ(create(tensors), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "package tiny has no weight 'w3'; its weights are w13, "
                     "w2, w13_packed");
  tensors.back().name = "w2";
  EXPECT_EQ(create(tensors), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "weight 'w2' was given twice");
  // The other matrix, and the same one turned.
  tensors = weights.tensors();
  tensors[0] = tensor("w13", weights.w13.data(), weights.w2Shape);
  EXPECT_EQ(create(tensors), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "value 'w13': expected [4, 32, 16], got [4, 16, 16]");
  tensors = weights.tensors();
  tensors[1] = withStrides(tensors[1], {256, 1, 16});
  EXPECT_EQ(create(tensors), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message,
            "value 'w2': expected strides [256, 16, 1], got [256, 1, 16]; "
            "accepted: a contiguous tensor");
  moec_layer_options ready = {};
  ready.struct_size = sizeof(ready);
  ready.already_packed = 1;
  tensors = {tensor("w13_packed", weights.w13.data(), {4, 512}),
             weights.tensors()[1]};
  EXPECT_EQ(create(tensors, &ready), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(message, "value 'w13_packed': expected [4, 32, 16], got [4, 512]");
  tensors = {tensor("w13", weights.w13.data(), {2, 32, 16})};
  EXPECT_EQ(moec_layer_repack(layer.handle, tensors.data(), 1, 0, 2, nullptr, 0,
                              nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "value 'w13': expected [4, 32, 16], got [2, 32, 16]");

  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  Buffer scratch(256);
  options.struct_size = sizeof(options);
  options.scratch = scratch.data();
  options.scratch_bytes = 256;
  EXPECT_EQ(create(weights.tensors(), &options), MOEC_WORKSPACE_TOO_SMALL);
  EXPECT_THAT(message, HasSubstr("packing needs 3072 bytes of scratch, and 256 "
                                 "were given"));
  // One byte less than is needed, and all of them at a wrong address.
  Buffer whole(3072 + 128);
  options.scratch = whole.data();
  options.scratch_bytes = 3071;
  EXPECT_EQ(create(weights.tensors(), &options), MOEC_WORKSPACE_TOO_SMALL);
  options.scratch = whole.as<char>() + 128;
  options.scratch_bytes = 3072;
  EXPECT_EQ(create(weights.tensors(), &options), MOEC_MISALIGNED);
  EXPECT_THAT(message, HasSubstr("is not a multiple of 256"));
}

/// Numbers between the rows of a weight are not its own.
TEST(ApiPack, NumbersOfWeightsWithGaps) {
  PackageFiles files = tinyPackage();
  files.manifest.values.push_back(
      value("b2", ValueRole::StoredWeight, {"f32"}, {4, 16}));
  files.manifest.values.back().strides = {Expression(32), Expression(1)};
  const TinyLayer tiny(files);
  ASSERT_EQ(tiny.status, MOEC_OK) << moec_last_error();
  Buffer bias(4 * 32 * sizeof(float)); // all NaN
  for (int64_t row = 0; row < 4; ++row)
    std::fill_n(bias.as<float>() + 32 * row, 16, 1.0f);
  const auto create = [&] {
    const Weights weights({}, 1);
    auto tensors = weights.tensors();
    tensors.push_back(withStrides(tensor("b2", bias.data(), {4, 16}), {32, 1}));
    return LayerHandle(tiny.package, tensors).status;
  };
  EXPECT_EQ(create(), MOEC_OK) << moec_last_error();
  std::memset(bias.as<float>() + 32 * 3 + 15, 0xFF, sizeof(float));
  EXPECT_EQ(create(), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(), HasSubstr("b2"));
}

/// A pack step that is not in place reads what it would have overwritten.
TEST(ApiPack, NotInPlace) {
  moec_package_files files{{tinyPackage()}};
  files.shares[0].manifest.targets[0].pack[0].inPlace = false;
  moec_load_options host = {};
  host.struct_size = sizeof(host);
  host.device = MOEC_DEVICE_HOST;
  moec_package *package = nullptr;
  ASSERT_EQ(moec_package_load_files(&files, &host, &package), MOEC_OK)
      << moec_last_error();
  const Weights weights({}, 1), before({}, 1);
  auto tensors = weights.tensors();
  const auto create = [&] {
    return LayerHandle(package, tensors, nullptr).status;
  };
  EXPECT_EQ(create(), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "w13 cannot be packed in place: give memory "
                                  "under the name 'w13_packed'");
  tensors.push_back(tensor("w13_packed", weights.w13.data(), weights.w13Shape));
  EXPECT_EQ(create(), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "w13_packed and w13 have the same address, but w13_packed "
               "cannot be packed in place");
  EXPECT_TRUE(weights.w13 == before.w13);
  const Buffer packed(weights.w13.bytes());
  tensors.back().data = packed.data();
  EXPECT_EQ(create(), MOEC_OK) << moec_last_error();
  EXPECT_TRUE(weights.w13 == before.w13);
  moec_package_destroy(package);
}

/// "Handles: set to NULL first", also if another argument is missing.
TEST(ApiNull, HandlesAreSetFirst) {
  const auto expectNull = [](auto create, auto *handle) {
    handle = reinterpret_cast<decltype(handle)>(&handle);
    EXPECT_EQ(create(&handle), MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(handle, nullptr);
  };
  expectNull(
      [](auto **made) { return moec_package_load(nullptr, nullptr, made); },
      static_cast<moec_package *>(nullptr));
  expectNull(
      [](auto **made) {
        return moec_package_load_files(nullptr, nullptr, made);
      },
      static_cast<moec_package *>(nullptr));
  expectNull([](auto **made) { return moec_package_files_read(nullptr, made); },
             static_cast<moec_package_files *>(nullptr));
  expectNull(
      [](auto **made) {
        return moec_layer_create(nullptr, nullptr, 0, nullptr, nullptr, made);
      },
      static_cast<moec_layer *>(nullptr));
  expectNull(
      [](auto **made) {
        return moec_context_create(nullptr, nullptr, 0, nullptr, made);
      },
      static_cast<moec_context *>(nullptr));
  expectNull([](auto **made) { return moec_comm_create(nullptr, made); },
             static_cast<moec_comm *>(nullptr));
  expectNull([](auto **made) { return moec_checkpoint_open(nullptr, made); },
             static_cast<moec_checkpoint *>(nullptr));
}

TEST(ApiNull, Handles) {
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  moec_context *context = nullptr;
  moec_package_files *files = nullptr;
  uint64_t bytes = 0;
  size_t index = 0;
  EXPECT_EQ(moec_package_load(nullptr, nullptr, &package),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_package_load: folder is NULL");
  EXPECT_EQ(moec_package_load("/nowhere", nullptr, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_package_load_files(nullptr, nullptr, &package),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_package_files_read(nullptr, &files), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_package_files_write(nullptr, "x"), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_layer_create(nullptr, nullptr, 0, nullptr, nullptr, &layer),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_layer_repack(nullptr, nullptr, 0, 0, 0, nullptr, 0, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_context_create(nullptr, nullptr, 0, nullptr, &context),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_context_set_workspace(nullptr, nullptr, 0),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_run(nullptr, nullptr, nullptr, nullptr, 0, 1, nullptr),
            MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_run: layer is NULL");
  EXPECT_EQ(moec_package_workspace_bytes(nullptr, 1, &bytes),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_package_pack_scratch_bytes(nullptr, &bytes),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_package_variant_for(nullptr, 1, &index),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_package_name(nullptr), nullptr);
  EXPECT_EQ(moec_package_num_values(nullptr), 0u);
  EXPECT_EQ(moec_package_max_tokens(nullptr), 0);
  moec_package_destroy(nullptr);
  moec_package_files_destroy(nullptr);
  moec_layer_destroy(nullptr);
  moec_context_destroy(nullptr);
}

/// Fills a cache for sm_90a.
static moec_load_options prebuildOptions(const char *cache) {
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.prebuild = 1;
  options.arch = "sm_90a";
  options.cache_dir = cache;
  return options;
}

TEST(ApiLoad, Refusals) {
  moec_package_files files{{tinyPackage()}};
  moec_package *package = nullptr;
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.device = 7;
  EXPECT_EQ(moec_package_load_files(&files, &options, &package),
            MOEC_INVALID_ARGUMENT);
  options.device = MOEC_DEVICE_HOST;
  options.arch = "sm_80";
  EXPECT_EQ(moec_package_load_files(&files, &options, &package),
            MOEC_NO_MATCHING_TARGET);
  EXPECT_STREQ(moec_last_error(),
               "package tiny has no target sm_80; it has sm_90a");
  options.arch = nullptr;
  options.prebuild = 1;
  EXPECT_EQ(moec_package_load_files(&files, &options, &package),
            MOEC_INVALID_ARGUMENT);
  files.shares[0].manifest.targets[0].variants[0].maxTokens = 5;
  options.prebuild = 0;
  EXPECT_EQ(moec_package_load_files(&files, &options, &package),
            MOEC_INVALID_MANIFEST);
}

TEST(ApiLoad, StrictPrebuildNamesTheKernel) {
  moec_package_files files{{tinyPackage()}};
  moec_package *package = nullptr;
  moec_load_options options = prebuildOptions("/nowhere");
  options.strict = 1;
  EXPECT_EQ(moec_package_load_files(&files, &options, &package),
            MOEC_STRICT_MISS);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("strict mode: kernel moec_route_permute_90a for sm_90a "
                        "is neither in the package nor in the cache "
                        "(/nowhere)"));
}

TEST(ApiLoad, ACompilerThatIsGivenIsTheOneThatIsTaken) {
  moec_package_files files{{tinyPackage()}};
  moec_package *package = nullptr;
  moec_load_options options = prebuildOptions("");
  options.nvrtc_path = "/nowhere";
  EXPECT_EQ(moec_package_load_files(&files, &options, &package),
            MOEC_NO_COMPILER);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("nvrtc_path is '/nowhere': expected a libnvrtc.so.N"));
}

TEST(ApiLog, MessagesGoToTheFunctionThatIsSet) {
  std::vector<std::string> heard;
  const moec_log_function hear = [](void *user, int32_t level,
                                    const char *message) {
    static_cast<std::vector<std::string> *>(user)->push_back(
        std::to_string(level) + " " + message);
  };
  const auto load = [] {
    moec_package_files files{{tinyPackage()}};
    moec_package *package = nullptr;
    moec_load_options options = prebuildOptions("/nowhere");
    options.strict = 1;
    setenv("MOEC_SPIN_DEADLINE", "7", 1);
    EXPECT_EQ(moec_package_load_files(&files, &options, &package),
              MOEC_STRICT_MISS);
    unsetenv("MOEC_SPIN_DEADLINE");
  };
  ASSERT_EQ(moec_set_log(hear, &heard, MOEC_LOG_WARNING), MOEC_OK);
  load();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_THAT(heard[0], testing::StartsWith("2 MOEC_SPIN_DEADLINE: kernels"));
  ASSERT_EQ(moec_set_log(hear, &heard, MOEC_LOG_ERROR), MOEC_OK);
  load();
  EXPECT_EQ(heard.size(), 1u);
  for (const int32_t level : {MOEC_LOG_NONE, MOEC_LOG_DEBUG})
    EXPECT_EQ(moec_set_log(hear, &heard, level), MOEC_OK);
  EXPECT_EQ(moec_set_log(hear, &heard, -1), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(moec_set_log(hear, &heard, 5), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_set_log: level is 5; expected a "
                                  "moec_log_level, 0 to 4");
  ASSERT_EQ(moec_set_log(nullptr, nullptr, MOEC_LOG_WARNING), MOEC_OK);
}

TEST_F(ApiErrors, ProgressGoesToTheFunctionThatIsSet) {
  struct Heard {
    int64_t last = 0, total = 0;
    int calls = 0;
  } heard;
  ASSERT_EQ(moec_set_progress(
                [](void *user, const char *step, int64_t done, int64_t total) {
                  auto &into = *static_cast<Heard *>(user);
                  EXPECT_STREQ(step, "host device: tiles of a matmul");
                  into.last = done, into.total = total;
                  ++into.calls;
                },
                &heard),
            MOEC_OK);
  EXPECT_EQ(runWith(data.tensors(), 9, nullptr), MOEC_OK);
  EXPECT_GT(heard.calls, 0);
  EXPECT_GT(heard.total, 0);
  EXPECT_EQ(heard.last, heard.total);
  const int calls = heard.calls;
  ASSERT_EQ(moec_set_progress(nullptr, nullptr), MOEC_OK);
  EXPECT_EQ(runWith(data.tensors(), 9, nullptr), MOEC_OK);
  EXPECT_EQ(heard.calls, calls);
}

TEST(ApiState, TheCallersMemoryIsTakenAndZeroed) {
  moec_package_files files{{tinyPackage()}};
  Target &target = files.shares[0].manifest.targets[0];
  target.values.push_back(value("flags", ValueRole::State, {"i32"}, {75}));
  target.stateRegions = {{"flags", 0}};
  target.stateBytes = 300;
  moec_load_options host = {};
  host.struct_size = sizeof(host);
  host.device = MOEC_DEVICE_HOST;
  moec_package *package = nullptr;
  ASSERT_EQ(moec_package_load_files(&files, &host, &package), MOEC_OK)
      << moec_last_error();
  uint64_t bytes = 0;
  ASSERT_EQ(moec_package_state_bytes(package, &bytes), MOEC_OK);
  EXPECT_EQ(bytes, 300u);
  EXPECT_EQ(moec_package_state_bytes(nullptr, &bytes), MOEC_INVALID_ARGUMENT);

  const Buffer state(301);
  moec_context_options options = {};
  options.struct_size = sizeof(options);
  moec_context *context = nullptr;
  const auto create = [&](void *data, uint64_t size) {
    options.state = data, options.state_bytes = size;
    return moec_context_create(package, nullptr, 0, &options, &context);
  };
  EXPECT_EQ(create(nullptr, 300), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(),
               "the state is NULL, but its size is 300 bytes; give memory of "
               "that size, or 0 bytes");
  EXPECT_EQ(create(state.as<char>() + 16, 300), MOEC_MISALIGNED);
  EXPECT_THAT(moec_last_error(), HasSubstr("is not a multiple of 256"));
  EXPECT_EQ(create(state.data(), 299), MOEC_WORKSPACE_TOO_SMALL);
  EXPECT_STREQ(moec_last_error(),
               "a context of package tiny needs 300 bytes of state, and 299 "
               "were given; moec_package_state_bytes tells");
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(state.as<unsigned char>()[0], 0xFF);
  ASSERT_EQ(create(state.data(), 300), MOEC_OK) << moec_last_error();
  moec_context_destroy(context);
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(state.as<unsigned char>()[i], 0) << i;
  EXPECT_EQ(state.as<unsigned char>()[300], 0xFF);

  // No tensor of a run lies in it.
  ASSERT_EQ(create(state.data(), 300), MOEC_OK) << moec_last_error();
  const Buffer workspace(1 << 16);
  ASSERT_EQ(
      moec_context_set_workspace(context, workspace.data(), workspace.bytes()),
      MOEC_OK);
  const Weights weights(TinyShape(), 1);
  const LayerHandle layer(package, weights.tensors());
  const RunData data(TinyShape(), 3);
  const auto runWith = [&](size_t index, void *address) {
    auto list = data.tensors();
    if (address)
      list[index].data = address;
    return moec_run(layer.handle, context, nullptr, list.data(), list.size(), 3,
                    nullptr);
  };
  for (const size_t index : {0, 1, 2}) {
    EXPECT_EQ(runWith(index, state.data()), MOEC_INVALID_ARGUMENT) << index;
    EXPECT_THAT(moec_last_error(), HasSubstr(" overlaps the context's state "));
  }
  EXPECT_EQ(runWith(0, nullptr), MOEC_OK) << moec_last_error();
  moec_context_destroy(context);
  moec_package_destroy(package);
}

TEST(ApiLoad, CudaWithoutDriver) {
  setenv("MOEC_CUDA_DRIVER_PATH", "/nowhere/libcuda.so.1", 1);
  moec_package_files files{{tinyPackage()}};
  moec_package *package = nullptr;
  moec_status status = moec_package_load_files(&files, nullptr, &package);
  unsetenv("MOEC_CUDA_DRIVER_PATH");
  EXPECT_EQ(status, MOEC_NO_DRIVER);
  EXPECT_THAT(moec_last_error(),
              HasSubstr("without a GPU use the host device"));
}
