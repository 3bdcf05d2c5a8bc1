//===- CudaBackend.cpp - writes package files -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel's entry name contains a hash of its source. The kernel names in a
// profile can therefore be found in a package, and kernels with equal entry
// names are equal.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/CudaBackend.h"

#include "compiler/emit/ManifestWriter.h"
#include "compiler/emit/TemplateLibrary.h"
#include "compiler/kernels/Emission.h"
#include "compiler/kernels/Pack.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Window.h"
#include "runtime/package/KernelText.h"
#include "runtime/support/Sha256.h"

#include "llvm/ADT/MapVector.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

/// Maximum bytes of scratch memory for a packing step, unless one expert needs
/// more.
static constexpr int64_t kPackScratchBytes = 64 << 20;
static constexpr std::string_view kPackScratch = "pack_scratch";

namespace {
class PackageWriter {
public:
  /// Writes the package of one layer, given one program per target.
  Result<PackageFiles> write(llvm::ArrayRef<moe::ProgramOp> programs,
                             std::string_view version);

private:
  Result<void> addTarget(moe::ProgramOp program);
  Result<void> addKernel(Target &target, const std::string &name,
                         const EmittedKernel &emitted);
  Result<void> addPacks(Target &target, moe::ProgramOp program);

  PackageFiles package;
};
} // namespace

Result<void> PackageWriter::addKernel(Target &target, const std::string &name,
                                      const EmittedKernel &emitted) {
  std::string stem = fmt::format("moec_{}_{}", emitted.kind, emitted.scheme);
  if (!emitted.tile.empty())
    stem += "_" + emitted.tile;
  // The hash includes the arch, so that an entry name identifies one cubin.
  std::string hash = sha256(target.arch + "\n" + emitted.text.source(stem));
  // Kernels with equal text need different entry names if they are bound to
  // different values.
  const auto isTaken = [&](const Kernel &other) {
    return other.entry == stem + "_" + hash.substr(0, 8);
  };
  if (std::ranges::any_of(target.kernels, isTaken))
    hash = sha256(name + "\n" + hash);
  Kernel kernel;
  kernel.name = name;
  kernel.entry = stem + "_" + hash.substr(0, 8);
  kernel.source = fmt::format("{}/{}.cu", target.arch, name);
  kernel.options = kernelOptions(target.arch);
  kernel.threads = emitted.text.threads;
  kernel.sharedBytes = emitted.text.sharedBytes;
  kernel.cluster = emitted.cluster;
  kernel.minCtasPerSm = emitted.text.minCtasPerSm;
  kernel.cooperative = emitted.cooperative;
  kernel.programmatic = emitted.programmatic;
  kernel.arguments = emitted.text.arguments.block();
  kernel.stages = emitted.stages;

  std::string source = emitted.text.source(kernel.entry);
  kernel.headers = TRY(includeClosure(source));
  for (const std::string &header : kernel.headers)
    package.files[headerPath(header)] = std::string(*findTemplate(header));
  package.files[kernel.source] = std::move(source);
  for (const TensorMap &map : emitted.tensorMaps)
    if (std::ranges::none_of(target.tensorMaps, [&](const TensorMap &m) {
          return m.name == map.name;
        }))
      target.tensorMaps.push_back(map);
  target.kernels.push_back(std::move(kernel));
  return {};
}

Result<void> PackageWriter::addPacks(Target &target, moe::ProgramOp program) {
  const std::string scratchName(kPackScratch);
  std::vector<std::pair<EmittedPack, int64_t>> packs;
  // Adds a pack of the weight `of`. The first extent of the weight is the
  // number of experts.
  const auto add = [&](EmittedPack pack, mlir::Value of) {
    packs.emplace_back(
        std::move(pack),
        mlir::cast<mlir::RankedTensorType>(of.getType()).getDimSize(0));
  };
  // The column orders come first, because packing reads them.
  for (auto op : program.getBody().getOps<moe::PackOrderOp>())
    add(emitPackOrder(op), op.getIndex());
  for (auto op : program.getBody().getOps<moe::QuantizeWeightsOp>())
    for (EmittedPack &pack : emitQuantizeWeights(op, scratchName))
      add(std::move(pack), op.getSource());
  // Packing may read the results of the steps above.
  for (auto op : program.getBody().getOps<moe::PackOp>())
    add(emitPack(op, scratchName), op.getSource());
  int64_t scratchBytes = 0;
  for (const auto &[emittedPack, experts] : packs) {
    const int64_t bytes = emittedPack.scratchBytes;
    Pack pack;
    pack.result = emittedPack.result;
    pack.from = emittedPack.from;
    pack.inPlace = emittedPack.inPlace;
    pack.totalExperts = experts;
    pack.expertsPerStep = experts;
    if (bytes > 0) {
      pack.expertsPerStep =
          std::clamp<int64_t>(kPackScratchBytes / bytes, 1, experts);
      pack.scratch = kPackScratch;
      pack.scratchBytes = Expression::symbol("experts") * Expression(bytes);
      scratchBytes = std::max(scratchBytes, pack.expertsPerStep * bytes);
    }
    for (const EmittedKernel &emitted : emittedPack.kernels) {
      std::string name = emittedPack.name + "_" + emitted.kind;
      TRY(addKernel(target, name, emitted));
      Launch launch;
      launch.kernel = name;
      launch.grid = emitted.grid;
      pack.launches.push_back(std::move(launch));
    }
    target.pack.push_back(std::move(pack));
  }
  if (scratchBytes == 0)
    return {};
  Value scratch;
  scratch.name = kPackScratch;
  scratch.role = ValueRole::Workspace;
  scratch.elementTypes = {"i8"};
  scratch.shape = {Expression(scratchBytes)};
  scratch.alignment = 256;
  target.values.push_back(std::move(scratch));
  return {};
}

