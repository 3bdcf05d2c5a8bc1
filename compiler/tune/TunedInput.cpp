//===- TunedInput.cpp - a layer whose schedules are tuned -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each compilation has its own MLIR context, so that threads can compile
// concurrently.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/TunedInput.h"

#include "compiler/Input.h"
#include "compiler/plan/Embedded.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "runtime/support/Files.h"
#include "runtime/support/Progress.h"
#include "runtime/support/Sha256.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <set>

using namespace moec;
using namespace moec::compiler;

static moe::ProgramOp programOf(Input &input) {
  return *input.get().getOps<moe::ProgramOp>().begin();
}

/// Returns the kernels of a variant in launch order.
static std::vector<moe::KernelOp> kernelsOf(moe::VariantOp variant) {
  std::vector<moe::KernelOp> kernels;
  for (auto launch : variant.getBody().getOps<moe::LaunchOp>())
    kernels.push_back(launch.getKernelOp());
  return kernels;
}

static std::string hashOfTemplates() {
  Sha256 hash;
  for (const EmbeddedFile &file : embeddedTemplates()) {
    hash.update(file.name);
    hash.update(file.text);
  }
  constexpr size_t kDigits = 12;
  return hash.finish().substr(0, kDigits);
}

Result<void> TunedInput::read(Input &input) const {
  return source.text
             ? input.readText(*source.text,
                              source.path.empty() ? "<config>" : source.path,
                              import)
             : input.readFile(source.path, import);
}

Result<TunedInput> TunedInput::open(const TuneSource &source,
                                    const ImportOptions &import,
                                    const CompileOptions &compile) {
  TunedInput made;
  const std::string &path = source.path;
  made.source = source, made.import = import, made.options = compile;
  made.options.tunedStore = false;
  made.options.tunedFile.clear();
  made.options.cubins = false;
  made.cubins = compile.cubins;
  if (!source.text && isPackage(path))
    made.source = TRY(layerOfPackage(path, made.options));
  const CompileOptions &options = made.options;
  if (options.archs.size() != 1)
    return refused("expected one --arch, that of the GPU that measures; got {}",
                   options.archs.size());
  if (path == "-")
    return refused(
        "expected a file, which is read once for each candidate, got "
        "standard input");
  Input input;
  TRY(made.read(input));
  if (!input.get().getOps<moe::ProgramOp>().empty())
    return refused("'{}' holds a program; expected a layer, which is compiled "
                   "with each candidate",
                   path);
  TRY(input.lowerTo(Phase::Layer, made.options));
  auto layers = llvm::to_vector(input.get().getOps<moe::LayerOp>());
  if (layers.size() != 1)
    return refused("expected one layer, got {}", layers.size());
  moe::LayerOp layer = layers.front();
  made.layerName = layer.getSymName().str();
  if (layer.getPart())
    return refused("part '{}' has {}; schedules are tuned for both together",
                   layer.getPart()->str(),
                   layer.hasMatmul() ? "one of two matmuls" : "no matmul");
  if (!findHardware(options.archs.front(), options.gpu, made.itsHardware))
    return refused("arch '{}' and GPU '{}' are no pair of the catalog "
                   "(moec list gpus)",
                   options.archs.front(), options.gpu);
  TRY(input.lowerTo(Phase::Stages, made.options));
  // At this point the realization is chosen, as in a package.
  std::string text;
  llvm::raw_string_ostream(text) << *input.get().getOps<moe::LayerOp>().begin();
  if (programOf(input).getBatchInvariant())
    return refused("a batch-invariant layer has one schedule for all token "
                   "counts; rows for only some token counts cannot be used");
  made.itsCommit = fmt::format("{} {}", compilerVersion(), hashOfTemplates());
  constexpr size_t kDigits = 16;
  made.itsDigest =
      sha256(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", text,
                         made.itsCommit, options.archs.front(),
                         made.itsHardware.gpu, options.backend, options.engine,
                         fmt::join(options.exclude, ","),
                         fmt::join(options.allow, ","), options.maxTokens))
          .substr(0, kDigits);
  return made;
}

/// Returns the variant that runs `tokens` tokens on this GPU.
static moe::VariantOp variantFor(moe::ProgramOp program, int64_t tokens,
                                 const Hardware &hardware) {
  for (auto variant : program.getBody().getOps<moe::VariantOp>())
    if (int64_t(variant.getMinTokens()) <= tokens &&
        tokens <= int64_t(variant.getMaxTokens()) &&
        int64_t(variant.getMultiprocessors().value_or(0)) <= hardware.sms)
      return variant;
  return {};
}

Result<DefaultChoice> TunedInput::defaultFor(int64_t tokens) const {
  Input input;
  TRY(read(input));
  TRY(input.lowerTo(Phase::Scheduled, options));
  moe::VariantOp variant = variantFor(programOf(input), tokens, itsHardware);
  if (!variant)
    return invalidArgument("expected --tokens up to {}, got {}",
                           options.maxTokens, tokens);
  DefaultChoice choice;
  choice.variant = variant.getSymName().str();
  SchedulePair found;
  int matmuls = 0;
  for (moe::KernelOp kernel : kernelsOf(variant)) {
    if (auto permute = findStage<moe::PermuteOp>(kernel))
      choice.tileRows = permute.getTileRows();
    if (auto batch = findStage<moe::BatchOp>(kernel))
      choice.tileRows = batch.getTileRows();
    if (kernel.getKind() != "grouped_matmul" || isOfSharedRows(kernel))
      continue;
    Schedule s = *kernel.getScheduleAttr().getMatmul();
    s.source = "tuned", s.programmatic = false, s.cluster.clear();
    (findStage<moe::GroupedMatmulOp>(kernel).isFirst() ? found.first
                                                       : found.second) = s;
    ++matmuls;
  }
  if (matmuls == 2)
    choice.schedules = found;
  return choice;
}

