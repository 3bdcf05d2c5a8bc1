//===- timings.cpp - how fast each schedule is ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times kernels and whole layers of a plan in CUDA graphs with programmatic
// launches: several sets of random logits in a row, so that weights come from
// memory, and the median of several replays. Samples of the whole layer's
// output are checked against double loops before a time is printed.
//
//   templates-timings FOLDER [MODEL [TOKENS]]
//
//===----------------------------------------------------------------------===//

#include "test/templates/Layer.h"
#include "test/templates/Timing.h"

#include <chrono>
#include <set>
#include <thread>

using namespace harness;

namespace {

constexpr double kBandwidth = 3150e9, kRate = 781e12;

/// Of one replay of what `record` launches, as often as its time allows;
/// `prepare` is done before each replay and takes no part in the time.
double medianTime(const Timer &timer, const std::function<void()> &record,
                  const std::function<void()> &prepare = nullptr) {
  CUgraphExec exec = timer.capture(record);
  auto once = [&] {
    if (prepare)
      prepare();
    return timer.replay(exec);
  };
  once();
  double estimate = once();
  // Long kernels meet the card's power limit: let each begin equally cool.
  if (estimate > 400)
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
  int repeats = std::clamp(int(25000 / estimate), 5, 60);
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i)
    times.push_back(once());
  CHECK_CUDA(cuGraphExecDestroy(exec));
  return medianOf(times);
}

struct Model {
  Shape shape;
  Buffer w13, w2;
  Model(const Line &line, const Kernel &filler) : shape(line) {
    size_t e = shape.experts, h = shape.hidden, i = shape.inter;
    w13.make(e * 2 * i * h * 2);
    w2.make(e * h * i * 2);
    fill(filler, w13.at, e * 2 * i * h, Type::BF16, 1 / std::sqrt(float(h)), 1);
    fill(filler, w2.at, e * h * i, Type::BF16, 1 / std::sqrt(float(i)), 2);
  }
  void release() {
    w13.release();
    w2.release();
  }
};

/// Relative error of a few tokens of the whole layer.
double sampleError(const Model &model, const Workspace &w, const Buffer &x,
                   const Buffer &out) {
  const Shape &s = model.shape;
  std::vector<int> ids = w.ids.read<int>();
  std::vector<float> weights = w.weights.read<float>();
  double errors = 0, norms = 0;
  std::vector<int> tokens = {w.tokens - 1};
  if (s.inter < 4096)
    tokens.insert(tokens.end(), {0, w.tokens / 3});
  for (int m : tokens) {
    std::vector<float> row =
        readFloats(x.at + size_t(m) * s.hidden * 2, s.hidden, Type::BF16);
    std::vector<double> sum(s.hidden);
    for (int k = 0; k < s.topK; ++k) {
      size_t e = ids[size_t(m) * s.topK + k];
      std::vector<float> w13 =
          readFloats(model.w13.at + e * 2 * s.inter * s.hidden * 2,
                     size_t(2) * s.inter * s.hidden, Type::BF16);
      std::vector<float> w2 =
          readFloats(model.w2.at + e * s.hidden * s.inter * 2,
                     size_t(s.hidden) * s.inter, Type::BF16);
      std::vector<float> middle(s.inter);
      for (int i = 0; i < s.inter; ++i) {
        double gate = 0, up = 0;
        const float *g = &w13[size_t(i / 8 * 16 + i % 8) * s.hidden];
        const float *u = g + 8 * s.hidden;
        for (int c = 0; c < s.hidden; ++c) {
          gate += double(row[c]) * g[c];
          up += double(row[c]) * u[c];
        }
        middle[i] =
            rounded(float(gate / (1 + std::exp(-gate)) * up), Type::BF16);
      }
      for (int n = 0; n < s.hidden; ++n) {
        double value = 0;
        for (int i = 0; i < s.inter; ++i)
          value += double(middle[i]) * w2[size_t(n) * s.inter + i];
        sum[n] += weights[size_t(m) * s.topK + k] * value;
      }
    }
    std::vector<float> got =
        readFloats(out.at + size_t(m) * s.hidden * 2, s.hidden, Type::BF16);
    for (int n = 0; n < s.hidden; ++n) {
      errors += (got[n] - sum[n]) * (got[n] - sum[n]);
      norms += sum[n] * sum[n];
    }
  }
  return std::sqrt(errors / norms);
}

struct Best {
  double us = 1e30;
  const Kernel *kernel = nullptr;
};

struct Bench {
  std::map<std::string, Kernel> kernels;
  Timer timer;
  std::vector<std::string> summary;

