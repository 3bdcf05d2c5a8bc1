//===- Command.cpp - the compiler's command line --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses arguments and runs one of the commands in Commands.h. The exit status
// is 0 on success and 2 if the arguments are invalid. It is 1 if the input was
// rejected or, for a file of cases, any input was rejected. The reason is then
// printed to standard error, and no output is written.
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/Input.h"
#include "compiler/command/Programs.h"
#include "runtime/support/Bytes.h"
#include "runtime/support/CommandLine.h"
#include "runtime/support/Files.h"
#include "runtime/support/Guard.h"
#include "runtime/support/ProgressDisplay.h"
#include "runtime/support/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <cstdio>
#include <optional>
#include <sstream>

using namespace moec;
using namespace moec::compiler;

namespace {

/// Adds the options that all commands with a layer as input share.
void addLayerOptions(CLI::App &command, std::string &input,
                     ImportOptions &import, CompileOptions &compile) {
  command
      .add_option(
          "INPUT", input,
          "a Hugging Face config.json or the folder that has it, a moec layer "
          "JSON or a .mlir file, detected by content; '-' is standard input")
      ->required();
  command
      .add_option(
          "--arch", compile.archs,
          "what to compile for, such as sm_80,sm_90a (moec list archs); a GPU "
          "means its arch (h100), native means the arch of this machine's GPU")
      ->delimiter(',');
  command.add_option(
      "--gpu", compile.gpu,
      "the GPU that ranges and schedules assume (moec list gpus); if absent "
      "the GPU of --arch, else this machine's GPU, else the arch's default");
  forEachImportOption(
      import, [&](const std::string &name, auto &value, const char *help) {
        if constexpr (std::is_same_v<decltype(value), bool &>)
          command.add_flag("--" + name, value, help);
        else
          command.add_option("--" + name, value, help);
      });
  import.needsSharedExperts = true;
  for (const char *count : {"--tp", "--pcp", "--dp"})
    command.get_option(count)->check(countFrom(1));
  command.get_option("--ignore-field")->delimiter(',');
  command
      .add_option("--max-tokens", compile.maxTokens,
                  "the maximum number of tokens of a run")
      ->capture_default_str()
      ->check(countFrom(1))
      ->each([&compile](const std::string &) { compile.asksMaxTokens = true; });
  forEachChoice(compile, [&](const std::string &name, auto &value,
                             const EnvVariable *variable, std::string help) {
    if (variable)
      help.append("; wins over ").append(variable->name);
    CLI::Option *option = command.add_option("--" + name, value, help);
    if constexpr (!std::is_same_v<decltype(value), std::string &>)
      option->delimiter(',');
  });
}

/// Adds the options that `compile` and `explain` share.
void addInputOptions(CLI::App &command, CommandOptions &options) {
  CompileOptions &compile = options.compile;
  addLayerOptions(command, options.input, options.import, compile);
  command.add_option("--tuned", compile.tunedFile,
                     "a file of measured schedules, before those built in");
  command.add_flag_callback(
      "--no-tuned-store", [&compile] { compile.tunedStore = false; },
      "ignore the schedules that moec tune has stored for this user");
  command.add_flag("--mlir-print-ir-after-all", compile.printIrAfterAll,
                   "print the IR after each pass to standard error");
  command.add_flag("--mlir-timing", compile.timePasses,
                   "print the time of each pass to standard error");
  command.add_option("--mlir-pass-pipeline-crash-reproducer",
                     compile.crashReproducer,
                     "a file for a pass that fails; moec-opt --run-reproducer "
                     "repeats it");
  command.add_option("-o", options.output,
                     "where to write; '-' is standard output");
  // With --cases, each line of the file specifies an INPUT, so the option is
  // not required.
  command
      .add_option("--cases", options.cases,
                  "a file of cases, one a line, whose words follow these; "
                  "all run in one process, and standard output gets a JSON "
                  "object for each")
      ->each([input = command.get_option("INPUT")](const std::string &) {
        input->required(false);
      });
}

/// Returns a check that a value is positive and at most `most`.
auto numberUpTo(double most, const char *unit) {
  return [most, unit](const std::string &text) -> std::string {
    if (checkPositive(text).empty() && std::stod(text) <= most)
      return "";
    return fmt::format("expected {} above 0 and up to {}, got '{}'", unit, most,
                       text);
  };
}

void addTuneOptions(CLI::App &command, TuneOptions &options) {
  addLayerOptions(command, options.source.path, options.import,
                  options.compile);
  command.get_option("INPUT")->description(
      "a Hugging Face config.json or the folder that has it, a moec layer "
      "JSON, a .mlir file or a package, detected by content");
  command
      .add_option("--tokens", options.tokens,
                  "token counts to measure with, such as 1,32,512")
      ->delimiter(',')
      ->required()
      ->check(countFrom(1));
  command
      .add_option("--budget", options.budget,
                  "total time [s], compilation included, such as 60s")
      ->capture_default_str()
      ->transform([](std::string text) {
        if (text.ends_with('s'))
          text.pop_back();
        return text;
      })
      ->check(numberUpTo(kMostBudget, "seconds"));
  command.add_flag("--exhaustive", options.exhaustive,
                   "measure all candidates of all tile sizes");
  command
      .add_option(
          "--random", options.random,
          "number of random legal schedules to measure for each matmul, "
          "in addition to the candidates")
      ->check(countFrom(0, kMostRandom));
  command
      .add_option("--seed", options.seed,
                  "seed of random schedules and of inputs")
      ->capture_default_str()
      ->check(countFrom(0, INT64_MAX));
  command
      .add_option("--device", options.device,
                  "where to measure: cuda, or host, whose times say nothing "
                  "about a GPU")
      ->capture_default_str()
      ->check(oneOf({"cuda", "host"}));
  command
      .add_option("--deadline", options.deadline,
                  "time after which a measurement counts as hanging [s]")
      ->capture_default_str()
      ->check(numberUpTo(kMostDeadline, "seconds"));
  command
      .add_option("--min-gain", options.minGain,
                  "minimum speedup over the compiler's choice that a row must "
                  "show [%]")
      ->capture_default_str()
      ->check(numberUpTo(kMostGain, "percent"));
  command
      .add_option("--sample", options.sample,
                  "tokens of each measurement that are compared with the "
                  "reference")
      ->capture_default_str()
      ->check(countFrom(1));
  command.add_option("--out", options.output,
                     "the file to which rows are written; if absent the user's "
                     "store, which compile reads without a flag");
  command.add_option("--log", options.log,
                     "the file of all measurements, with which a second call "
                     "continues; if absent a file next to the store");
  command.add_option("--report", options.report,
                     "a file for the numbers as JSON");
}

/// A value of --emit without a Phase: the input's layer JSON.
constexpr std::string_view kLayerJson = "layer-json";

/// Returns the names that --emit accepts.
std::vector<std::string> emitNames() {
  std::vector<std::string> names = phaseNames();
  names.emplace(names.begin(), kLayerJson);
  return names;
}

std::string checkPath(const std::string &path) {
  return path.empty() || path == "-" ? "expected the path of a file" : "";
}

int fail(const Error &error) {
  printError("moec", error.message);
  return 1;
}

} // namespace

