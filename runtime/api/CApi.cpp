//===- CApi.cpp - the C interface: errors, layers, contexts ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the functions of moec/moec.h for errors, messages, layers and
// contexts. The functions check handles, convert structs and keep the error
// message of the thread.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/CallerStructs.h"
#include "runtime/api/Handles.h"
#include "runtime/support/Interrupt.h"
#include "runtime/support/Log.h"
#include "runtime/support/Progress.h"

#include <cstring>

using namespace moec;
using namespace moec::runtime;

// Parameters have the names of moec.h, which follows C conventions.
// NOLINTBEGIN(readability-identifier-naming)

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

// The status codes of moec.h have the same values as ErrorCode.
static_assert(MOEC_CONTEXT_IN_USE == static_cast<int>(ErrorCode::ContextInUse));
static_assert(MOEC_STRICT_MISS == static_cast<int>(ErrorCode::StrictMiss));
static_assert(MOEC_REFUSED == static_cast<int>(ErrorCode::Refused));
static_assert(MOEC_INTERNAL == static_cast<int>(ErrorCode::Internal));
static_assert(MOEC_PEER_LOST == static_cast<int>(ErrorCode::PeerLost));
static_assert(MOEC_PEER_MISMATCH == static_cast<int>(ErrorCode::PeerMismatch));
static_assert(MOEC_NO_COMMUNICATION ==
              static_cast<int>(ErrorCode::NoCommunication));
static_assert(MOEC_INTERRUPTED == static_cast<int>(ErrorCode::Interrupted));

static std::string &lastError() {
  thread_local std::string text;
  return text;
}

moec_status moec::runtime::fail(ErrorCode code, std::string message) {
  lastError() = std::move(message);
  return static_cast<moec_status>(code);
}

moec_status moec::runtime::fail(const Error &error) {
  return fail(error.code, error.message);
}

Error moec::runtime::nullArgument(const char *function, const char *argument) {
  return invalidArgument("{}: {} is NULL", function, argument);
}

int32_t moec_version(void) {
  return MOEC_VERSION_MAJOR * 10000 + MOEC_VERSION_MINOR * 100 +
         MOEC_VERSION_PATCH;
}

const char *moec_status_name(moec_status status) {
  // The names are string literals, so they are NUL-terminated.
  return errorCodeName(static_cast<ErrorCode>(status)).data();
}

const char *moec_last_error(void) { return lastError().c_str(); }

const char *moec_text_get(const moec_text *text) {
  return text ? text->text.c_str() : nullptr;
}

void moec_text_destroy(moec_text *text) { delete text; }

//===----------------------------------------------------------------------===//
// Messages and progress
//===----------------------------------------------------------------------===//

static_assert(MOEC_LOG_DEBUG == static_cast<int>(LogLevel::Debug));

moec_status moec_set_log(moec_log_function function, void *user,
                         int32_t level) {
  return guarded([&]() -> Result<void> {
    if (level < MOEC_LOG_NONE || level > MOEC_LOG_DEBUG)
      return invalidArgument("moec_set_log: level is {}; expected a "
                             "moec_log_level, {} to {}",
                             level, static_cast<int>(MOEC_LOG_NONE),
                             static_cast<int>(MOEC_LOG_DEBUG));
    LogSink sink;
    if (function)
      sink = [=](LogLevel of, std::string_view message) {
        function(user, static_cast<int32_t>(of), std::string(message).c_str());
      };
    setLogSink(std::move(sink), static_cast<LogLevel>(level));
    return {};
  });
}

moec_status moec_set_progress(moec_progress_function function, void *user) {
  return guarded([&]() -> Result<void> {
    ProgressSink sink;
    if (function)
      sink = [=](std::string_view step, int64_t done, int64_t total) {
        // The caller's function is called only when items are finished, not at
        // the start of a step.
        if (done > 0 || done == total)
          function(user, std::string(step).c_str(), done, total);
      };
    setProgressSink(std::move(sink));
    return {};
  });
}

moec_status moec_set_interrupt(moec_interrupt_function function, void *user) {
  return guarded([&]() -> Result<void> {
    InterruptSource source;
    if (function)
      source = [=] { return function(user) != 0; };
    setInterruptSource(std::move(source));
    return {};
  });
}

