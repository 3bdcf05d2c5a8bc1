//===- FuzzCompile.cpp - configurations and IR through the compiler -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program of its own, without sanitizers: MLIR has none. Each input is a
// change of a text that was new: its result is a package, or a refusal with a
// sentence that none had before. A death writes the input that it died of.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"
#include "compiler/import/Formats.h"
#include "compiler/import/Import.h"
#include "dialect/catalog/Architectures.h"
#include "test/fuzz/Fuzz.h"
#include "test/fuzz/Mutators.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <random>
#include <set>

#include <fcntl.h>
#include <sys/resource.h>

using namespace moec;
using namespace moec::compiler;

namespace {

struct Arguments {
  std::vector<std::string> corpus;
  std::string crashes = ".";
  uint64_t runs = 1000;
  unsigned seconds = 0; ///< 0: no limit
  unsigned seed = 1;
  size_t mostBytes = 65536;
};

/// The handler of signals may touch these.
std::string gInput;
std::string gCrashPath;

constexpr unsigned kPatience = 30; ///< seconds for one input

void onDeath(int signal) {
  int file = ::open(gCrashPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0) {
    size_t done = 0;
    while (done < gInput.size()) {
      ssize_t count = ::write(file, gInput.data() + done, gInput.size() - done);
      if (count <= 0)
        break;
      done += static_cast<size_t>(count);
    }
    ::close(file);
  }
  constexpr char kText[] = "fuzz: died; the input is in the folder --crashes\n";
  (void)!::write(2, kText, sizeof(kText) - 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void catchDeaths() {
  // A stack that overflowed has no room for the handler.
  static char stack[1 << 16];
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof(stack);
  ::sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = onDeath;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT, SIGALRM})
    ::sigaction(signal, &action, nullptr);
}

class Fuzzer {
public:
  explicit Fuzzer(const Arguments &arguments)
      : arguments(arguments), random(arguments.seed) {}

  int run();

private:
  using Clock = std::chrono::steady_clock;
  bool readCorpus();
  std::string nextInput();
  void compileOne(const std::string &text);
  void keep(const std::string &text, const std::string &result);

  const Arguments &arguments;
  std::mt19937_64 random;
  std::vector<std::string> pool;
  std::set<std::string> results; ///< of what was seen: refusals and sizes
  std::unique_ptr<mlir::MLIRContext> context;
  uint64_t tried = 0, compiled = 0, internal = 0;
  double worst = 0;
};

/// A message without what is the input's own: names and numbers.
std::string kindOf(std::string_view message) {
  std::string kind;
  bool quoted = false;
  for (char c : message.substr(0, 400)) {
    if (c == '\'' || c == '"')
      quoted = !quoted;
    else if (!quoted && !(c >= '0' && c <= '9'))
      kind += c;
  }
  return kind;
}

bool Fuzzer::readCorpus() {
  for (const std::string &path : arguments.corpus) {
    std::vector<std::string> files = {path};
    if (isFolder(path)) {
      files.clear();
      if (auto list = listFiles(path))
        for (const std::string &file : *list)
          files.push_back(joinPath(path, file));
    }
    for (const std::string &file : files) {
      auto text = readFile(file);
      if (!text) {
        fmt::print(stderr, "{}\n", text.error().message);
        return false;
      }
      if (text->size() <= arguments.mostBytes)
        pool.push_back(std::move(*text));
    }
  }
  return !pool.empty();
}

std::string Fuzzer::nextInput() {
  const std::string &text = pool[random() % pool.size()];
  const std::string &other = pool[random() % pool.size()];
  const auto seed = static_cast<unsigned>(random());
  std::string changed;
  if (looksLikeJson(text) && seed % 8 != 0)
    changed = seed % 5 == 0
                  ? fuzz::crossJson(text, other, arguments.mostBytes, seed)
                  : fuzz::mutateJson(text, arguments.mostBytes, seed);
  if (changed.empty())
    changed = fuzz::mutateText(text, other, arguments.mostBytes, seed);
  return changed;
}

void Fuzzer::keep(const std::string &text, const std::string &result) {
  constexpr size_t kMostTexts = 20000;
  if (results.insert(result).second && pool.size() < kMostTexts)
    pool.push_back(text);
}

void Fuzzer::compileOne(const std::string &text) {
  // A context keeps every attribute that it has seen.
  constexpr uint64_t kInputsOfAContext = 200;
  if (tried++ % kInputsOfAContext == 0) {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context = std::make_unique<mlir::MLIRContext>(
        registry, mlir::MLIRContext::Threading::DISABLED);
  }
  const uint64_t hash = fuzz::hashOf(text);
  ImportOptions import;
  if (hash % 16 == 0)
    import.tp = 2, import.ep = hash & 32;
  import.noSharedExperts = hash % 5 == 0;
  CompileOptions options;
  const auto &archs = catalog::kArchitectures;
  options.archs = {std::string(archs[hash / 16 % std::size(archs)].name)};
  if (hash % 3 == 0)
    options.archs = {"sm_90a"};
  options.maxTokens = hash % 7 ? 64 : 8192;
  options.cubins = false;

  const auto start = Clock::now();
  ::alarm(kPatience);
  auto module = importInput(text, "in", import, *context);
  Result<PackageFiles> files = Error();
  if (module)
    files = compile(**module, options);
  else
    files = module.takeError();
  ::alarm(0);
  worst = std::max(worst,
                   std::chrono::duration<double>(Clock::now() - start).count());
  if (files) {
    ++compiled;
    keep(text, fmt::format("{} {}", files->manifest.name,
                           toJson(files->manifest).size()));
    return;
  }
  const Error &error = files.error();
  fuzz::require(!error.message.empty(), "an error has a sentence");
  const std::string kind = kindOf(error.message);
  if (error.code == ErrorCode::Internal && results.insert(kind).second) {
    ++internal;
    std::string path =
        fmt::format("{}/internal-{}", arguments.crashes, internal);
    (void)static_cast<bool>(writeFile(path, text));
    fmt::print("internal: {} ({})\n", error.message, path);
  }
  keep(text, kind);
}

int Fuzzer::run() {
  if (!readCorpus()) {
    fmt::print(stderr, "fuzz: expected a corpus\n");
    return 2;
  }
  const size_t seeds = pool.size();
  const auto start = Clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (uint64_t i = 0; i < arguments.runs; ++i) {
    if (arguments.seconds && seconds() > arguments.seconds)
      break;
    gInput = i < seeds ? pool[i] : nextInput();
    compileOne(gInput);
  }
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{} inputs, {} compiled, {} kinds of result, {} internal errors, "
             "{:.0f} s, worst {:.2f} s, {} MB\n",
             tried, compiled, results.size(), internal, seconds(), worst,
             usage.ru_maxrss / 1024);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Changed configurations and IR through the whole compiler",
               "moec-fuzz-compile");
  app.add_option("corpus", arguments.corpus, "Files and folders of texts")
      ->required();
  app.add_option("--crashes", arguments.crashes,
                 "Folder of inputs that ended the process");
  app.add_option("--runs", arguments.runs, "Inputs");
  app.add_option("--seconds", arguments.seconds, "Time; 0 for no limit");
  app.add_option("--seed", arguments.seed, "Of the changes");
  app.add_option("--max-len", arguments.mostBytes, "Bytes of an input");
  CLI11_PARSE(app, argc, argv);
  gCrashPath = fmt::format("{}/crash-{}-{}", arguments.crashes, arguments.seed,
                           ::getpid());
  catchDeaths();
  return Fuzzer(arguments).run();
}