namespace {

/// Parses a command line and runs its command.
class CommandLine {
public:
  CommandLine();
  std::vector<std::string> commandNames() const;
  /// Parses the arguments. Returns the exit status if there is nothing to run.
  std::optional<int> parse(int argc, char **argv);
  /// Runs the command. Returns its exit status, or an error if the command
  /// failed.
  Result<int> run();

  bool explains() const { return explain->parsed(); }
  CommandOptions options;

private:
  void addCompile();
  void addExplain();
  void addTune();
  void addList();
  void addCache();
  void addOthers();

  CLI::App app{"moec: a compiler for Mixture-of-Experts layers", "moec"};
  CLI::App *compile = nullptr, *explain = nullptr, *tune = nullptr,
           *list = nullptr, *cache = nullptr, *doctor = nullptr,
           *completion = nullptr;
  TuneOptions tuning;
  CacheCommand caching;
  std::string phase = "package", table, shell;
  bool noCubin = false, asJson = false, compiles = false;
};

} // namespace

void CommandLine::addCompile() {
  compile = app.add_subcommand(
      "compile", "compiles a layer to a package, or stops before");
  addInputOptions(*compile, options);
  compile
      ->add_option("--emit", phase,
                   fmt::format("where to stop: {}; IR goes to standard output "
                               "and may be the input of the next call",
                               fmt::join(emitNames(), ", ")))
      ->capture_default_str()
      ->check(oneOf(emitNames()));
  compile->add_flag("--no-cubin", noCubin,
                    "leave compiling of the kernels to the load");
  compile->add_flag("--json", options.json, "print JSON");
}

