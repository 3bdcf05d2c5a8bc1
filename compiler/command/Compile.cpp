//===- Compile.cpp - moec compile and moec explain ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/Input.h"
#include "compiler/TargetNames.h"
#include "compiler/explain/Report.h"
#include "compiler/html/Page.h"
#include "compiler/import/Formats.h"
#include "compiler/import/Import.h"
#include "compiler/plan/Choices.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/package/Ranks.h"
#include "runtime/support/Bytes.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Files.h"
#include "runtime/support/Interrupt.h"
#include "runtime/support/Json.h"
#include "runtime/support/StagedFolder.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <span>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;

Result<void> moec::compiler::writeStandardOutput(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    return fileError("cannot write", "standard output");
  return {};
}

namespace {

/// Checks that the input has a target. Programs store their targets. A layer
/// needs a target for every phase after Phase::Layer. Also rejects options that
/// --emit=layer would ignore.
Result<void> checkTarget(Input &input, Phase phase, CompileOptions &options) {
  if (phase > Phase::Layer && options.archs.empty() &&
      input.get().getOps<moe::ProgramOp>().empty()) {
    // --gpu also determines the arch, unless the GPU was only detected.
    const catalog::Gpu *gpu = catalog::find(catalog::kGpus, options.gpu);
    if (!gpu || options.foundGpu)
      return refused("expected --arch=NAME[,NAME...] (`moec list archs`) with "
                     "an input that names no target, got none");
    options.archs.emplace_back(gpu->arch);
  }
  if (phase != Phase::Layer)
    return {};
  std::string lost;
  for (const auto &[name, value] : options.withoutVariables().asked())
    lost = fmt::format("--{}={}", name, value);
  if (!options.tunedFile.empty())
    lost = fmt::format("--tuned={}", options.tunedFile);
  if (options.asksMaxTokens)
    lost = fmt::format("--max-tokens={}", options.maxTokens);
  if (!options.gpu.empty() && !options.foundGpu)
    lost = fmt::format("--gpu={}", options.gpu);
  if (!lost.empty())
    return refused("--emit=layer: expected no choice of kernels, GPU or token "
                   "counts, which a layer does not keep, got {}; accepted: "
                   "the same where the layer is compiled",
                   lost);
  return {};
}

/// Writes to the file `path` or, if it is "" or "-", to standard output. For a
/// case, standard output is part of the case's JSON line.
Result<void> writeOutput(const CommandOptions &options, const std::string &path,
                         std::string_view text) {
  if (!path.empty() && path != "-")
    return writeFileAtomically(path, text);
  if (options.printed) {
    options.printed->append(text);
    return {};
  }
  return writeStandardOutput(text);
}

/// Writes several files, given by path. They are concatenated to standard
/// output, or written to a folder that is created atomically.
Result<void> writeTexts(const CommandOptions &options,
                        const std::map<std::string, std::string> &texts) {
  const std::string &folder = options.output;
  if (folder.empty() || folder == "-") {
    std::string all;
    for (const auto &[path, text] : texts)
      all += fmt::format("// ---- {}\n{}", path, text);
    return writeOutput(options, "", all);
  }
  if (fileExists(folder)) {
    Result<std::vector<std::string>> inside = listFiles(folder);
    if (!isFolder(folder) || !inside || !inside->empty())
      return Error{ErrorCode::FileSystem,
                   "-o {}: expected a path that does not exist or "
                   "an empty folder",
                   folder};
  }
  StagedFolder staged = TRY(StagedFolder::create(folder));
  for (const auto &[path, text] : texts) {
    std::string file = joinPath(staged.path(), path);
    TRY(createFolders(parentFolder(file)));
    TRY(writeFile(file, text));
  }
  return staged.publish();
}

Result<void> writeSources(Input &input, const CommandOptions &options) {
  const Shares shares = TRY(emitShares(input.get()));
  std::map<std::string, std::string> texts;
  for (const PackageFiles &files : shares) {
    const auto number = static_cast<size_t>(&files - shares.data());
    const std::string prefix =
        shares.size() == 1 ? "" : fmt::format("share{}/", number);
    if (options.emit == Phase::Ptx) {
      for (const auto &[path, text] : TRY(compileToPtx(files)))
        texts[prefix + path] = text;
      continue;
    }
    // Standard output gets only the generated sources. A folder also contains
    // the headers, so that the sources can be compiled there with -I include.
    for (const auto &[path, text] : files.files)
      if (!options.output.empty() || path.ends_with(".cu"))
        texts[prefix + path] = text;
  }
  return writeTexts(options, texts);
}

/// Returns text such as ", ranks 0 to 63", or "" for a package with one rank.
std::string ranksText(const Shares &shares, const Manifest &manifest) {
  const std::vector<int64_t> ranks = ranksOf(manifest);
  if (shares.size() == 1 && ranks.size() == 1)
    return "";
  return ", " + describeRanks(ranks);
}

/// Returns the total bytes of all files in a package.
uint64_t bytesOf(const Shares &shares) {
  uint64_t bytes = 0;
  for (const PackageFiles &share : shares)
    for (const auto &[path, text] : share.files)
      bytes += text.size();
  return bytes;
}

Result<void> writeCompiled(Input &input, const CommandOptions &options,
                           Clock::time_point start) {
  const SignalsInterrupt signals;
  Shares shares = TRY(makeShares(input.get(), options.compile));
  const std::string name = shares.front().manifest.name;
  std::string folder = options.output.empty() ? name + ".moec" : options.output;
  std::vector<std::string> lines;
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  for (const PackageFiles &files : shares)
    for (const Target &target : files.manifest.targets) {
      size_t cubins = 0;
      for (const Kernel &kernel : target.kernels)
        cubins += !kernel.cubin.empty();
      lines.push_back(fmt::format(
          "{}: {} for {}: {} variants, {} kernels, {} cubins{}", folder, name,
          target.arch, target.variants.size(), target.kernels.size(), cubins,
          ranksText(shares, files.manifest)));
      targets.push_back({{"arch", target.arch},
                         {"variants", target.variants.size()},
                         {"kernels", target.kernels.size()},
                         {"cubins", cubins},
                         {"ranks", ranksOf(files.manifest)}});
    }
  const uint64_t bytes = bytesOf(shares);
  return writeShares(std::move(shares), folder, [&] {
    const double seconds = millisecondsSince(start) / 1000;
    if (options.json) {
      const nlohmann::ordered_json made = {{"package", folder},
                                           {"layer", name},
                                           {"targets", targets},
                                           {"bytes", bytes},
                                           {"seconds", seconds}};
      return writeOutput(options, "", made.dump(2) + "\n");
    }
    const std::string total =
        fmt::format("{} in {:.1f} s", bytesText(bytes), seconds);
    if (lines.size() == 1)
      return writeOutput(options, "", fmt::format("{}, {}\n", lines[0], total));
    return writeOutput(
        options, "",
        fmt::format("{}\n{}: {}\n", fmt::join(lines, "\n"), folder, total));
  });
}

/// Writes the layer JSON of the input. Checks first that the JSON can be read
/// as a layer.
Result<void> writeDescription(Input &input, CommandOptions &options) {
  const std::string text =
      TRY(writeLayerJson(TRY(describeFile(options.input, options.import))));
  TRY(input.readText(text, options.input, {}));
  TRY(checkTarget(input, Phase::Layer, options.compile));
  return writeOutput(options, options.output, text);
}

} // namespace

