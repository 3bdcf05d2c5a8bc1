//===- SelectSchedule.cpp - how each kernel does its work -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matmul takes what was measured on this GPU for this shape, else what is
// known to be good, else what the cost model ranks first. The other kernels
// have a fixed shape that depends on sizes alone. Schedules that are already
// there are judged as those that are made here.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Slices.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Tuned.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/core.h>

#include <algorithm>

namespace moec::compiler {
#define GEN_PASS_DEF_SELECTSCHEDULEPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {
struct SelectSchedule : compiler::impl::SelectSchedulePassBase<SelectSchedule> {
  using SelectSchedulePassBase::SelectSchedulePassBase;

  void runOnOperation() override {
    moe::ProgramOp program = getOperation();
    served.reset();
    for (auto kernel : program.getBody().getOps<moe::KernelOp>())
      if (failed(kernel.getSchedule() ? verify(program, kernel)
                                      : select(program, kernel)))
        return signalPassFailure();
  }

  static LogicalResult hardwareOf(moe::ProgramOp program, moe::KernelOp kernel,
                                  Hardware &hardware) {
    moe::TargetAttr target = program.getTarget();
    if (!findHardware(target.getArch().str(), target.getGpu().str(), hardware))
      return kernel.emitError() << "no hardware is known for " << target;
    return success();
  }

  /// Measured schedules: those of the files, then those built in.
  LogicalResult readRows(Operation *op) {
    if (tunedRead)
      return success();
    tunedRead = true;
    auto all = readTuned(std::vector<std::string>(tuned.begin(), tuned.end()));
    if (!all)
      return op->emitError() << all.error().message;
    rows = std::move(*all);
    return success();
  }

  /// The ranges that MakeVariants makes of the rows, so that a variant gets the
  /// schedules of the pair that made it.
  ArrayRef<ServedRange> servedBy(moe::ProgramOp program,
                                 const Hardware &hardware) {
    if (served)
      return *served;
    served.emplace();
    MatmulProblem problems[2];
    Engines engines[2];
    for (auto variant : program.getBody().getOps<moe::VariantOp>())
      for (auto launch : variant.getBody().getOps<moe::LaunchOp>()) {
        if (launch.getKernelOp().getKind() != "grouped_matmul" ||
            isOfSharedRows(launch.getOperation()))
          continue;
        auto matmul = findStage<moe::GroupedMatmulOp>(launch.getKernelOp());
        const int index = matmul.isFirst() ? 0 : 1;
        problems[index] = problemOfStages(matmul);
        engines[index] = servingEngines(program.getReportAttr(), matmul);
      }
    *served = servedRanges(rows, problems[0], engines[0], problems[1],
                           engines[1], hardware, program.getMaxTokens());
    return *served;
  }

  /// Says at the kernel which row serves it, or that rows of other token counts
  /// do not.
  void noteRows(moe::KernelOp kernel, const MatmulProblem &problem,
                const Hardware &hardware, const TunedRow *row) {
    const auto note = [&](StringRef name, const std::string &text) {
      if (!text.empty())
        kernel->setAttr(name, StringAttr::get(&getContext(), text));
    };
    if (!row)
      return note(kMeasuredBeside, rangesBeside(rows, problem, hardware));
    std::string text = row->origin;
    if (row->hasRange())
      text += fmt::format(", {} to {} tokens", row->first,
                          lastWithSchedule(rows, *row, problem, hardware.gpu));
    note(kMeasuredBy, text);
  }

