//===- routing.cpp - routings against loops, and their times --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares all that a routing writes with plain loops, or times routings:
//
//   templates-routing FOLDER [check|time] [NAME [TOKENS]]
//
// NAME is part of the names that are run, TOKENS limits the token counts.
//
//===----------------------------------------------------------------------===//

#include "test/templates/Routing.h"
#include "test/templates/Timing.h"

using namespace harness;

namespace {

std::mt19937 generator(4321);
int failures = 0, cells = 0;

/// Logits of a pattern, as their type holds them.
std::vector<float> drawLogits(const Shape &s, int tokens,
                              const std::string &pattern) {
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(size_t(tokens) * s.experts);
  static const float kEdges[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f};
  for (int m = 0; m < tokens; ++m)
    for (int e = 0; e < s.experts; ++e) {
      float value = normal(generator);
      if (pattern == "skewed")
        value += 12.0f / float(1 + e % 37);
      else if (pattern == "ties")
        value = float(generator() % 3);
      else if (pattern == "one")
        value = float(s.experts - e);
      else if (pattern == "edge" && generator() % 3)
        value = kEdges[generator() % (m % 5 == 0 ? 3 : 6)];
      logits[size_t(m) * s.experts + e] = rounded(value, s.logits);
    }
  return logits;
}

void checkOrder(const Line &line, const Roles &roles, int tokens,
                std::string pattern) {
  Shape s(line);
  ++cells;
  std::string where =
      line.text("name") + " tokens " + std::to_string(tokens) + " " + pattern;
  auto fail = [&](const std::string &what) {
    std::printf("FAILED %s: %s\n", where.c_str(), what.c_str());
    ++failures;
  };
  const bool isGiven =
      pattern.starts_with("given") || pattern.starts_with("distinct");
  const Type chosen = takeType(pattern, isGiven ? Type::F32 : s.logits);
  const Type weightsType = isGiven ? chosen : Type::F32;
  if (!isGiven)
    s.logits = chosen;
  int tileRows = line.number("tilerows");
  Workspace w(s, tokens, roles.route->line.number("block"), tileRows);
  size_t pairs = size_t(tokens) * s.topK;
  std::vector<float> logits = drawLogits(s, tokens, pattern);
  Buffer devLogits(logits.size() * sizeOf(s.logits)), devIds(pairs * 8),
      devWeights(pairs * 4), devValid(4);
  writeFloats(devLogits, logits, s.logits);
  std::vector<int> ids(pairs, -1), shown(pairs, -1);
  std::vector<double> routed(pairs, 0.0);
  Given given;
  bool isWide = pattern == "given64" || pattern == "distinct";
  if (isGiven) {
    // Any ids with repetitions and of no expert; or distinct ones, a few of
    // them -1.
    std::vector<long long> wide(pairs);
    std::vector<float> own(pairs);
    std::vector<int> order(s.experts);
    std::iota(order.begin(), order.end(), 0);
    for (size_t p = 0; p < pairs; ++p) {
      if (p % s.topK == 0)
        std::shuffle(order.begin(), order.end(), generator);
      ids[p] = pattern == "distinct"
                   ? (generator() % 9 ? order[p % s.topK] : -1)
                   : int(generator() % (s.experts + 1)) - 1;
      shown[p] = ids[p];
      if (ids[p] < 0 && pattern != "distinct" && p % 2)
        shown[p] = p % 4 == 1 ? s.experts : -7;
      wide[p] = shown[p];
      if (isWide && p % 8 == 3 && ids[p] < 0) {
        // Of 64 bits, whose lower ones are an expert's.
        wide[p] = (1ll << 32) + s.experts - 1;
        shown[p] = -1;
      }
      routed[p] = own[p] =
          rounded(float(generator() % 1000) / 1000, weightsType);
    }
    if (isWide)
      devIds.write(wide);
    else
      devIds.write(shown);
    writeFloats(devWeights, own, weightsType);
    given.ids = devIds.at, given.weights = devWeights.at;
    given.weightsType = weightsType;
    if (isWide)
      given.idCode = kCodeI64;
  } else {
    int valid = tokens;
    given.logits = devLogits.at, given.logitsType = s.logits;
    if (pattern == "valid") {
      valid = tokens * 2 / 3;
      devValid.write(std::vector<int>{valid});
      given.valid = devValid.at;
    }
    for (int m = 0; m < valid; ++m)
      routeToken(&logits[size_t(m) * s.experts], s, roles.route->line,
                 &ids[size_t(m) * s.topK], &routed[size_t(m) * s.topK]);
  }
  launchRouting(nullptr, roles, w, given, true, true);
  CHECK_CUDA(cuCtxSynchronize());
  std::vector<int> gotIds = w.ids.read<int>(),
                   shownIds = w.shownIds.read<int>();
  std::vector<float> gotWeights = w.weights.read<float>(),
                     shownWeights = w.shownWeights.read<float>();
  size_t wrongIds = 0, wrongWeights = 0;
  for (size_t p = 0; p < pairs; ++p) {
    wrongIds +=
        gotIds[p] != ids[p] || shownIds[p] != (isGiven ? shown[p] : ids[p]);
    double error = std::fabs(gotWeights[p] - routed[p]);
    wrongWeights += !(error <= 2e-6 * std::fabs(routed[p]) + 1e-30) ||
                    gotWeights[p] != shownWeights[p];
  }
  if (wrongIds || wrongWeights)
    fail(std::to_string(wrongIds) + " ids and " + std::to_string(wrongWeights) +
         " weights");
  std::string wrong =
      wrongOrder(s, w, ids, tileRows, line.number("rowstep", tileRows));
  if (!wrong.empty())
    fail(wrong);
  if (!w.guards())
    fail("written beyond the end");
  w.release();
  for (Buffer *b : {&devLogits, &devIds, &devWeights, &devValid})
    b->release();
}

using Kernels = std::map<std::string, Kernel>;

/// Times of each routing of the line, alone.
void timeRouting(const Line &line, const Kernels &kernels, Timer &timer,
                 int tokens) {
  Shape s(line);
  constexpr int kRuns = 40;
  std::vector<float> logits = drawLogits(s, tokens, "uniform");
  Buffer devLogits(logits.size() * sizeOf(s.logits));
  writeFloats(devLogits, logits, s.logits);
  Given given;
  given.logits = devLogits.at, given.logitsType = s.logits;
  Buffer bias(size_t(s.experts) * 4);
  writeFloats(bias, drawLogits(s, 1, "skewed"), Type::F32);
  given.bias = bias.at;
  std::printf("ROUTE %-15s M %5d:", line.text("model").c_str(), tokens);
  for (const std::string &id : line.list("routes")) {
    Roles roles;
    roles.route = &kernels.at(id);
    const Line &route = roles.route->line;
    if (route.number("fused")) {
      if (route.number("cluster") * route.number("block") < tokens)
        continue;
    } else {
      roles.permute = &kernels.at(line.text("permute"));
    }
    Workspace w(s, tokens, route.number("block"), line.number("tilerows"));
    double times[2];
    for (int only = 0; only < 2; ++only)
      times[only] = timer.median(
          [&] {
            for (int i = 0; i < kRuns; ++i)
              launchRouting(timer.stream, roles, w, given, true, false, only);
          },
          1, 15);
    if (route.number("fused"))
      std::printf(" %dx%dt%d %.1f", route.number("cluster"),
                  route.number("block"), route.number("threads"),
                  times[0] / kRuns);
    else
      std::printf(" block %d t%d+%d %.1f of which route %.1f",
                  route.number("block"), route.number("threads"),
                  roles.permute->line.number("threads"), times[0] / kRuns,
                  times[1] / kRuns);
    w.release();
  }
  std::printf("\n");
  bias.release();
  devLogits.release();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [check|time] [NAME [TOKENS]]\n",
                 argv[0]);
    return 2;
  }
  std::string folder = argv[1], what = argc > 2 ? argv[2] : "check";
  std::string part = argc > 3 ? argv[3] : "";
  int limit = argc > 4 ? numberIn(argv[4]) : 1 << 30;
  openGpu();
  Kernels kernels;
  Timer timer;
  std::vector<Line> lines = readPlan(folder + "/plan.txt");
  for (const Line &line : lines)
    if (line.verb == "kernel" &&
        bool(line.number("timing", 0)) == (what != "check"))
      kernels[line.text("id")] = loadKernel(line, folder);
  const std::string verb = what == "check" ? "order" : what;
  for (const Line &line : lines) {
    if (line.verb != verb ||
        line.text(verb == "order" ? "name" : "model").find(part) ==
            std::string::npos)
      continue;
    for (const std::string &word : line.list("tokens")) {
      int tokens = numberIn(word);
      if (tokens > limit)
        continue;
      if (verb == "time")
        timeRouting(line, kernels, timer, tokens);
      else
        for (const std::string &pattern : line.list("patterns")) {
          Roles roles;
          roles.route = &kernels.at(line.text("route"));
          if (line.words.count("permute"))
            roles.permute = &kernels.at(line.text("permute"));
          checkOrder(line, roles, tokens, pattern);
        }
      std::fflush(stdout);
    }
  }
  std::printf("%d cells, %d failures\n", cells, failures);
  return failures != 0 || (what != "time" && cells == 0);
}