Result<void> moec::compiler::runCompile(const CommandOptions &asked,
                                        mlir::MLIRContext &context) {
  const Clock::time_point start = Clock::now();
  CommandOptions options = asked;
  if (options.json && options.emit != Phase::Package)
    return invalidArgument("--json describes a written package: expected no "
                           "--emit={} with it",
                           options.emitsLayerJson ? "layer-json"
                                                  : phaseName(options.emit));
  TRY(resolveTargets(options.compile));
  Input input(context);
  if (options.emitsLayerJson)
    return writeDescription(input, options);
  TRY(input.readFile(options.input, options.import));
  Phase last = std::min(options.emit, Phase::Scheduled);
  TRY(checkTarget(input, last, options.compile));
  TRY(input.lowerTo(last, options.compile));
  switch (options.emit) {
  case Phase::Cuda:
  case Phase::Ptx:
    return writeSources(input, options);
  case Phase::Package:
    return writeCompiled(input, options, start);
  default: {
    std::string text = print(input.get());
    if (!text.ends_with('\n'))
      text += '\n';
    return writeOutput(options, options.output, text);
  }
  }
}

/// Writes the page for a report. The layer may have been rejected.
static Result<void> writePage(const nlohmann::ordered_json &report,
                              const std::optional<html::NamedText> &bench,
                              const std::string &path) {
  const std::string page = TRY(html::makePage(report.dump(), bench));
  return writeFileAtomically(path, page);
}

