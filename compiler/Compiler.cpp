//===- Compiler.cpp - the compiler's interface ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collects diagnostics into Errors, runs the pipeline and passes kernels to
// NVRTC. The passes decide which layers are rejected.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"

#include "compiler/emit/CudaBackend.h"
#include "compiler/passes/Pipeline.h"
#include "compiler/plan/TunedStore.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/jit/CompilePool.h"
#include "runtime/support/Words.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <fmt/core.h>

using namespace moec;
using namespace moec::compiler;

namespace {
struct PhaseRow {
  Phase phase;
  std::string_view name;
};

/// Collects the errors of a scope, with their source locations.
class ErrorCollector {
public:
  explicit ErrorCollector(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            add(diagnostic);
          return mlir::success();
        }) {}

  Error take(ErrorCode code, std::string_view fallback) {
    return Error{code, text.empty() ? std::string(fallback) : text};
  }

private:
  void add(mlir::Diagnostic &diagnostic) {
    if (!text.empty())
      text += "\n";
    if (auto place =
            diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>())
      text += fmt::format("{}:{}:{}: ", place.getFilename().str(),
                          place.getLine(), place.getColumn());
    text += diagnostic.str();
  }
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};
} // namespace

static constexpr PhaseRow kPhases[] = {
    {Phase::Layer, "layer"},     {Phase::Stages, "stages"},
    {Phase::Kernels, "kernels"}, {Phase::Scheduled, "scheduled"},
    {Phase::Cuda, "cuda"},       {Phase::Ptx, "ptx"},
    {Phase::Package, "package"},
};

std::optional<Phase> compiler::parsePhase(std::string_view name) {
  for (const PhaseRow &row : kPhases)
    if (row.name == name)
      return row.phase;
  return std::nullopt;
}

std::string_view compiler::phaseName(Phase phase) {
  for (const PhaseRow &row : kPhases)
    if (row.phase == phase)
      return row.name;
  return "";
}

std::vector<std::string> compiler::phaseNames() {
  std::vector<std::string> names;
  for (const PhaseRow &row : kPhases)
    names.emplace_back(row.name);
  return names;
}

std::string_view compiler::compilerVersion() { return "moec " MOEC_VERSION; }

void compiler::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<moe::MoeDialect>();
}

Result<mlir::OwningOpRef<mlir::ModuleOp>>
compiler::parse(std::string_view text, std::string_view name,
                mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  ErrorCollector errors(&context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      llvm::StringRef(text), mlir::ParserConfig(&context),
      llvm::StringRef(name));
  if (!module)
    return errors.take(ErrorCode::InvalidArgument,
                       fmt::format("{}: expected a module", name));
  return module;
}

/// Breaks a line of printed IR that is longer than 400 characters into lines of
/// about 120. Breaks only after commas outside of string literals.
static std::string broken(llvm::StringRef line) {
  constexpr size_t kLongest = 400, kColumns = 120;
  if (line.size() <= kLongest)
    return line.str();
  const std::string indent(line.size() - line.ltrim().size() + 4, ' ');
  std::string made;
  size_t begin = 0, blank = 0;
  bool quoted = false;
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '"' && line[i - 1] != '\\')
      quoted = !quoted;
    if (line[i] == ' ' && line[i - 1] == ',' && !quoted)
      blank = i;
    if (i - begin < kColumns || blank <= begin + indent.size())
      continue;
    made += line.slice(begin, blank).str() + "\n" + indent;
    begin = blank + 1;
  }
  return made + line.substr(begin).str();
}

std::string compiler::print(mlir::ModuleOp module) {
  std::string text, lines;
  llvm::raw_string_ostream(text) << *module.getOperation();
  for (llvm::StringRef line : llvm::split(text, '\n'))
    lines += broken(line) + "\n";
  return lines;
}