void CommandLine::addExplain() {
  explain =
      app.add_subcommand("explain", "prints what would be chosen, and why");
  addInputOptions(*explain, options);
  CLI::Option *json = explain->add_flag("--json", options.json, "print JSON");
  explain
      ->add_flag("--brief", options.brief,
                 "print the choice, sizes and predicted times, without refused "
                 "candidates and kernels")
      ->excludes(json);
  explain
      ->add_option("--tokens", options.explain.tokens,
                   "token counts to predict times for, such as 1,64,512")
      ->delimiter(',')
      ->check(countFrom(1));
  explain
      ->add_option("--histogram", options.explain.histogram,
                   "how tokens choose experts in predictions: uniform, "
                   "zipf:EXPONENT, hot:EXPERTS (every token's first ones), "
                   "used:FRACTION (of the experts), or a JSON file {\"rows\": "
                   "[...]} with the rows of each expert")
      ->capture_default_str();
  CLI::Option *page =
      explain->add_option("--html", options.html,
                          "also writes a page with pictures, which needs no "
                          "network; a layer that is refused has one, too");
  page->check(checkPath);
  explain
      ->add_option("--bench", options.bench,
                   "a result of moec-bench --json, for the page")
      ->needs(page);
  explain
      ->add_option("--compare", options.compared,
                   "results of moec explain --json, whose times the page shows "
                   "in the chart of this one's")
      ->delimiter(',')
      ->needs(page);
}

void CommandLine::addTune() {
  tune = app.add_subcommand(
      "tune", "measures schedules of a layer on this machine's GPU");
  addTuneOptions(*tune, tuning);
}

void CommandLine::addList() {
  list = app.add_subcommand("list", "prints the catalog: names that options "
                                    "take, and models");
  list->add_option(
          "TABLE", table,
          fmt::format("{}; all if absent", fmt::join(listTables(), ", ")))
      ->check(oneOf(listTables()));
  list->add_flag("--json", asJson, "print JSON");
}

/// Converts "30d", "12h" or a number of days to a number of days.
static std::string daysOf(std::string text) {
  const bool isHours = text.ends_with('h');
  if (isHours || text.ends_with('d'))
    text.pop_back();
  if (!isHours || !checkPositive(text).empty())
    return text;
  constexpr double kHoursPerDay = 24;
  return fmt::format("{}", std::stod(text) / kHoursPerDay);
}