Result<TunedLayer> TunedInput::problemsFor(const TokenRange &range,
                                           int64_t tileRows) const {
  Input input;
  TRY(read(input));
  CompileOptions asked = options;
  asked.tunedRanges = {printGivenRange({range.first, range.last, tileRows, 0})};
  TRY(input.lowerTo(Phase::Kernels, asked));
  moe::ProgramOp program = programOf(input);
  moe::VariantOp variant = variantFor(program, range.tokens, itsHardware);
  TunedLayer layer;
  int matmuls = 0;
  for (moe::KernelOp kernel : kernelsOf(variant)) {
    if (kernel.getKind() != "grouped_matmul" || isOfSharedRows(kernel))
      continue;
    auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
    const bool first = matmul.isFirst();
    const auto problem = tiledProblem(kernel);
    if (mlir::failed(problem))
      return refused("the kernels have no tiles of {} rows", tileRows);
    (first ? layer.first : layer.second) = *problem;
    (first ? layer.engines : layer.secondEngines) =
        servingEngines(program.getReportAttr(), matmul);
    ++matmuls;
  }
  if (matmuls != 2)
    return refused(
        "the layer has no two grouped matmuls on {}, whose schedules "
        "could be tuned",
        options.archs.front());
  return layer;
}

std::string TunedInput::today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday);
}

std::vector<TunedRow> TunedInput::rowsFor(const TokenRange &range,
                                          const TunedLayer &layer,
                                          const SchedulePair &candidate) const {
  std::vector<TunedRow> rows;
  for (const auto &[problem, schedule] :
       {std::pair(&layer.first, &candidate.first),
        std::pair(&layer.second, &candidate.second)}) {
    TunedRow row;
    row.gpu = itsHardware.gpu;
    row.first = range.first, row.last = range.last, row.tokens = range.tokens;
    row.n = problem->n, row.k = problem->k;
    row.experts = problem->localExperts, row.pairs = problem->pairs;
    row.elementType = problem->elementType, row.scheme = problem->scheme;
    row.gated = problem->gated, row.gather = problem->gather;
    row.schedule = *schedule;
    // A placeholder until the row is measured.
    row.microseconds = 1;
    row.date = today();
    row.commit = itsCommit;
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<void> compiler::keepVariant(PackageFiles &files, size_t index) {
  Target &target = files.manifest.targets.front();
  Variant kept = target.variants.at(index);
  kept.minTokens = 1, kept.minSms = 0;
  files.manifest.maxTokens = kept.maxTokens;
  std::set<std::string> needed, sources;
  for (const Launch &launch : kept.launches)
    needed.insert(launch.kernel);
  for (const Pack &pack : target.pack)
    for (const Launch &launch : pack.launches)
      needed.insert(launch.kernel);
  target.variants = {std::move(kept)};
  std::erase_if(target.kernels, [&](const Kernel &kernel) {
    return !needed.contains(kernel.name);
  });
  for (const Kernel &kernel : target.kernels)
    sources.insert(kernel.source);
  std::erase_if(files.files, [&](const auto &file) {
    return file.first.ends_with(".cu") && !sources.contains(file.first);
  });
  hashFiles(files);
  return validate(files);
}

/// Checks that the kernels of the variant use the schedules of the rows.
static Result<void> checkTaken(const PackageFiles &files,
                               const std::vector<TunedRow> &rows) {
  const Target &target = files.manifest.targets.front();
  const auto &schedules = target.report->at("schedules");
  size_t taken = 0;
  for (const Launch &launch : target.variants.front().launches) {
    const auto &its = schedules.value(launch.kernel, nlohmann::json::object());
    if (its.value("source", "") == "tuned" && its.contains("measured_by"))
      ++taken;
  }
  if (rows.empty() || taken == rows.size())
    return {};
  return refused("the compiler does not take the schedule for these tokens");
}

Result<void> TunedInput::build(int64_t tokens,
                               const std::vector<TunedRow> &rows,
                               const std::string &folder) const {
  CompileOptions asked = options;
  if (!rows.empty()) {
    asked.tunedFile = folder + ".json";
    TRY(writeFileAtomically(asked.tunedFile, printTuned(rows)));
  }
  const QuietProgress quiet;
  Input input;
  TRY(read(input));
  Shares shares = TRY(input.compile(asked));
  if (shares.size() != 1 || shares.front().manifest.ranks.size() != 1)
    return refused("the layer has shares for several ranks; expected one rank "
                   "(--rank)");
  PackageFiles &files = shares.front();
  const Target &target = files.manifest.targets.front();
  size_t index = 0;
  while (index < target.variants.size() &&
         !(target.variants[index].minTokens <= tokens &&
           tokens <= target.variants[index].maxTokens &&
           target.variants[index].minSms <= itsHardware.sms))
    ++index;
  if (index == target.variants.size())
    return invalidArgument("expected --tokens up to {}, got {}",
                           files.manifest.maxTokens, tokens);
  TRY(keepVariant(files, index));
  TRY(checkTaken(files, rows));
  if (cubins)
    TRY(addCubins(files, asked));
  return writePackage(std::move(files), folder);
}