//===----------------------------------------------------------------------===//
// Loading packages
//===----------------------------------------------------------------------===//

static Result<LoadOptions> readLoadOptions(const moec_load_options *given) {
  auto options = TRY(readOptions(given, "moec_load_options"));
  LoadOptions result;
  switch (options.device) {
  case MOEC_DEVICE_CUDA:
    result.device = DeviceKind::Cuda;
    break;
  case MOEC_DEVICE_HOST:
    result.device = DeviceKind::Host;
    break;
  case MOEC_DEVICE_EMULATED:
    result.device = DeviceKind::Emulated;
    break;
  default:
    return invalidArgument("moec_load_options.device is {}; expected "
                           "MOEC_DEVICE_CUDA (0), MOEC_DEVICE_HOST (1) or "
                           "MOEC_DEVICE_EMULATED (2)",
                           options.device);
  }
  for (const auto &[name, value] :
       {std::pair("ordinal_plus_one", options.ordinal_plus_one),
        {"jobs", options.jobs}})
    if (value < 0)
      return invalidArgument("moec_load_options.{} is {}; expected 0 or more",
                             name, value);
  result.ordinal = options.ordinal_plus_one - 1;
  if (options.rank_plus_one < 0)
    return invalidArgument("moec_load_options.rank_plus_one is {}; expected 0 "
                           "or 1 + the rank",
                           options.rank_plus_one);
  if (options.rank_plus_one > 0)
    result.rank = options.rank_plus_one - 1;
  result.strict = options.strict != 0;
  result.jobs = options.jobs;
  if (options.cache_dir)
    result.cacheFolder = options.cache_dir;
  if (options.arch)
    result.arch = options.arch;
  result.prebuild = options.prebuild != 0;
  if (options.nvrtc_path)
    result.nvrtcPath = options.nvrtc_path;
  return result;
}

static moec_package *wrap(std::shared_ptr<const Package> package) {
  auto handle = std::make_unique<moec_package>();
  handle->manifestJson = toJson(package->manifest());
  handle->reportJson = package->report().json();
  for (size_t i = 0; i < valueCount(package->manifest(), package->target());
       ++i) {
    const Value &value = valueAt(package->manifest(), package->target(), i);
    if (value.role > ValueRole::PackedWeight)
      continue;
    std::string types;
    for (const std::string &type : value.elementTypes)
      types += (types.empty() ? "" : " ") + type;
    handle->values.push_back({&value, std::move(types)});
  }
  handle->package = std::move(package);
  return handle.release();
}

moec_status moec_package_files_read(const char *folder,
                                    moec_package_files **files) {
  return guarded([&]() -> Result<void> {
    if (files)
      *files = nullptr;
    if (!folder || !files)
      return nullArgument("moec_package_files_read",
                          folder ? "files" : "folder");
    auto read = TRY(readShares(folder));
    *files = new moec_package_files{std::move(read)};
    return {};
  });
}

moec_status moec_package_files_write(const moec_package_files *files,
                                     const char *folder) {
  return guarded([&]() -> Result<void> {
    if (!folder || !files)
      return nullArgument("moec_package_files_write",
                          folder ? "files" : "folder");
    return writeShares(files->shares, folder);
  });
}

void moec_package_files_destroy(moec_package_files *files) { delete files; }

moec_status moec_package_load(const char *folder,
                              const moec_load_options *options,
                              moec_package **package) {
  return guarded([&]() -> Result<void> {
    if (package)
      *package = nullptr;
    if (!folder || !package)
      return nullArgument("moec_package_load", folder ? "package" : "folder");
    auto read = TRY(readLoadOptions(options));
    auto loaded = TRY(Package::load(std::string(folder), read));
    *package = wrap(std::move(loaded));
    return {};
  });
}

moec_status moec_package_load_files(const moec_package_files *files,
                                    const moec_load_options *options,
                                    moec_package **package) {
  return guarded([&]() -> Result<void> {
    if (package)
      *package = nullptr;
    if (!files || !package)
      return nullArgument("moec_package_load_files",
                          files ? "package" : "files");
    auto read = TRY(readLoadOptions(options));
    auto loaded = TRY(Package::load(files->shares, read));
    *package = wrap(std::move(loaded));
    return {};
  });
}

void moec_package_destroy(moec_package *package) { delete package; }

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