void CommandLine::addCache() {
  cache = app.add_subcommand("cache", "lists, measures, bounds and empties the "
                                      "cache of compiled kernels");
  cache
      ->add_option("ACTION", caching.action,
                   "show: sizes; list: each kernel; trim: removes the kernels "
                   "that were not used for longest; clear: removes all")
      ->capture_default_str()
      ->check(oneOf(cacheActions()));
  cache->add_option("--cache-dir", caching.folder,
                    "the cache (default: MOEC_CACHE_DIR, else ~/.cache/moec)");
  cache->add_option("--arch", caching.arch, "kernels of this arch only");
  cache
      ->add_option_function<std::string>(
          "--max-size",
          [this](const std::string &text) {
            caching.maxBytes = *parseBytes(text);
          },
          "trim to this size, such as 2G; MOEC_CACHE_SIZE keeps one")
      ->check([](const std::string &text) -> std::string {
        const auto bytes = parseBytes(text);
        return bytes ? "" : bytes.error().message;
      });
  cache
      ->add_option("--older-than", caching.olderThanDays,
                   "remove what was not used for this time, such as 30d or "
                   "12h")
      ->transform(daysOf)
      ->check([](const std::string &text) {
        return checkPositive(text).empty()
                   ? ""
                   : fmt::format("expected a time above 0, such as 30d or "
                                 "12h, got '{}'",
                                 text);
      });
  cache->add_flag("--dry-run", caching.dryRun,
                  "print what would be removed, and remove nothing");
  cache->add_flag("--json", caching.json, "print JSON");
}

void CommandLine::addOthers() {
  for (const ProgramCommand &each : programCommands())
    app.add_subcommand(std::string(each.name), std::string(each.summary));
  addCache();
  doctor = app.add_subcommand(
      "doctor", "reports what this machine supports, and what to install");
  doctor->add_flag("--compile", compiles, "also compile a small layer");
  // The callback is never called: with --gpu, runWords() runs the command of
  // the Python package instead.
  doctor->add_flag_callback(
      "--gpu", [] {},
      "instead check moec on the GPU in about ten minutes, and "
      "write a file that can be sent; --gpu --help has its "
      "options");
  doctor->add_flag("--json", asJson, "print JSON");
  completion = app.add_subcommand(
      "completion", "prints a script by which a shell completes words: eval "
                    "\"$(moec completion bash)\"");
  completion->add_option("SHELL", shell, "bash or zsh")
      ->required()
      ->check(oneOf({"bash", "zsh"}));
  app.add_subcommand("help", "prints the options of a command");
}

