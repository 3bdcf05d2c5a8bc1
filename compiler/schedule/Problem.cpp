//===- Problem.cpp - hardware from catalog rows ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only place where the cost model's numbers meet the tables.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Problem.h"

#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Gpus.h"

#include <fmt/format.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

std::string compiler::describe(const Schedule &s) {
  std::string warps =
      s.hasRoles() ? fmt::format("{}+{}", s.producerWarps, s.consumerWarps)
                   : fmt::format("{}x{}", s.warpsM, s.warpsN);
  return fmt::format("{} {}x{}x{} stages {} warps {}{}", s.engine, s.tileM,
                     s.tileN, s.tileK, s.stages, warps,
                     s.hasRoles() && !s.swap ? " of tokens" : "");
}

void Schedule::setRoles(int64_t rowsOfWarpgroup) {
  warpsM = warpsN = 0;
  producerWarps = 4;
  consumerWarps = (swap ? tileN : tileM) * 4 / rowsOfWarpgroup;
  // With a CTA alone on its SM there is room for the producers' addresses of
  // 256 rows; they spill with fewer, and those of 64 rows and their scales do
  // with fewer than 48. Sums of 128 rows take what there is: producers
  // then hand each other the addresses.
  producerRegisters = rowsOfWarpgroup == 128 ? 40 : ctasPerSm == 1 ? 56 : 48;
  int64_t rest = registersOfCta() - 32 * producerWarps * producerRegisters;
  consumerRegisters = std::min<int64_t>(
      rest / std::max<int64_t>(32 * consumerWarps, 1) / 8 * 8, 240);
}

int64_t Schedule::registersOfCta() const {
  int64_t all = std::max<int64_t>(threads() * ctasPerSm, 1);
  return threads() * std::min<int64_t>((64 << 10) / all / 8 * 8, 248);
}

int64_t compiler::takenWeightRows(const MatmulProblem &problem, int64_t tileN) {
  return std::max(tileN, problem.groupColumns * (problem.gated ? 2 : 1));
}

int64_t compiler::mostTilesToSplit(const Hardware &hardware) {
  return hardware.sms / (2 * kSplit);
}

bool compiler::maySplit(const MatmulProblem &problem, const Schedule &schedule,
                        const Hardware &hardware) {
  constexpr int64_t kMostRows = 16, kFewestSteps = 8;
  if (!schedule.swap || !problem.gather || schedule.ctasPerSm != 1 ||
      schedule.tileM > kMostRows || schedule.rowsOfWarpgroup() != 64 ||
      takenWeightRows(problem, schedule.tileN) != schedule.tileN ||
      problem.k < kFewestSteps * schedule.tileK)
    return false;
  // Those that all tokens take: of a rank with some of the experts, one.
  int64_t experts = problem.localExperts < problem.experts ? 1 : problem.topK;
  int64_t columnTiles = (problem.n + schedule.tileN - 1) / schedule.tileN;
  return experts * columnTiles <= mostTilesToSplit(hardware);
}

bool compiler::findHardware(const std::string &arch, const std::string &gpu,
                            Hardware &hardware) {
  const catalog::Architecture *archRow =
      catalog::find(catalog::kArchitectures, arch);
  if (!archRow)
    return false;
  hardware = Hardware();
  hardware.arch = arch;
  hardware.sharedPerBlock = archRow->sharedPerBlock;
  hardware.sharedPerSm = archRow->sharedPerSm;
  hardware.threadsPerSm = archRow->threadsPerSm;
  hardware.ctasPerSm = archRow->blocksPerSm;
  hardware.asyncCopy = archRow->has("cp_async");

  // sm_88 has no GPU of its own in the table: a middling one is assumed.
  hardware.sms = 64;
  hardware.bandwidth = 600e9;
  std::string name(gpu.empty() ? std::string(archRow->gpu) : gpu);
  if (name.empty())
    return true;
  const catalog::Gpu *gpuRow = catalog::find(catalog::kGpus, name);
  if (!gpuRow)
    return false;
  hardware.gpu = name;
  hardware.sms = gpuRow->sms;
  // What was measured says more than what the maker states.
  hardware.bandwidth =
      1e9 * (gpuRow->measuredBandwidth > 0 ? gpuRow->measuredBandwidth
                                           : gpuRow->bandwidth * 0.93);
  hardware.l2Bytes = int64_t(gpuRow->l2 * 1024 * 1024);
  hardware.tensorFlops = gpuRow->matmulRate * 1e12;
  // 128 lanes an SM at about 1.7 GHz.
  hardware.scalarFlops = gpuRow->sms * 128.0 * 2.0 * 1.7e9;
  return true;
}
