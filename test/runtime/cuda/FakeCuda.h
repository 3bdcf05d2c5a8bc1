//===- FakeCuda.h - a driver of a GPU that is not there ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared library in the place of libcuda.so.1 loads packages and launches
// nothing; what it says of the GPU, its contexts and kernels, tests set. Its
// memory is the host's.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_CUDA_FAKECUDA_H
#define MOEC_TEST_RUNTIME_CUDA_FAKECUDA_H

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace moec::test {

/// The configuration of a launch.
struct FakeLaunch {
  unsigned grid[3], threads, sharedBytes, cluster[3];
  bool cooperative, overlaps;
};

struct FakeGpu {
  int sms = 132;
  unsigned smsOfAffinity = 0; ///< 0: the driver does not know of any
  unsigned smsOfResource = 0;
  /// By the name of an entry; others have none, and fit twice.
  std::map<std::string, int> localBytes, ctasPerSm;
  /// Values that were set, by the name of an entry and the attribute.
  std::map<std::string, std::map<int, int>> attributes;
  /// The image of the module and the threads and bytes of shared memory whose
  /// occupancy was asked for, by the name of an entry.
  std::map<std::string, std::string> images;
  std::map<std::string, std::pair<int, size_t>> occupancies;
  std::map<int, int> deviceAttributes; ///< others than the usual ones
  int functionsLoaded = 0;
  bool capturing = false;
  int copies = 0, synchronizations = 0; ///< that were asked for
  int contextSynchronizations = 0;
  /// Streams that got launches, copies or fills, that were waited for, and that
  /// were asked whether they are captured.
  std::set<void *> worked, waited, asked;
  std::set<void *> queried, recorded; ///< in which events were recorded
  int failAt = 0;                     ///< the copy that fails, counted from 1
  bool allocationsFail = false;
  bool synchronizationsFail = false;
  bool pushesFail = false;  ///< no context becomes current
  bool streamsWait = false; ///< none comes to its end
  int eventsRecorded = 0;
  int eventsEnded = 0;           ///< the first of those, though streams wait
  std::set<unsigned> eventFlags; ///< of events that were created
  int mapsEncoded = 0;
  void *captured = nullptr; ///< the stream whose capture has begun
  int graphLaunches = 0;
  /// Milliseconds of each launch of a graph; the last one is also of later
  /// ones. Empty: 1.
  std::vector<float> graphTimes;
  int launchesRecorded = 0, launchesTimed = 0; ///< up to the last event
  int devices = 1;
  bool peerAccess = true; ///< between any two
  int peerStatus = 704;   ///< of cuCtxEnablePeerAccess: already enabled
  /// Devices and their peers.
  std::set<std::pair<int, int>> peersAsked, peersEnabled;
  int ipcStatus = 0;          ///< of cuIpcOpenMemHandle
  int handleStatus = 0;       ///< of cuIpcGetMemHandle
  int opened = 0;             ///< handles, less those that were closed
  int allocated = 0;          ///< pieces of memory, less those that were freed
  int contexts = 0;           ///< retained, less those that were released
  int modules = 0;            ///< loaded, less those that were unloaded
  int loadsUntilFailure = -1; ///< modules; -1: none fails
  /// Told of a launch's entry, and whether it may begin before its predecessor
  /// has ended; without it a launch fails.
  void (*onLaunch)(const char *entry, bool overlaps) = nullptr;
  /// Told of a launch's configuration.
  void (*onConfig)(const char *entry, const FakeLaunch &launch) = nullptr;
  /// Told of a launch's argument block.
  void (*onBlock)(const char *entry, const char *block) = nullptr;
};

/// The bytes of a tensor map of the fake driver.
struct FakeMap {
  uint64_t address, extents[2];
};

} // namespace moec::test

/// The state of the fake library.
extern "C" moec::test::FakeGpu *fakeGpu();

/// Lines about calls that were wrong since the last question, and about
/// resources that live; "": there are none.
extern "C" const char *fakeGpuMistakes();
extern "C" const char *fakeGpuAlive();

/// The size of the device memory at an address; 0: none begins there.
extern "C" uint64_t fakeGpuPieceBytes(uint64_t address);

/// A context of a device that is not its primary one.
extern "C" void *fakeGpuContextOfCaller(int device);

/// Lets one call of this thread fail, counted from 1; 0: none. Calls that free
/// and optional ones do not count.
extern "C" void fakeGpuFail(int call);

/// The call that failed for that reason, or null.
extern "C" const char *fakeGpuFailed();

#endif // MOEC_TEST_RUNTIME_CUDA_FAKECUDA_H