  FailureOr<moe::ScheduleAttr> selectMatmul(moe::ProgramOp program,
                                            moe::KernelOp kernel,
                                            moe::GroupedMatmulOp matmul) {
    moe::ReportAttr report = program.getReportAttr();
    Hardware hardware;
    const FailureOr<MatmulProblem> problem = tiledProblem(kernel);
    if (failed(hardwareOf(program, kernel, hardware)) || failed(problem) ||
        failed(readRows(kernel)))
      return failure();
    Engines engines = servingEngines(report, matmul);
    std::optional<Schedule> good = knownGood(*problem, engines, hardware);
    const Engine *engine = good ? &engineOf(*good) : engines.front();
    std::ranges::stable_partition(
        engines, [&](const Engine *other) { return other == engine; });
    // Rows for ranges of tokens are those of the layer's two matmuls.
    const TunedRow *row =
        findTuned(rows, *problem, engines, hardware,
                  isOfSharedRows(kernel) ? ArrayRef<ServedRange>()
                                         : servedBy(program, hardware));
    noteRows(kernel, *problem, hardware, row);
    std::optional<Schedule> chosen = good;
    if (row)
      chosen = scheduleOfRow(*row, *problem, hardware);
    if (!chosen) {
      std::vector<Schedule> legal = engine->candidates(*problem, hardware);
      if (legal.empty())
        return kernel.emitError()
               << "no schedule of engine '" << engine->row.name
               << "' is legal for tiles "
               << "of " << problem->tileRows << " rows on " << hardware.arch
               << "; " << engine->possibleTileRows(*problem) << " are";
      chosen = best(*problem, legal, hardware);
    }
    if (mayBeSplit(program, *problem, *chosen, hardware))
      chosen->cluster = {kSplit, 1, 1};
    return attribute<moe::MatmulScheduleAttr>(program, *chosen);
  }

  static bool mayBeSplit(moe::ProgramOp program, const MatmulProblem &problem,
                         const Schedule &schedule, const Hardware &hardware) {
    // Sums of two halves differ in their last bits from those of a whole.
    return !program.getBatchInvariant() &&
           program.getTarget().getArchRow().has("clusters") &&
           engineOf(schedule).maySplit(problem, schedule, hardware);
  }

  /// A schedule that stands, of a matmul: any that is legal.
  LogicalResult verifyMatmul(moe::ProgramOp program, moe::KernelOp kernel,
                             moe::GroupedMatmulOp matmul,
                             moe::ScheduleAttr stands) {
    Hardware hardware;
    const FailureOr<MatmulProblem> problem = tiledProblem(kernel);
    if (failed(hardwareOf(program, kernel, hardware)) || failed(problem))
      return failure();
    std::vector<std::string> engines;
    for (const Engine *engine : servingEngines(program.getReportAttr(), matmul))
      engines.emplace_back(engine->row.name);
    if (!isa<moe::MatmulScheduleAttr>(stands) ||
        !llvm::is_contained(engines, stands.getEngine()))
      return kernel.emitError()
             << stands << " does not serve this matmul; the report admits "
             << llvm::join(engines, ", ");
    Schedule s = *stands.getMatmul();
    if (auto reason = whyIllegal(*problem, s, hardware))
      return kernel.emitError()
             << "the schedule that stands is not legal: " << *reason;
    if (!s.cluster.empty()) {
      s.cluster.clear();
      if (mayBeSplit(program, *problem, s, hardware))
        s.cluster = {kSplit, 1, 1};
    }
    return compare(kernel, attribute<moe::MatmulScheduleAttr>(program, s));
  }

  /// Fails unless the schedule is the wanted one.
  static LogicalResult compare(moe::KernelOp kernel, moe::ScheduleAttr wanted) {
    if (kernel.getScheduleAttr() == wanted)
      return success();
    return kernel.emitError() << "the schedule that stands is not one of this "
                                 "kernel: expected "
                              << wanted << ", got " << kernel.getScheduleAttr();
  }

  /// Whoever wrote the schedule: it is judged as those that are chosen here. Of
  /// kernels other than grouped matmuls there is one.
  LogicalResult verify(moe::ProgramOp program, moe::KernelOp kernel) {
    if (failed(hasReport(program)))
      return failure();
    auto matmul = findStage<moe::GroupedMatmulOp>(kernel);
    if (kernel.getKind() == "grouped_matmul")
      return verifyMatmul(program, kernel, matmul, kernel.getScheduleAttr());
    const FailureOr<moe::ScheduleAttr> made = decide(program, kernel);
    return failed(made) ? failure() : compare(kernel, *made);
  }