  /// route and permute alone, four times in a graph.
  void order(const Line &line, int tokens) {
    Shape s(line);
    constexpr int kRuns = 4;
    Roles roles;
    roles.route = &kernels.at(line.text("route"));
    roles.permute = &kernels.at(line.text("permute"));
    Workspace w(s, tokens, line.number("block"), line.number("tilerows"));
    Buffer logits(size_t(tokens) * s.experts * 2);
    fill(kernels.at("fill_fill"), logits.at, size_t(tokens) * s.experts,
         Type::BF16, 1.0f, 7);
    Given given;
    given.logits = logits.at, given.logitsType = Type::BF16;
    double times[2];
    for (int only = 0; only < 2; ++only)
      times[only] = medianTime(timer, [&] {
        for (int i = 0; i < kRuns; ++i)
          launchRouting(timer.stream, roles, w, given, true, false, only);
      });
    char text[160];
    std::snprintf(text, sizeof text,
                  "ORDER %-12s M %5d block %3d: route %.1f us, route and "
                  "permute %.1f us",
                  line.text("model").c_str(), tokens, line.number("block"),
                  times[1] / kRuns, times[0] / kRuns);
    std::printf("%s\n", text);
    summary.push_back(text);
    w.release();
    logits.release();
  }

  void time(const Line &line, const Model &model, int tokens) {
    const Shape &s = model.shape;
    const Kernel &filler = kernels.at("fill_fill");
    double expertBytes = 6.0 * s.hidden * s.inter;
    double touched =
        s.experts * (1 - std::pow(1 - double(s.topK) / s.experts, tokens));
    int sets = std::clamp(int(6e8 / (touched * expertBytes)) + 1, 1, 16);
    size_t pairs = size_t(tokens) * s.topK;
    Roles roles;
    bool isFused = tokens <= 64;
    roles.route = &kernels.at(line.text(isFused ? "fused" : "route"));
    roles.permute = &kernels.at(line.text("permute"));
    roles.combine = &kernels.at(line.text(tokens <= 64 ? "few" : "combine"));
    std::vector<Workspace> spaces;
    std::vector<Buffer> logits(sets);
    for (int i = 0; i < sets; ++i) {
      spaces.emplace_back(s, tokens, 64, line.number("tilerows"));
      logits[i].make(size_t(tokens) * s.experts * 2);
      fill(filler, logits[i].at, size_t(tokens) * s.experts, Type::BF16, 1.0f,
           unsigned(100 + i));
    }
    Buffer x(size_t(tokens) * s.hidden * 2), t(pairs * s.inter * 2),
        y(pairs * s.hidden * 2), out(size_t(tokens) * s.hidden * 2);
    fill(filler, x.at, size_t(tokens) * s.hidden, Type::BF16, 1.0f, 3);
    fill(filler, t.at, pairs * s.inter, Type::BF16, 0.3f, 4);

    auto routing = [&](int i) {
      Given given;
      given.logits = logits[i].at, given.logitsType = Type::BF16;
      launchRouting(timer.stream, roles, spaces[i], given, true, false);
    };
    auto up = [&](const Kernel &k, int i) {
      launchMatmul(timer.stream, k, spaces[i], x.at, s.hidden, model.w13.at, 0,
                   t.at, true);
    };
    auto down = [&](const Kernel &k, int i) {
      launchMatmul(timer.stream, k, spaces[i], t.at, s.inter, model.w2.at, 0,
                   y.at, true);
    };
    auto combine = [&](int i) {
      launchCombine(timer.stream, *roles.combine, spaces[i], y.at, out.at,
                    true);
    };
    // A matmul by itself finds the cursors as permute leaves them.
    auto resetCursors = [&] {
      for (const Workspace &w : spaces)
        CHECK_CUDA(cuMemsetD32Async(w.tileCount.at + 4, 0, 2, timer.stream));
    };
    auto each = [&](const std::function<void(int)> &body) {
      auto all = [&] {
        for (int i = 0; i < sets; ++i)
          body(i);
      };
      return medianTime(timer, all, resetCursors) / sets;
    };
    double routeUs = each(routing);
    double routeOnlyUs = each([&](int i) {
      Given given;
      given.logits = logits[i].at, given.logitsType = Type::BF16;
      launchRouting(timer.stream, roles, spaces[i], given, true, false, true);
    });
    double used = 0;
    for (Workspace &w : spaces) {
      std::vector<int> ids = w.ids.read<int>();
      used += double(std::set<int>(ids.begin(), ids.end()).size()) / sets;
    }
    double flops = 2.0 * pairs * s.hidden * s.inter;
    auto report = [&](const char *what, const Kernel &k, double us,
                      double bytes, double work) {
      std::printf(
          "%-12s M %5d %-6s %-7s %dx%dx%d s%d %s c%d g%d | %8.1f us %7.0f "
          "GB/s %6.1f TFLOP/s\n",
          line.text("model").c_str(), tokens, what,
          k.line.text("engine").c_str(), k.line.number("tilem"),
          k.line.number("tilen"), k.line.number("tilek"),
          k.line.number("stages"), k.line.text("warps").c_str(),
          k.line.number("ctas"), k.line.number("group"), us, bytes / us * 1e-3,
          work / us * 1e-6);
    };
    // The best of several rounds over all candidates, so that none has the
    // advantage of an idle card.
    int rounds = tokens >= 2048 ? 3 : 1;
    auto best = [&](const char *what, double bytes, double work,
                    const std::function<void(const Kernel &, int)> &run) {
      std::map<std::string, double> times;
      for (int round = 0; round < rounds; ++round)
        for (const std::string &id : line.list(what)) {
          const Kernel &k = kernels.at(id);
          double us = each([&](int i) { run(k, i); });
          double &least = times.emplace(id, us).first->second;
          least = std::min(least, us);
        }
      Best result;
      for (const auto &[id, us] : times) {
        report(what, kernels.at(id), us, bytes, work);
        if (us < result.us)
          result = {us, &kernels.at(id)};
      }
      return result;
    };
    Best bestUp = best("gateup", used * expertBytes * 2 / 3, 2 * flops, up);
    Best bestDown = best("down", used * expertBytes / 3, flops, down);
    double combineUs = each(combine);
    double layerUs = each([&](int i) {
      routing(i);
      up(*bestUp.kernel, i);
      down(*bestDown.kernel, i);
      combine(i);
    });
    double error = line.number("sample", 1)
                       ? sampleError(model, spaces[sets - 1], x, out)
                       : NAN;
    double bytes =
        used * expertBytes + tokens * (4.0 * s.hidden + 2.0 * s.experts);
    double floor = std::max(bytes / kBandwidth, 3 * flops / kRate) * 1e6;
    char text[300];
    std::snprintf(text, sizeof text,
                  "LAYER %-12s M %5d tile_rows %3d: %8.1f us x%.2f of floor "
                  "%.1f (%.1f%% of 781) route alone %.1f routing %.1f up %.1f "
                  "down %.1f combine "
                  "%.1f error %.1e",
                  line.text("model").c_str(), tokens, line.number("tilerows"),
                  layerUs, layerUs / floor, floor,
                  3 * flops / layerUs * 1e-6 / 781 * 100, routeOnlyUs, routeUs,
                  bestUp.us, bestDown.us, combineUs, error);
    std::printf("%s\n", text);
    std::fflush(stdout);
    summary.push_back(text);
    for (Workspace &w : spaces)
      w.release();
    for (Buffer &b : logits)
      b.release();
    for (Buffer *b : {&x, &t, &y, &out})
      b->release();
  }
};

} // namespace

