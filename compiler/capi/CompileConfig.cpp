//===- CompileConfig.cpp - the compiler behind the C ABI ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec_compile_config: text of a configuration and options as JSON to a package
// in memory. Everything else of the C ABI is the runtime's.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"
#include "compiler/PresentGpu.h"
#include "compiler/import/Import.h"
#include "runtime/Handles.h"

#include "moec/moec.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <memory>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {
struct ConfigOptions {
  ImportOptions import;
  CompileOptions compile;
};

/// Sets one option; returns what was expected instead, "" if it was right.
using Setter = std::function<std::string_view(const json &)>;
} // namespace

static Setter text(std::string &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_string())
      return "a string";
    into = value.get<std::string>();
    return "";
  };
}

static Setter text(std::optional<std::string> &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_string())
      return "a string";
    into = value.get<std::string>();
    return "";
  };
}

template <typename Integer> static Setter integer(Integer &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_number_integer())
      return "an integer";
    into = value.get<int64_t>();
    return "";
  };
}

static Setter boolean(bool &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_boolean())
      return "true or false";
    into = value.get<bool>();
    return "";
  };
}

/// One string or an array of strings.
static Setter list(std::vector<std::string> &into) {
  return [&into](const json &value) -> std::string_view {
    into.clear();
    if (value.is_string()) {
      into.push_back(value.get<std::string>());
      return "";
    }
    if (!value.is_array())
      return "a string or an array of strings";
    for (const json &item : value) {
      if (!item.is_string())
        return "a string or an array of strings";
      into.push_back(item.get<std::string>());
    }
    return "";
  };
}

static Result<ConfigOptions> readOptions(const char *optionsJson) {
  ConfigOptions options;
  options.compile.cubins = false;
  if (!optionsJson || !*optionsJson)
    return options;
  json root = json::parse(optionsJson, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    return Error{ErrorCode::InvalidArgument,
                 "options: expected a JSON object or NULL"};
  ImportOptions &import = options.import;
  CompileOptions &compile = options.compile;
  const std::map<std::string, Setter> setters = {
      {"arch", list(compile.archs)},
      {"gpu", text(compile.gpu)},
      {"scheme", text(import.scheme)},
      {"dtype", text(import.dtype)},
      {"weights_dtype", text(import.weightsDtype)},
      {"accumulate", text(import.accumulate)},
      {"tp", integer(import.tp)},
      {"pcp", integer(import.pcp)},
      {"dp", integer(import.dp)},
      {"ep", boolean(import.ep)},
      {"sp", integer(import.sp)},
      {"placement", text(import.placement)},
      {"all_to_all", text(import.allToAll)},
      {"no_shared_experts", boolean(import.noSharedExperts)},
      {"rank", integer(import.rank)},
      {"layer", integer(import.layer)},
      {"ignore_field", list(import.ignoreFields)},
      {"max_tokens", integer(compile.maxTokens)},
      {"backend", text(compile.backend)},
      {"engine", text(compile.engine)},
      {"tuned", text(compile.tunedFile)},
      {"cache_dir", text(compile.cacheFolder)},
      {"cubin", boolean(compile.cubins)},
  };
  for (const auto &item : root.items()) {
    auto setter = setters.find(item.key());
    if (setter == setters.end()) {
      std::string known;
      for (const auto &row : setters)
        known.append(known.empty() ? "" : ", ").append(row.first);
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("options: unknown field '{}'; known fields: {}",
                               item.key(), known)};
    }
    if (auto expected = setter->second(item.value()); !expected.empty())
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("options.{}: expected {}, got {}", item.key(),
                               expected, item.value().dump())};
  }
  if (compile.gpu.empty())
    compile.gpu = presentGpu(compile.archs);
  return options;
}

static Result<PackageFiles> compileConfig(const char *config,
                                          const char *optionsJson) {
  auto options = readOptions(optionsJson);
  if (!options)
    return options.takeError();
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = importInput(config, "<config>", options->import, context);
  if (!module)
    return module.takeError();
  return compile(**module, options->compile);
}

extern "C" moec_status moec_compile_config(const char *text,
                                           const char *options_json,
                                           moec_package_files **files) {
  if (files)
    *files = nullptr;
  return runtime::guarded([&]() -> Result<void> {
    if (!files)
      return runtime::nullArgument("moec_compile_config", "files");
    if (!text)
      return runtime::nullArgument("moec_compile_config", "text");
    auto made = compileConfig(text, options_json);
    if (!made)
      return made.takeError();
    auto handle = std::make_unique<moec_package_files>();
    handle->files = std::move(*made);
    *files = handle.release();
    return {};
  });
}
