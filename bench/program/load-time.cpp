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
// functions loaded, in a process whose CUDA context exists; process start,
// cuInit, context and opening NVRTC are printed apart.
//
// NVRTC keeps what it compiled in the driver's compute cache when a driver is
// there, so an empty cache of moec's alone is not cold: children run with
// CUDA_CACHE_DISABLE=1.
//
//===----------------------------------------------------------------------===//

#include "moec/compiler.h"
#include "runtime/cuda/CudaDriver.h"
#include "runtime/jit/CompilePool.h"
#include "runtime/support/CommandLine.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Guard.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
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
  int64_t started = 0; ///< of a child: the parent's clock before fork
  bool json = false, child = false, strict = false;
};

/// Nanoseconds of the clock that all processes of the machine share.
int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             Clock::now().time_since_epoch())
      .count();
}

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

/// Pays for driver and context before the clock starts, and says what they
/// cost. A missing driver is the load's to explain.
void makeContext(ordered_json &report) {
  using namespace runtime::cuda;
  Result<const CudaDriver *> driver = CudaDriver::get();
  if (!driver)
    return;
  report["driver_open_ms"] = (*driver)->openMilliseconds;
  report["cuinit_ms"] = (*driver)->initMilliseconds;
  Clock::time_point start = Clock::now();
  CUcontext context;
  if ((*driver)->primaryCtxRetain(&context, 0) == kSuccess)
    (*driver)->ctxPushCurrent(context);
  report["context_ms"] = since(start);
}

int failChild(std::string_view what) {
  fmt::print(stderr, "load-time: {}\n", what);
  return 1;
}

int runChild(const Options &options) {
  // The loader's work before main counts as process start.
  ordered_json report = {
      {"process_start_ms", double(now() - options.started) / 1e6}};
  Clock::time_point start = Clock::now();
  Library library;
  std::string problem;
  if (!options.config.empty()) {
    if (!library.open(options.library, problem))
      return failChild(problem);
    report["library_open_ms"] = since(start);
  }
  bool host = options.device == "host";
  if (!host)
    makeContext(report);

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
    report["package_ms"] = since(start);
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
  words.push_back(fmt::format("--started={}", now()));
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
    setenv("CUDA_CACHE_DISABLE", "1", 1);
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

/// The phases of a round: what is paid once a process, then the parts of
/// ready_ms. `of` is the object of the child's report that holds `key`.
struct Phase {
  const char *name, *of, *key;
};
constexpr Phase kPhases[] = {
    {"process_start_ms", "", "process_start_ms"},
    {"library_open_ms", "", "library_open_ms"},
    {"driver_open_ms", "", "driver_open_ms"},
    {"cuinit_ms", "", "cuinit_ms"},
    {"context_ms", "", "context_ms"},
    {"ready_ms", "", "ready_ms"},
    {"package_ms", "", "package_ms"},
    {"read_ms", "load", "read_ms"},
    {"nvrtc_open_ms", "load", "nvrtc_open_ms"},
    {"compile_ms", "load", "compile_ms"},
    {"module_load_ms", "load", "module_load_ms"},
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}

ordered_json summary(std::vector<ordered_json> rounds) {
  ordered_json all = ordered_json::array(), phases = ordered_json::object();
  for (const ordered_json &round : rounds)
    all.push_back(round["ready_ms"]);
  for (const Phase &phase : kPhases) {
    std::vector<double> values;
    for (const ordered_json &round : rounds) {
      const ordered_json &in = *phase.of ? round[phase.of] : round;
      if (in.contains(phase.key) && in[phase.key].is_number())
        values.push_back(in[phase.key].get<double>());
    }
    if (!values.empty())
      phases[phase.name] = median(values);
  }
  std::sort(rounds.begin(), rounds.end(), [](const auto &a, const auto &b) {
    return a["ready_ms"].template get<double>() <
           b["ready_ms"].template get<double>();
  });
  return {{"ready_ms", phases["ready_ms"]},
          {"best_ms", rounds.front()["ready_ms"]},
          {"worst_ms", rounds.back()["ready_ms"]},
          {"rounds", rounds.size()},
          {"all_ready_ms", all},
          {"phases", phases},
          {"middle_round", rounds[rounds.size() / 2]}};
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
  ordered_json result = {{"moec_load_time", 2},
                         {"device", options.device},
                         {"usable_threads", usableThreads()}};
  result["input"] = fromConfig ? options.config : options.package;
  result["cold"] = summary(cold);
  result["warm"] = summary(warm);
  if (!ahead.empty())
    result["ahead_of_time"] = summary(ahead);
  return result;
}

void printTable(const ordered_json &result) {
  std::vector<const char *> kinds;
  for (const char *kind : {"cold", "warm", "ahead_of_time"})
    if (result.contains(kind))
      kinds.push_back(kind);
  fmt::print("median ms of fresh processes, {} usable threads\n{:<18}",
             result["usable_threads"].get<int>(), "");
  for (const char *kind : kinds)
    fmt::print("{:>15}", kind);
  fmt::print("\n");
  for (const Phase &phase : kPhases) {
    std::string line;
    for (const char *kind : kinds) {
      const ordered_json &phases = result[kind]["phases"];
      line += phases.contains(phase.name)
                  ? fmt::format("{:>15.1f}", phases[phase.name].get<double>())
                  : fmt::format("{:>15}", "");
    }
    if (line.find_first_not_of(' ') != std::string::npos)
      fmt::print("{:<18}{}\n", phase.name, line);
  }
  for (const char *bound : {"best_ms", "worst_ms", "rounds"}) {
    fmt::print("{:<18}", bound);
    for (const char *kind : kinds)
      fmt::print("{:>15.1f}", result[kind][bound].get<double>());
    fmt::print("\n");
  }
}

} // namespace

static int runMain(int argc, char **argv) {
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
      ->check(oneOf({"cuda", "host"}))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "fresh processes of each kind")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
  app.add_option("--cache", options.cache, "of a child")->group("");
  app.add_option("--started", options.started)->group("");
  app.add_flag("--child", options.child, "")->group("");
  app.add_flag("--strict", options.strict, "")->group("");
  if (const std::optional<int> ended = parseCommandLine(app, argc, argv))
    return *ended;
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
  printTable(*result);
  return 0;
}

int main(int argc, char **argv) {
  return guarded("load-time", [&] { return runMain(argc, argv); });
}
