//===- load-time.cpp - times loading --------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads in fresh processes (this program, called again): cold with an empty
// cache, warm with the cache that the cold load left, ahead of time with the
// package's own cubins. With --config the cold and warm loads begin with the
// model's config.json and compile it through libmoec.so. Each child prints its
// report as JSON; the parent prints medians. Times run from the call to all
// functions loaded; process start, cuInit, context and opening NVRTC stand
// apart in the library's own report.
//
//===----------------------------------------------------------------------===//

#include "moec/moec.h"
#include "runtime/device/CudaDriver.h"
#include "runtime/support/Files.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

using namespace moec;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

struct Options {
  std::string package, config, library = "libmoec.so";
  std::vector<std::string> archs;
  std::string device = "cuda", cache;
  int rounds = 5;
  bool json = false, child = false, strict = false;
};

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

/// The functions of the C ABI that a child calls: those linked in, or those of
/// libmoec.so, which has the compiler as well.
struct Library {
  decltype(&moec_package_load) load = moec_package_load;
  decltype(&moec_package_load_files) loadFiles = moec_package_load_files;
  decltype(&moec_package_load_report_json) report =
      moec_package_load_report_json;
  decltype(&moec_package_files_destroy) destroyFiles =
      moec_package_files_destroy;
  decltype(&moec_package_destroy) destroy = moec_package_destroy;
  decltype(&moec_last_error) lastError = moec_last_error;
  decltype(&moec_compile_config) compile = nullptr;

  bool open(const std::string &path, std::string &problem) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      problem = dlerror();
      return false;
    }
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(
          dlsym(handle, name));
      if (!function)
        problem = fmt::format("{} lacks {}", path, name);
    };
    find(load, "moec_package_load");
    find(loadFiles, "moec_package_load_files");
    find(report, "moec_package_load_report_json");
    find(destroyFiles, "moec_package_files_destroy");
    find(destroy, "moec_package_destroy");
    find(lastError, "moec_last_error");
    find(compile, "moec_compile_config");
    return problem.empty();
  }
};

/// Pays for driver and context before the clock starts.
void makeContext() {
  using namespace runtime::cuda;
  Result<const CudaDriver *> driver = CudaDriver::get();
  CUcontext context;
  if (driver && (*driver)->primaryCtxRetain(&context, 0) == kSuccess)
    (*driver)->ctxPushCurrent(context);
}

int failChild(std::string_view what) {
  fmt::print(stderr, "load-time: {}\n", what);
  return 1;
}

int runChild(const Options &options) {
  Library library;
  std::string problem;
  if (!options.config.empty() && !library.open(options.library, problem))
    return failChild(problem);
  bool host = options.device == "host";
  Clock::time_point start = Clock::now();
  if (!host)
    makeContext();
  ordered_json report = {{"context_ms", since(start)}};

  moec_load_options load = {};
  load.struct_size = sizeof load;
  load.device = host ? MOEC_DEVICE_HOST : MOEC_DEVICE_CUDA;
  load.cache_dir = options.cache.c_str();
  load.strict = options.strict;
  moec_package *package = nullptr;
  moec_package_files *files = nullptr;
  moec_status status;
  start = Clock::now();
  if (options.config.empty()) {
    status = library.load(options.package.c_str(), &load, &package);
  } else {
    Result<std::string> text = readFile(options.config);
    if (!text)
      return failChild(text.error().message);
    std::string wanted =
        ordered_json({{"arch", options.archs}, {"cubin", false}}).dump();
    status = library.compile(text->c_str(), wanted.c_str(), &files);
    report["compile_ms"] = since(start);
    if (status == MOEC_OK)
      status = library.loadFiles(files, &load, &package);
  }
  report["ready_ms"] = since(start);
  if (status != MOEC_OK)
    return failChild(library.lastError());
  report["load"] = nlohmann::json::parse(library.report(package), nullptr,
                                         /*allow_exceptions=*/false);
  library.destroy(package);
  library.destroyFiles(files);
  fmt::print("{}\n", report.dump());
  return 0;
}

