//===- RunPtx.h - runs a few lines of PTX -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel `k` of one parameter, the address of an array of words. Its body
// finds these registers declared and set:
//
//   %tid thread, %base the array's address, %mine the address of its word of
//   the thread; %p<8> %h<16> %r<32> %f<16> %d<16> are free
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_TESTS_RUNPTX_H
#define MOEC_TEST_EMULATOR_TESTS_RUNPTX_H

#include "test/emulator/machine/Machine.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <unistd.h>

namespace moec::emulator {

class PtxTest : public testing::Test {
protected:
  /// Runs the body; `shared` bytes of dynamic shared memory are at `memory`.
  /// Words begin as `words` says, which tests read back.
  bool run(const std::string &body) {
    device = std::make_unique<Device>(settings);
    device->addRegion(reinterpret_cast<uint64_t>(words.data()),
                      words.size() * 4, wordsAreDefined);
    launch(body);
    return device->synchronize();
  }

  /// The whole text of a body.
  std::string textOf(const std::string &body) const {
    return R"(.version 9.0
.target )" +
           target +
           R"(
.address_size 64
.extern .shared .align 128 .b8 memory[];
.visible .entry k(.param .u64 k_param_0)
{
.reg .pred %p<8>;
.reg .b16 %h<16>;
.reg .b32 %r<32>;
.reg .f32 %f<16>;
.reg .b64 %d<16>;
.reg .b32 %tid;
.reg .b64 %base, %mine;
ld.param.u64 %base, [k_param_0];
mov.u32 %tid, %tid.x;
mul.wide.u32 %mine, %tid, 4;
add.s64 %mine, %mine, %base;
)" + body + "\nret;\n}\n";
  }

  /// Launches a body on the device that run() made.
  void launch(const std::string &body, bool programmatic = false,
              unsigned gpu = 0) {
    auto module = std::shared_ptr<Module>(parsePtx(textOf(body)));
    Launch launch;
    launch.module = module;
    launch.kernel = module->kernels.at("k");
    launch.grid.x = ctas;
    launch.block.x = threads;
    launch.cluster = cluster;
    launch.programmatic = programmatic;
    launch.dynamicShared = shared;
    const auto address = reinterpret_cast<uint64_t>(words.data());
    launch.params.resize(8);
    std::memcpy(launch.params.data(), &address, 8);
    device->enqueue(gpu, std::move(launch));
  }

  /// The texts of all findings.
  std::string findings() const {
    std::string text;
    for (const Finding &finding : device->findings())
      text += finding.text + "\n";
    return text;
  }

  /// Expects that the toolkit's assembler, if there is one, takes a body for a
  /// target that nothing else is compiled for.
  void expectAssembles(const std::string &body) const {
    static std::set<std::string> known;
    const std::string assembler = MOEC_TEST_PTXAS;
    if (assembler.empty() || target == "sm_90a" || !known.insert(body).second)
      return;
    // The assembler takes %tid for the special register.
    std::string text = textOf(body);
    for (size_t at = 0; (at = text.find("%tid", at)) != std::string::npos; ++at)
      if (text.compare(at, 5, "%tid.") != 0)
        text.replace(at, 4, "%thread");
    const std::string path = testing::TempDir() + "moec-emulator-" +
                             std::to_string(getpid()) + ".ptx";
    std::ofstream(path) << text;
    const std::string command =
        assembler + " -O0 -arch=" + target + " -o /dev/null " + path;
    EXPECT_EQ(std::system(command.c_str()), 0) << text;
    std::remove(path.c_str());
  }

  /// Expects that the body is right, in all timings.
  void expectRight(const std::string &body) {
    expectAssembles(body);
    const auto begin = words;
    for (Timing timing : {Timing::AtOnce, Timing::Late, Timing::Random}) {
      settings.timing = timing;
      words = begin;
      EXPECT_TRUE(run(body)) << findings();
    }
  }

  /// Expects a finding of this kind and with these words, in all timings.
  void expectFinding(const std::string &body, const std::string &kind,
                     const std::string &text) {
    const auto begin = words;
    for (Timing timing : {Timing::AtOnce, Timing::Late, Timing::Random}) {
      settings.timing = timing;
      words = begin;
      EXPECT_FALSE(run(body));
      EXPECT_TRUE(device->hasFinding(kind)) << findings();
      EXPECT_THAT(findings(), testing::HasSubstr(text));
    }
    words = begin;
  }

  /// The sentence by which a body is refused.
  std::string refusal(const std::string &body) {
    try {
      run(body);
    } catch (const PtxError &error) {
      return error.what();
    }
    return "taken";
  }

  std::string target = "sm_90a";
  Settings settings;
  std::vector<uint32_t> words = std::vector<uint32_t>(1024);
  bool wordsAreDefined = true;
  uint32_t ctas = 1, threads = 32, cluster = 1, shared = 4096;
  std::unique_ptr<Device> device;
};

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_TESTS_RUNPTX_H