/// Checks that the token count and GPU that the caller requests are those for
/// which the programs of the input were compiled.
static Result<void> checkPrograms(mlir::ModuleOp module,
                                  const CompileOptions &options) {
  const auto disagrees = [](moe::ProgramOp program, const std::string &asked,
                            const std::string &has) {
    return invalidArgument("{} does not fit program @{}, which was compiled "
                           "for {}; compile the layer again to ask for another",
                           asked, program.getSymName().str(), has);
  };
  const bool asksGpu = !options.gpu.empty() && !options.foundGpu;
  const auto *gpu =
      asksGpu ? catalog::find(catalog::kGpus, options.gpu) : nullptr;
  const auto *device =
      gpu ? catalog::find(catalog::kArchitectures, gpu->arch) : nullptr;
  for (auto program : module.getOps<moe::ProgramOp>()) {
    const moe::TargetAttr target = program.getTarget();
    if (options.asksMaxTokens && program.getMaxTokens() != options.maxTokens)
      return disagrees(program, fmt::format("max_tokens {}", options.maxTokens),
                       fmt::format("{}", program.getMaxTokens()));
    // If several archs are requested, only programs whose arch the GPU runs are
    // checked.
    const bool isFor =
        device &&
        (options.archs.empty() ||
         catalog::runsOn(target.getArchRow(), device->major, device->minor));
    if (isFor && target.getGpu() != options.gpu)
      return disagrees(program, fmt::format("gpu {}", options.gpu),
                       fmt::format("{} of {}", target.getGpu().str(),
                                   target.getArch().str()));
  }
  return {};
}

/// Returns true if the pipeline has to choose a schedule for at least one
/// matmul. Either a matmul of the input has no schedule yet, or programs for
/// further archs will be added.
static bool takesSchedules(mlir::ModuleOp module,
                           const CompileOptions &options) {
  std::vector<std::string> archs;
  for (auto program : module.getOps<moe::ProgramOp>())
    archs.push_back(program.getTarget().getArch().str());
  const bool addsPrograms =
      archs.empty() || !std::ranges::all_of(options.archs, [&](const auto &a) {
        return std::ranges::find(archs, a) != archs.end();
      });
  return addsPrograms || module
                             .walk([](moe::GroupedMatmulOp matmul) {
                               auto kernel =
                                   matmul->getParentOfType<moe::KernelOp>();
                               return kernel && kernel.getSchedule()
                                          ? mlir::WalkResult::advance()
                                          : mlir::WalkResult::interrupt();
                             })
                             .wasInterrupted();
}

/// Checks the options, including names of table rows, before attributes are
/// created from them.
static Result<void> checkNames(mlir::ModuleOp module,
                               const CompileOptions &options) {
  auto invalid = [](std::string message) {
    return Error{ErrorCode::InvalidArgument, std::move(message)};
  };
  for (const std::string &arch : options.archs)
    if (!catalog::find(catalog::kArchitectures, arch))
      return invalid(unknownWord("arch", arch,
                                 catalog::nameList(catalog::kArchitectures)));
  if (!options.gpu.empty() && !catalog::find(catalog::kGpus, options.gpu))
    return invalid(
        unknownWord("GPU", options.gpu, catalog::nameList(catalog::kGpus)));
  if (options.maxTokens < 1)
    return invalid(fmt::format("expected max_tokens of at least 1, got {}",
                               options.maxTokens));
  TRY(checkChoices(options));
  TRY(checkPrograms(module, options));
  if (!options.tunedFile.empty() && !takesSchedules(module, options))
    return invalid(fmt::format("expected no file of measured schedules, since "
                               "each matmul of the input has its schedule, got "
                               "'{}'",
                               options.tunedFile));
  for (auto layer : module.getOps<moe::LayerOp>())
    if (layer.getPart() && !options.tunedFile.empty())
      return invalid(
          fmt::format("expected no file of measured schedules with part '{}', "
                      "which has {}, "
                      "got '{}'",
                      layer.getPart()->str(),
                      layer.hasMatmul() ? "one of two matmuls" : "no matmul",
                      options.tunedFile));
  bool hasLayer = !module.getOps<moe::LayerOp>().empty();
  bool hasProgram = !module.getOps<moe::ProgramOp>().empty();
  if (!hasLayer)
    return invalid("the module holds no moe.layer");
  if (options.archs.empty() && !hasProgram)
    return invalid(
        "no arch is given; expected one, such as sm_90a (`moec list archs`)");
  return {};
}