  static LogicalResult hasReport(moe::ProgramOp program) {
    if (program.isResolved())
      return success();
    return program.emitError() << "no backend is chosen; run "
                                  "moe-choose-backend first";
  }

  static bool isProgrammatic(moe::ProgramOp program) {
    return program.getTarget().getArchRow().has("programmatic_launch");
  }

  /// The second matmul and combine by one kernel.
  FailureOr<moe::ScheduleAttr> selectSlices(moe::ProgramOp program,
                                            moe::KernelOp kernel) {
    Hardware hardware;
    if (failed(hardwareOf(program, kernel, hardware)))
      return failure();
    int64_t tokens = tokenRange(kernel).second;
    std::optional<SlicesSchedule> chosen =
        slicesSchedule(slicesProblem(findStage<moe::GroupedMatmulOp>(kernel),
                                     findStage<moe::CombineOp>(kernel), tokens),
                       hardware);
    if (!chosen)
      return kernel.emitError() << "no schedule of slices holds the rows of "
                                << tokens << " tokens in the shared memory of "
                                << hardware.sms << " multiprocessors";
    return attribute<moe::SlicesScheduleAttr>(program, *chosen);
  }

  /// At most so many that registers last: a lane holds every 32nd logit of its
  /// row and its key, and compares those of each group, or of each round.
  static int64_t threadsToRoute(moe::RouteOp route) {
    const bool many = route.getNumExperts() > 512;
    const bool parts = route.getRouting().getGroups() > 0 ||
                       route.getRouting().getMethod() == "sparsemixer";
    return many && parts ? 256 : many || parts ? 512 : 1024;
  }

  /// One warp a token at a time; CTAs that permute are one, or one cluster.
  LogicalResult selectRoute(moe::ProgramOp program, moe::KernelOp kernel,
                            int64_t tokens, BlockSchedule &fields) {
    auto count = findStage<moe::CountOp>(kernel);
    fields.blockTokens = count ? int64_t(count.getBlockTokens()) : 0;
    int64_t most = threadsToRoute(findStage<moe::RouteOp>(kernel));
    bool permutes = bool(findStage<moe::PermuteOp>(kernel));
    bool alone = permutes && fields.blockTokens >= tokens;
    fields.threads =
        alone ? most
              : std::clamp<int64_t>(llvm::PowerOf2Ceil(32 * fields.blockTokens),
                                    256, most);
    if (!permutes || alone)
      return success();
    moe::TargetAttr target = program.getTarget();
    if (!target.getArchRow().has("clusters"))
      return kernel.emitError()
             << "one CTA routes and permutes " << fields.blockTokens
             << " tokens, up to " << tokens << " are launched, and "
             << target.getArch() << " has no clusters";
    if (kRoutingCluster * fields.blockTokens < tokens)
      return kernel.emitError()
             << "a cluster of " << kRoutingCluster << " CTAs of "
             << fields.blockTokens << " tokens routes and permutes "
             << kRoutingCluster * fields.blockTokens << ", up to " << tokens
             << " are launched";
    fields.cluster = {kRoutingCluster, 1, 1};
    return success();
  }

  /// One of the two kernels of a few tokens.
  FailureOr<moe::ScheduleAttr> selectGemv(moe::ProgramOp program,
                                          moe::KernelOp kernel) {
    Hardware hardware;
    if (failed(hardwareOf(program, kernel, hardware)))
      return failure();
    int64_t tokens = tokenRange(kernel).second;
    std::optional<GemvSchedule> chosen = gemvSchedule(
        gemvProblem(findStage<moe::GroupedMatmulOp>(kernel), tokens), hardware);
    if (!chosen)
      return kernel.emitError()
             << "no schedule of engine 'gemv' fits the shared memory of "
             << hardware.arch << " with " << tokens << " tokens";
    return attribute<moe::GemvScheduleAttr>(program, *chosen);
  }

  template <typename Attr>
  moe::ScheduleAttr attribute(moe::ProgramOp program,
                              typename Attr::Fields fields) {
    fields.programmatic = isProgrammatic(program);
    return Attr::get(&getContext(), fields);
  }