moec_status moec_layer_create(const moec_package *package,
                              const moec_tensor *weights, size_t num_weights,
                              const moec_layer_options *options, void *stream,
                              moec_layer **layer) {
  return guarded([&]() -> Result<void> {
    if (layer)
      *layer = nullptr;
    if (!package || !layer)
      return nullArgument("moec_layer_create", package ? "layer" : "package");
    auto read = TRY(readOptions(options, "moec_layer_options"));
    LayerOptions given;
    given.scratch = read.scratch;
    given.scratchBytes = read.scratch_bytes;
    given.alreadyPacked = read.already_packed != 0;
    std::vector<Tensor> storage;
    auto tensors =
        TRY(readTensors(weights, num_weights, "moec_layer_create", storage));
    auto made = TRY(Layer::create(package->package, tensors, given, stream));
    *layer = new moec_layer{std::move(made)};
    return {};
  });
}

moec_status moec_layer_repack(moec_layer *layer, const moec_tensor *weights,
                              size_t num_weights, int64_t first_expert,
                              int64_t num_experts, void *scratch,
                              uint64_t scratch_bytes, void *stream) {
  return guarded([&]() -> Result<void> {
    if (!layer)
      return nullArgument("moec_layer_repack", "layer");
    std::vector<Tensor> storage;
    auto tensors =
        TRY(readTensors(weights, num_weights, "moec_layer_repack", storage));
    return layer->layer->repack(tensors, first_expert, num_experts, scratch,
                                scratch_bytes, stream);
  });
}

moec_status moec_layer_unpack(moec_layer *layer, const moec_tensor *weights,
                              size_t num_weights,
                              const moec_unpack_options *options,
                              void *stream) {
  return guarded([&]() -> Result<void> {
    if (!layer)
      return nullArgument("moec_layer_unpack", "layer");
    auto read = TRY(readOptions(options, "moec_unpack_options"));
    std::vector<Tensor> storage;
    auto tensors =
        TRY(readTensors(weights, num_weights, "moec_layer_unpack", storage));
    return layer->layer->unpack(tensors, {read.to_host != 0}, stream);
  });
}

void moec_layer_destroy(moec_layer *layer) { delete layer; }

//===----------------------------------------------------------------------===//
// Contexts and runs
//===----------------------------------------------------------------------===//

moec_status moec_context_create(const moec_package *package, void *workspace,
                                uint64_t workspace_bytes,
                                const moec_context_options *options,
                                moec_context **context) {
  return guarded([&]() -> Result<void> {
    if (context)
      *context = nullptr;
    if (!package || !context)
      return nullArgument("moec_context_create",
                          package ? "context" : "package");
    auto read = TRY(readOptions(options, "moec_context_options"));
    auto made =
        TRY(Context::create(package->package, workspace, workspace_bytes,
                            {read.state, read.state_bytes},
                            read.comm ? read.comm->communicator : nullptr));
    *context = new moec_context{std::move(made)};
    return {};
  });
}

moec_status moec_context_set_workspace(moec_context *context, void *workspace,
                                       uint64_t workspace_bytes) {
  return guarded([&]() -> Result<void> {
    if (!context)
      return nullArgument("moec_context_set_workspace", "context");
    return context->context->setWorkspace(workspace, workspace_bytes);
  });
}

void moec_context_destroy(moec_context *context) { delete context; }

moec_status moec_run(const moec_layer *layer, moec_context *context,
                     void *stream, const moec_tensor *tensors,
                     size_t num_tensors, int64_t tokens,
                     const moec_run_options *options) {
  return guarded([&]() -> Result<void> {
    if (!layer || !context)
      return nullArgument("moec_run", layer ? "context" : "layer");
    auto read = TRY(readOptions(options, "moec_run_options"));
    RunOptions given;
    given.overlapPrevious = read.overlap_previous != 0;
    if (read.variant)
      given.variant = read.variant;
    // The storage is thread-local, so that later runs of the same thread reuse
    // it without allocating memory.
    thread_local std::vector<Tensor> storage;
    auto list = TRY(readTensors(tensors, num_tensors, "moec_run", storage));
    return context->context->run(*layer->layer, stream, list, tokens, given);
  });
}

// NOLINTEND(readability-identifier-naming)