/// Returns the report as text. Lines are wrapped on a terminal, or if --brief
/// is given.
static std::string readableText(const nlohmann::ordered_json &report,
                                const CommandOptions &options) {
  constexpr size_t kColumns = 140;
  const std::string text =
      printable(options.brief ? briefText(report) : explainText(report));
  const bool isShown = options.output.empty() && !options.printed &&
                       ::isatty(STDOUT_FILENO) != 0;
  return options.brief || isShown ? wrapped(text, kColumns) : text;
}

/// Reads a report that `moec explain --json` has written.
static Result<nlohmann::ordered_json> readReportFile(const std::string &path) {
  constexpr size_t kMostBytes = size_t(64) << 20;
  const std::string text = TRY(readFile(path, kMostBytes));
  nlohmann::json root = TRY(
      parseJsonObject(text, path, ErrorCode::InvalidArgument, {kMostBytes}));
  if (!root.contains("moec_explain"))
    return invalidArgument("{}: expected a result of moec explain --json "
                           "(moec_explain: 1), got a file without moec_explain",
                           path);
  return nlohmann::ordered_json(root);
}

/// Adds to `report` the reports for the additional GPUs `gpus` and the reports
/// in the files that --compare names.
static Result<void> addCompared(nlohmann::ordered_json &report,
                                const CommandOptions &options,
                                std::span<const std::string> gpus,
                                mlir::MLIRContext &context) {
  nlohmann::ordered_json compared = nlohmann::ordered_json::array();
  for (const std::string &gpu : gpus) {
    CommandOptions other = options;
    other.compile.gpu = gpu;
    TRY(resolveTargets(other.compile));
    Input input(context);
    TRY(input.readFile(other.input, other.import));
    TRY(checkTarget(input, Phase::Scheduled, other.compile));
    compared.push_back(
        {{"name", other.compile.gpu},
         {"report", TRY(input.explain(other.compile, other.explain))}});
  }
  for (const std::string &path : options.compared)
    compared.push_back({{"name", std::filesystem::path(path).stem().string()},
                        {"report", TRY(readReportFile(path))}});
  if (!compared.empty())
    report["compared"] = std::move(compared);
  return {};
}

Result<void> moec::compiler::runExplain(const CommandOptions &asked,
                                        mlir::MLIRContext &context) {
  CommandOptions options = asked;
  // If several GPUs are given, the report is for the first one. The page
  // compares it with the other GPUs.
  std::vector<std::string> gpus = splitWords(options.compile.gpu);
  if (gpus.size() > 1 && options.html.empty())
    return invalidArgument("--gpu: expected one GPU, got {}; several are "
                           "compared on a page (--html=FILE)",
                           gpus.size());
  if (gpus.size() > 1 && options.input == "-")
    return invalidArgument("--gpu: expected one GPU with standard input, got "
                           "{}",
                           gpus.size());
  const CommandOptions each = options;
  if (!gpus.empty()) {
    options.compile.gpu = gpus.front();
    gpus.erase(gpus.begin());
  }
  TRY(resolveTargets(options.compile));
  if (!options.html.empty() && options.html == options.output)
    return invalidArgument("expected two files, got {} for both --html and -o",
                           options.html);
  std::optional<html::NamedText> bench;
  if (!options.bench.empty())
    bench = {options.bench, TRY(readFile(options.bench))};
  Input input(context);
  auto report = [&]() -> Result<nlohmann::ordered_json> {
    TRY(input.readFile(options.input, options.import));
    TRY(checkTarget(input, Phase::Scheduled, options.compile));
    return input.explain(options.compile, options.explain);
  }();
  if (!report) {
    if (!options.html.empty() && report.error().code == ErrorCode::Refused)
      TRY(writePage(refusalJson(input.get(), report.error().message),
                    std::nullopt, options.html));
    return report.takeError();
  }
  if (!options.html.empty()) {
    nlohmann::ordered_json shown = *report;
    TRY(addCompared(shown, each, gpus, context));
    TRY(writePage(shown, bench, options.html));
  }
  return writeOutput(options, options.output,
                     options.json ? report->dump(2) + "\n"
                                  : readableText(*report, options));
}