  LogicalResult select(moe::ProgramOp program, moe::KernelOp kernel) {
    if (failed(hasReport(program)))
      return failure();
    const FailureOr<moe::ScheduleAttr> made = decide(program, kernel);
    if (failed(made))
      return failure();
    kernel.setScheduleAttr(*made);
    return success();
  }

  /// One CTA a token, or one for 512 columns where tokens are few.
  moe::ScheduleAttr scheduleOfSum(moe::ProgramOp program, Value out,
                                  Value partials, int64_t tokens) {
    const int64_t hidden =
        cast<RankedTensorType>(out.getType()).getShape().back();
    const int64_t width = 16 / std::min(elementBytes(elementTypeOf(out)),
                                        elementBytes(elementTypeOf(partials)));
    const int64_t vectors = (hidden + width - 1) / width;
    const int64_t blocks =
        tokens <= 128 ? std::max<int64_t>(hidden / 512, 1) : 1;
    const int64_t share = (vectors + blocks - 1) / blocks;
    return attribute<moe::CombineScheduleAttr>(
        program, {{},
                  share * width,
                  std::clamp<int64_t>((share + 31) / 32 * 32, 32, 256)});
  }

  /// One CTA a token, which reads whole rows: each thread keeps its columns of
  /// all of them where these are one vector.
  moe::ScheduleAttr scheduleOfNorm(moe::ProgramOp program,
                                   moe::CombineNormedOp combine) {
    const int64_t hidden = combine.getWidth();
    const int64_t width =
        16 / std::min(elementBytes(elementTypeOf(combine.getOut())),
                      elementBytes(elementTypeOf(combine.getPartials())));
    const int64_t vectors = llvm::divideCeil(hidden, width);
    return attribute<moe::CombineScheduleAttr>(
        program,
        {{}, hidden, std::clamp<int64_t>(llvm::alignTo(vectors, 32), 32, 512)});
  }

  FailureOr<moe::ScheduleAttr> decide(moe::ProgramOp program,
                                      moe::KernelOp kernel) {
    const int64_t tokens = tokenRange(kernel).second;
    if (kernel.getRow().routesItself)
      return selectGemv(program, kernel);
    if (kernel.getKind() == "down_slices")
      return selectSlices(program, kernel);
    if (auto matmul = findStage<moe::GroupedMatmulOp>(kernel))
      return selectMatmul(program, kernel, matmul);
    if (auto combine = findStage<moe::CombineOp>(kernel))
      return scheduleOfSum(program, combine.getOut(), combine.getPartials(),
                           tokens);
    if (auto combine = findStage<moe::CombineConstantsOp>(kernel))
      return scheduleOfSum(program, combine.getOut(), combine.getPartials(),
                           tokens);
    if (auto combine = findStage<moe::CombineNormedOp>(kernel))
      return scheduleOfNorm(program, combine);
    if (auto finalize = findStage<moe::FinalizeOp>(kernel))
      return scheduleOfSum(program, finalize.getOut(), finalize.getPartials(),
                           tokens / int64_t(finalize.getRanks()));
    BlockSchedule fields;
    fields.threads = 256;
    if (findStage<moe::RouteOp>(kernel)) {
      if (failed(selectRoute(program, kernel, tokens, fields)))
        return failure();
    } else if (auto permute = findStage<moe::PermuteOp>(kernel)) {
      fields.blockTokens = permute.getBlockTokens();
      fields.threads = tokens > 512 || permute.getNumLocal() > 512 ? 1024 : 512;
    } else if (findStage<moe::DispatchOp>(kernel) ||
               findStage<moe::SendBackOp>(kernel)) {
      // Every warp has rows on their way to other ranks.
      fields.threads = 512;
    } else if (auto batch = findStage<moe::BatchOp>(kernel)) {
      fields.threads = std::clamp<int64_t>(
          llvm::PowerOf2Ceil(batch.getNumLocal()), 32, 1024);
    }
    return attribute<moe::BlockScheduleAttr>(program, fields);
  }

  std::vector<TunedRow> rows;
  std::optional<std::vector<ServedRange>> served;
  bool tunedRead = false;
};
} // namespace