Result<void> PackageWriter::addTarget(moe::ProgramOp program) {
  Target target = beginTarget(program);
  target.values = targetValues(program);
  TRY(addWindow(program, target));
  *target.report = reportJson(program);

  std::map<std::string, moe::LaunchOp> launches;
  program.walk([&](moe::LaunchOp launch) {
    launches.emplace(launch.getKernel().str(), launch);
  });
  std::map<std::string, Grid> grids;
  for (auto kernel : program.getBody().getOps<moe::KernelOp>()) {
    std::string name = kernel.getSymName().str();
    auto launch = launches.find(name);
    // Kernels that no variant launches are omitted.
    if (launch == launches.end())
      continue;
    auto emitted = TRY(emitKernel(kernel, launch->second));
    emitted.text.arguments.mapSizes(
        [&](const Expression &size) { return sizeIn(kernel, size); });
    for (TensorMap &map : emitted.tensorMaps)
      for (std::vector<Expression> *sizes : {&map.extents, &map.strides})
        for (Expression &size : *sizes)
          size = sizeIn(kernel, size);
    grids.emplace(name, emitted.grid);
    TRY(addKernel(target, name, emitted));
  }
  TRY(addPacks(target, program));
  for (auto op : program.getBody().getOps<moe::VariantOp>()) {
    target.variants.push_back(TRY(writeVariant(op, grids)));
  }
  package.manifest.targets.push_back(std::move(target));
  return {};
}

Result<PackageFiles>
PackageWriter::write(llvm::ArrayRef<moe::ProgramOp> programs,
                     std::string_view version) {
  Manifest &manifest = package.manifest;
  manifest.compiler = version;
  moe::ProgramOp first = programs.front();
  describeLayer(first, manifest);
  manifest.maxTokens = first.getMaxTokens();
  manifest.rows = rowCapacity(first);
  llvm::raw_string_ostream(package.files[std::string(kLayerFile)])
      << first.getLayerOp() << "\n";
  for (moe::ProgramOp program : programs) {
    if (int64_t(program.getMaxTokens()) != manifest.maxTokens)
      return refused(
          "all targets of a package have one max_tokens, got {} and {}",
          manifest.maxTokens, int64_t(program.getMaxTokens()));
    TRY(addTarget(program));
  }
  hashFiles(package);
  if (auto valid = validate(package); !valid)
    return Error{ErrorCode::Internal,
                 "the emitted manifest is not valid: " + valid.error().message};
  return std::move(package);
}

/// Checks that the packages are shares of one layer for different ranks, so
/// that they can form one package.
static Result<void> checkAreShares(const Shares &shares) {
  std::vector<int64_t> ranks;
  for (const PackageFiles &share : shares) {
    if (share.manifest.name != shares.front().manifest.name)
      return refused("a package holds one layer, and the module has programs "
                     "of '{}' and of '{}'; compile them one by one",
                     shares.front().manifest.name, share.manifest.name);
    for (const RankFacts &facts : share.manifest.ranks) {
      if (std::ranges::find(ranks, facts.rank) != ranks.end())
        return refused(
            "a rank is of one share, and rank {} of layer '{}' is of "
            "two",
            facts.rank, share.manifest.name);
      ranks.push_back(facts.rank);
    }
  }
  return {};
}

Result<Shares> compiler::emitCudaShares(mlir::ModuleOp module,
                                        std::string_view version) {
  llvm::MapVector<StringRef, llvm::SmallVector<moe::ProgramOp>> layers;
  for (auto program : module.getOps<moe::ProgramOp>())
    layers[program.getLayer()].push_back(program);
  if (layers.empty())
    return refused(
        "the module holds no program; give at least one arch (--arch=sm_90a)");
  Shares shares;
  for (const auto &[layer, programs] : layers)
    shares.push_back(TRY(PackageWriter().write(programs, version)));
  TRY(checkAreShares(shares));
  return shares;
}
