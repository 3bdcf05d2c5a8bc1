//===- CheckHooks.h - what moec-check adds to a run -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_CHECKHOOKS_H
#define MOEC_TEST_CHECK_CHECKHOOKS_H

#include "test/check/CheckOptions.h"
#include "test/check/OccupySms.h"
#include "test/check/SharedDevice.h"
#include "tools/moec-run/RunHooks.h"

#include <optional>

namespace moec::check {

class CheckHooks : public run::RunHooks {
public:
  /// `budget` counts the bytes of weights; null where nothing runs beside.
  CheckHooks(DeviceTurn &turn, WeightBudget *budget)
      : turn(turn), budget(budget) {}

  /// The options of the next run, which must live as long as it.
  void begin(const CheckOptions &next) { options = &next; }

  bool releaseDevice() override;
  void acquireDevice() override { turn.take(); }
  void reserveWeights(int64_t bytes) override;
  void releaseWeights(int64_t bytes) override;
  Result<void> checkUsage(const run::LoadedLayer &layer) override {
    return checkInputs(options->inputs, layer);
  }
  Result<void> prepare(const run::HostWeights &weights, run::LoadedLayer &layer,
                       bool fresh, run::RunReport &report) override;
  bool checksCases() const override;
  Result<void> check(const run::FinishedCase &finished,
                     run::CaseResult &result) override;
  void finish() override;

private:
  DeviceTurn &turn;
  WeightBudget *budget;
  const CheckOptions *options = nullptr;
  std::unique_ptr<run::LoadedLayer>
      against;                     ///< the package that --against names
  std::optional<OccupySms> occupy; ///< for --chain
};

} // namespace moec::check

#endif // MOEC_TEST_CHECK_CHECKHOOKS_H