std::vector<std::string> CommandLine::commandNames() const {
  std::vector<std::string> names;
  for (const CLI::App *each :
       app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(each->get_name());
  return names;
}

CommandLine::CommandLine() {
  app.set_version_flag("--version", std::string(compilerVersion()));
  app.require_subcommand(1);
  options.compile.tunedStore = true;
  addCompile();
  addExplain();
  addList();
  addTune();
  addOthers();
}

/// Prints the reason to standard error and returns exit status 2.
static int refuseWords(std::string_view reason) {
  printError("moec", reason);
  return kUsageStatus;
}

/// Returns an error message if an option of `moec cache` is missing or has no
/// effect, otherwise "".
static std::string misuse(const CacheCommand &command) {
  const bool removes = command.action == "trim" || command.action == "clear";
  const bool hasLimit = command.maxBytes || command.olderThanDays >= 0;
  if (command.action == "trim" && !hasLimit)
    return "cache trim: expected --max-size=SIZE or --older-than=TIME, got "
           "none";
  if (command.action == "clear" && command.maxBytes)
    return "cache clear removes all: expected no --max-size; moec cache trim "
           "--max-size=SIZE keeps a part";
  if (!removes && (hasLimit || command.dryRun))
    return fmt::format("cache {} removes nothing: expected no --max-size, "
                       "--older-than and --dry-run; moec cache trim takes them",
                       command.action);
  return "";
}

std::optional<int> CommandLine::parse(int argc, char **argv) {
  if (const std::optional<int> ended = parseCommandLine(app, argc, argv))
    return ended;
  if (cache->parsed())
    if (const std::string reason = misuse(caching); !reason.empty())
      return refuseWords(reason);
  if (compile->parsed() || explain->parsed() || tune->parsed())
    for (CompileOptions *compile : {&options.compile, &tuning.compile})
      addVariables(*compile);
  options.emitsLayerJson = phase == kLayerJson;
  options.emit = parsePhase(phase).value_or(Phase::Layer);
  options.compile.cubins = !noCubin;
  return std::nullopt;
}

Result<int> CommandLine::run() {
  if (doctor->parsed())
    return runDoctor(asJson, compiles);
  const auto done = [&]() -> Result<void> {
    if (completion->parsed())
      return writeStandardOutput(completionText(shell, commandNames()));
    if (cache->parsed())
      return runCache(caching);
    if (list->parsed())
      return runList(table, asJson);
    if (tune->parsed())
      return runTune(tuning);
    const std::unique_ptr<mlir::MLIRContext> context = makeContext();
    return explains() ? runExplain(options, *context)
                      : runCompile(options, *context);
  }();
  if (!done)
    return done.error();
  return 0;
}

/// Reads a file of cases, one per line. The words of a line are appended to the
/// command line's words.
static Result<std::vector<Case>> readCases(const std::string &path, int argc,
                                           char **argv) {
  std::istringstream file(TRY(readFile(path)));
  std::vector<Case> cases;
  for (std::string text; std::getline(file, text);) {
    std::istringstream stream(text);
    std::vector<std::string> words(argv, argv + argc);
    for (std::string word; stream >> word;)
      words.push_back(word);
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    const auto number = static_cast<int64_t>(cases.size() + 1);
    CommandLine line;
    if (line.parse(static_cast<int>(arguments.size()), arguments.data()))
      return invalidArgument("line {} of '{}'", number, path);
    if (line.options.input.empty())
      return invalidArgument("line {} of '{}': expected INPUT, got none",
                             number, path);
    cases.push_back({number, std::move(line.options)});
  }
  return cases;
}

/// Expands abbreviations. `moec` and `moec help` mean `moec --help`, and `moec
/// help X` means `moec X --help`. `moec env` is the former name of `moec
/// doctor`.
static std::vector<std::string> canonicalWords(int argc, char **argv) {
  std::vector<std::string> words(argv, argv + argc);
  if (words.size() == 1)
    words.emplace_back("--help");
  if (words[1] == "env")
    words[1] = "doctor";
  if (words[1] == "help") {
    words.erase(words.begin() + 1);
    // Do not add --help for an unknown command, so that the unknown name is
    // reported as an error.
    const std::vector<std::string> known = CommandLine().commandNames();
    if (words.size() < 2 || std::ranges::find(known, words[1]) != known.end())
      words.emplace_back("--help");
  }
  return words;
}

static int runWords(std::vector<std::string> words) {
  if (const std::optional<int> status =
          runProgram(words[1], {words.begin() + 2, words.end()}))
    return *status;
  if (words[1] == "doctor" && std::ranges::find(words, "--gpu") != words.end())
    return runPython("doctor", {words.begin() + 2, words.end()});
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int argc = static_cast<int>(words.size());
  char **argv = arguments.data();
  CommandLine line;
  if (const std::optional<int> status = line.parse(argc, argv))
    return *status;
  const ProgressDisplay progress;
  if (!line.options.cases.empty()) {
    // Parse all cases before the first one runs, so that errors are reported
    // immediately.
    Result<std::vector<Case>> cases = readCases(line.options.cases, argc, argv);
    if (!cases) {
      fmt::print(stderr, "moec: --cases: {}\n", cases.error().message);
      return 2;
    }
    return runCases(std::move(*cases),
                    line.explains() ? runExplain : runCompile);
  }
  const Result<int> status = line.run();
  return status ? *status : fail(status.error());
}

int moec::compiler::runCommand(int argc, char **words) {
  return guarded("moec", [&] {
    if (argc < 1 || !words)
      return refuseWords("expected the words of a command line, the program's "
                         "name first, got none");
    for (int i = 0; i < argc; ++i)
      if (!words[i])
        return refuseWords("a word of the command line is NULL");
    const int status = runWords(canonicalWords(argc, words));
    // Flush now, because the caller may write to the same file by other means
    // afterwards.
    if (std::fflush(stdout) != 0 && status == 0)
      return fail(fileError("cannot write", "standard output"));
    return status;
  });
}