/// Runs this program once more and reads its report.
Result<ordered_json> spawn(const Options &options, const std::string &cache,
                           bool fromConfig, bool strict) {
  std::vector<std::string> words = {
      "load-time", "--child", "--device=" + options.device, "--cache=" + cache};
  if (strict)
    words.push_back("--strict");
  if (fromConfig) {
    words.push_back("--config=" + options.config);
    words.push_back("--libmoec=" + options.library);
    for (const std::string &arch : options.archs)
      words.push_back("--arch=" + arch);
  } else {
    words.push_back(options.package);
  }
  int ends[2];
  if (pipe(ends) != 0)
    return fileError("cannot make", "a pipe");
  Clock::time_point start = Clock::now();
  pid_t child = fork();
  if (child < 0)
    return fileError("cannot start", "a process");
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  double process = since(start);
  ordered_json report = ordered_json::parse(text, nullptr, false);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !report.is_object())
    return Error{ErrorCode::Internal, "a child process failed (see above)"};
  report["process_ms"] = process;
  return report;
}

ordered_json summary(std::vector<ordered_json> rounds) {
  std::sort(rounds.begin(), rounds.end(), [](const auto &a, const auto &b) {
    return a["ready_ms"].template get<double>() <
           b["ready_ms"].template get<double>();
  });
  const ordered_json &middle = rounds[rounds.size() / 2];
  return {{"ready_ms", middle["ready_ms"]},
          {"best_ms", rounds.front()["ready_ms"]},
          {"worst_ms", rounds.back()["ready_ms"]},
          {"rounds", rounds.size()},
          {"median_round", middle}};
}

Result<ordered_json> measure(const Options &options) {
  Result<std::string> folder = createTemporaryFolderBeside("/tmp/moec-load");
  if (!folder)
    return folder.takeError();
  bool fromConfig = !options.config.empty();
  std::vector<ordered_json> cold, warm, ahead;
  Result<void> failed;
  auto add = [&](std::vector<ordered_json> &to, const std::string &cache,
                 bool config, bool strict) {
    Result<ordered_json> report = spawn(options, cache, config, strict);
    if (report)
      to.push_back(std::move(*report));
    else
      failed = report.takeError();
    return bool(failed);
  };
  // Each cold round has an empty cache of its own; the warm round after it
  // reads what that left. Strict: a warm or ahead-of-time load that would
  // compile is an error, not a slow number.
  for (int i = 0; i < options.rounds; ++i) {
    std::string cache = joinPath(*folder, fmt::format("cache-{}", i));
    bool haveCubins = !options.package.empty();
    if (!add(cold, cache, fromConfig, false) ||
        !add(warm, cache, fromConfig, true))
      break;
    if (fromConfig && haveCubins &&
        !add(ahead, joinPath(*folder, "none"), false, true))
      break;
  }
  (void)bool(removeAll(*folder));
  if (!failed)
    return failed.takeError();
  ordered_json result = {{"moec_load_time", 1}, {"device", options.device}};
  result["input"] = fromConfig ? options.config : options.package;
  result["cold"] = summary(cold);
  result["warm"] = summary(warm);
  if (!ahead.empty())
    result["ahead_of_time"] = summary(ahead);
  return result;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("times loading of packages of moec", "load-time");
  Options options;
  app.add_option("PACKAGE", options.package,
                 "without --config: without cubins (moec compile --no-cubin), "
                 "for cold and warm; with it: with cubins, for ahead of time");
  app.add_option("--config", options.config,
                 "a config.json: cold and warm begin with it");
  app.add_option("--arch", options.archs, "to compile the config for")
      ->delimiter(',');
  app.add_option("--libmoec", options.library, "libmoec.so, for --config")
      ->capture_default_str();
  app.add_option("--device", options.device, "cuda or host")
      ->check(CLI::IsMember({"cuda", "host"}))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "fresh processes of each kind")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "for programs");
  app.add_option("--cache", options.cache, "of a child")->group("");
  app.add_flag("--child", options.child, "")->group("");
  app.add_flag("--strict", options.strict, "")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }
  if (options.child)
    return runChild(options);
  if (options.package.empty() && options.config.empty()) {
    fmt::print(stderr,
               "load-time: expected PACKAGE or --config, got neither\n");
    return 2;
  }
  Result<ordered_json> result = measure(options);
  if (!result) {
    fmt::print(stderr, "load-time: {}\n", result.error().message);
    return 1;
  }
  if (options.json) {
    fmt::print("{}\n", result->dump(2));
    return 0;
  }
  for (const char *kind : {"cold", "warm", "ahead_of_time"})
    if (result->contains(kind))
      fmt::print("{:<14} {:>9.1f} ms (best {:.1f}, worst {:.1f}, {} fresh "
                 "processes)\n",
                 kind, (*result)[kind]["ready_ms"].get<double>(),
                 (*result)[kind]["best_ms"].get<double>(),
                 (*result)[kind]["worst_ms"].get<double>(),
                 (*result)[kind]["rounds"].get<size_t>());
  return 0;
}