/// Returns the caller's file, which must be valid, followed by the files of the
/// user's store.
static std::vector<std::string> tunedFilesOf(const CompileOptions &options) {
  std::vector<std::string> files;
  if (!options.tunedFile.empty())
    files.push_back(options.tunedFile);
  if (options.tunedStore)
    for (const std::string &file : readableStore(options.cacheFolder))
      files.push_back(file);
  return files;
}

Result<void> compiler::lower(mlir::ModuleOp module, Phase phase,
                             const CompileOptions &options) {
  // A layer does not depend on targets, so stopping there requires no valid
  // target.
  bool stopsAtLayer = phase == Phase::Layer;
  if (auto named = checkNames(module, options); !named && !stopsAtLayer)
    return named;
  mlir::MLIRContext *context = module.getContext();
  ErrorCollector errors(context);
  PipelineOptions pipeline = options;
  pipeline.tunedFiles = tunedFilesOf(options);
  pipeline.checkPrograms = !module.getOps<moe::ProgramOp>().empty();
  mlir::PassManager manager(context, mlir::ModuleOp::getOperationName());
  buildPipeline(manager, pipeline, std::min(phase, Phase::Scheduled));
  if (options.printIrAfterAll)
    manager.enableIRPrinting(
        [](mlir::Pass *, mlir::Operation *) { return false; },
        [](mlir::Pass *, mlir::Operation *) { return true; },
        /*printModuleScope=*/false, /*printAfterOnlyOnChange=*/false);
  if (options.timePasses)
    manager.enableTiming();
  if (!options.crashReproducer.empty())
    manager.enableCrashReproducerGeneration(options.crashReproducer);
  if (mlir::failed(manager.run(module)))
    return errors.take(ErrorCode::Refused, "a pass failed without a reason");
  return {};
}

Result<Shares> compiler::emitShares(mlir::ModuleOp module) {
  return emitCudaShares(module, compilerVersion());
}

/// Returns the only share of the layer, or an error if there are several.
static Result<PackageFiles> oneOf(Shares shares) {
  if (shares.size() > 1)
    return refused("the ranks of layer '{}' have shares of {} sizes; expected "
                   "one rank here (--rank)",
                   shares.front().manifest.name, shares.size());
  return std::move(shares.front());
}

Result<PackageFiles> compiler::emit(mlir::ModuleOp module) {
  return oneOf(TRY(emitShares(module)));
}

Result<void> compiler::addCubins(PackageFiles &files,
                                 const CompileOptions &options) {
  runtime::CompileSettings settings;
  if (!options.cacheFolder.empty())
    settings.cacheFolder = options.cacheFolder;
  settings.usePackageCubins = false;
  for (Target &target : files.manifest.targets) {
    auto outcome = TRY(runtime::compileKernels(files, target, settings));
    for (size_t i = 0; i < target.kernels.size(); ++i) {
      Kernel &kernel = target.kernels[i];
      kernel.cubin = fmt::format("{}/{}.cubin", target.arch, kernel.name);
      files.files[kernel.cubin] = std::move(outcome.kernels[i].cubin);
    }
  }
  hashFiles(files);
  return validate(files);
}

Result<Shares> compiler::compileShares(mlir::ModuleOp module,
                                       const CompileOptions &options) {
  TRY(lower(module, Phase::Scheduled, options));
  return makeShares(module, options);
}

Result<PackageFiles> compiler::compile(mlir::ModuleOp module,
                                       const CompileOptions &options) {
  return oneOf(TRY(compileShares(module, options)));
}

Result<Shares> compiler::makeShares(mlir::ModuleOp module,
                                    const CompileOptions &options) {
  Shares shares = TRY(emitShares(module));
  for (PackageFiles &files : shares)
    if (options.cubins)
      TRY(addCubins(files, options));
  return shares;
}

Result<std::map<std::string, std::string>>
compiler::compileToPtx(const PackageFiles &files) {
  std::map<std::string, std::string> texts;
  for (const Target &target : files.manifest.targets)
    for (const Kernel &kernel : target.kernels)
      texts[fmt::format("{}/{}.ptx", target.arch, kernel.name)] =
          TRY(runtime::compileKernelToPtx(files, target, kernel));
  return texts;
}
