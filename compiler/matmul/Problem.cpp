//===- Problem.cpp - hardware properties from catalog rows ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This is the only file that derives the cost model's parameters from the
// catalog tables.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Problem.h"

#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Gpus.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

int64_t compiler::takenWeightRows(const MatmulProblem &problem, int64_t tileN) {
  return std::max(tileN, problem.groupColumns * (problem.gated ? 2 : 1));
}

double MatmulProblem::weightBytes() const {
  const double elements = double(n) * double(k);
  const double bytes =
      codeBits > 0 ? double(codeBits) / 8 : double(elementBytes) * storedShare;
  double scales = 0;
  if (codeBits > 0)
    scales = double(numberBytes) / double(groupK > 0 ? groupK : k);
  if (blockBytes > 0)
    scales = 1.0 / double(blockBytes);
  return elements * (bytes + scales);
}

int64_t compiler::mostTilesToSplit(const Hardware &hardware) {
  return hardware.sms / (2 * kSplit);
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

  // The table has no GPU of arch sm_88, so a mid-range GPU is assumed.
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
  // A measured bandwidth is preferred to the manufacturer's specification.
  hardware.bandwidth =
      1e9 * (gpuRow->measuredBandwidth > 0 && gpuRow->schedulesByMeasured
                 ? gpuRow->measuredBandwidth
                 : gpuRow->bandwidth * 0.93);
  hardware.l2Bytes = int64_t(gpuRow->l2 * 1024 * 1024);
  hardware.tensorFlops = gpuRow->matmulRate * 1e12;
  // Assumes 128 lanes per SM at about 1.7 GHz, and three quarters of the L2
  // cache's peak of 64 bytes per clock and SM.
  constexpr double kClock = 1.7e9;
  hardware.scalarFlops = gpuRow->sms * 128.0 * 2.0 * kClock;
  hardware.l2Bandwidth = gpuRow->sms * 64.0 * 0.75 * kClock;
  return true;
}