int main(int count, char **arguments) {
  if (count < 2)
    return 2;
  std::string folder = arguments[1], only = count > 2 ? arguments[2] : "";
  int onlyTokens = count > 3 ? numberIn(arguments[3]) : 0;
  openGpu();
  Bench bench;
  std::map<std::string, std::vector<Line>> models;
  for (const Line &line : readPlan(folder + "/plan.txt")) {
    if (line.verb == "kernel" &&
        (line.number("timing", 0) || line.text("kind") == "fill"))
      bench.kernels[line.text("id")] = loadKernel(line, folder);
    if (line.verb == "time" && (only.empty() || line.text("model") == only))
      models[line.text("model")].push_back(line);
  }
  for (const Line &line : readPlan(folder + "/plan.txt"))
    if (line.verb == "order" && (only.empty() || line.text("model") == only))
      for (const std::string &tokens : line.list("tokens"))
        if (!onlyTokens || onlyTokens == numberIn(tokens))
          bench.order(line, numberIn(tokens));
  for (auto &[name, lines] : models) {
    Model model(lines[0], bench.kernels.at("fill_fill"));
    for (const Line &line : lines)
      for (const std::string &tokens : line.list("tokens"))
        if (!onlyTokens || onlyTokens == numberIn(tokens))
          bench.time(line, model, numberIn(tokens));
    model.release();
  }
  for (const std::string &text : bench.summary)
    std::printf("%s\n", text.c_str());
  return 0;
}
