//===- JobsTest.cpp - how many compilations at once -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The jobs asked for, then MOEC_JOBS, then the threads that the affinity mask
// leaves; never more than there is work. The order in which kernels begin.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CompilePool.h"
#include "runtime/support/Env.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <sched.h>
#include <thread>

using namespace moec;
using namespace moec::runtime;

/// Runs `body` in a thread that is pinned to one of its CPUs.
template <typename Body> static void onOneCpu(Body body) {
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &mask))
      ++cpu;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    body();
  }).join();
}

TEST(JobsTest, respectsTheAffinityMask) {
  ::unsetenv("MOEC_JOBS");
  EXPECT_GE(usableThreads(), 1);
  onOneCpu([] {
    EXPECT_EQ(usableThreads(), 1);
    EXPECT_EQ(*chooseJobs(0, 16), 1);
  });
}

TEST(JobsTest, theEnvironmentAndTheCallerAreStronger) {
  ::setenv("MOEC_JOBS", "3", 1);
  onOneCpu([] {
    EXPECT_EQ(*chooseJobs(0, 16), 3);
    EXPECT_EQ(*chooseJobs(5, 16), 5);
  });
  ::setenv("MOEC_JOBS", "many", 1);
  EXPECT_FALSE(chooseJobs(0, 16));
  ::unsetenv("MOEC_JOBS");
}

TEST(JobsTest, asManyAsThreads) {
  ::unsetenv("MOEC_JOBS");
  EXPECT_EQ(*chooseJobs(0, 2), std::min(usableThreads(), 2));
}

TEST(JobsTest, neverMoreThanWork) {
  EXPECT_EQ(*chooseJobs(8, 2), 2);
  EXPECT_EQ(*chooseJobs(8, 0), 1);
}

TEST(JobsTest, theLongestKernelsBeginFirst) {
  Target target;
  for (size_t headers : {2, 3, 3, 1, 2}) {
    Kernel kernel;
    kernel.headers.resize(headers);
    target.kernels.push_back(kernel);
  }
  std::vector<size_t> some = {0, 1, 2, 3, 4};
  orderByTime(some, target);
  EXPECT_THAT(some, testing::ElementsAre(2, 1, 4, 0, 3));
  some = {0, 1, 3};
  orderByTime(some, target);
  EXPECT_THAT(some, testing::ElementsAre(1, 0, 3));
}
