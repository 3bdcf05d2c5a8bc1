//===- CudaWindow.h - windows in the memory of GPUs -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates windows in GPU memory. On one host, the CUDA driver allows a GPU to
// access another GPU's memory: within one process by its address, between
// processes through CUDA IPC. A caller may also pass memory that all GPUs can
// already access.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_CUDAWINDOW_H
#define MOEC_RUNTIME_COMM_CUDAWINDOW_H

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/CudaCode.h"

#include <chrono>
#include <memory>
#include <vector>

namespace moec::comm {

/// The objects that are needed to create a window.
struct WindowPlace {
  Communicator &communicator; ///< exchanges bytes between hosts
  const runtime::CudaPlace &cuda;
  /// Maximum time that a kernel waits for another rank.
  std::chrono::milliseconds timeout;
  std::shared_ptr<LiveWindows> live;
};

/// Allocates window memory on each rank and maps it on all ranks. All ranks
/// return the same error; it is NoCommunication if the driver cannot share
/// memory between these GPUs. A rank's memory is freed when no other process
/// maps it any more, which may be after the Window object is destroyed.
Result<std::unique_ptr<Window>> shareByDriver(const WindowPlace &place,
                                              int64_t bytes);

/// Frees the memory of destroyed windows in the CUDA context `context`, except
/// memory that another process still maps.
void freeRetired(runtime::cuda::CUcontext context);

/// Creates a window in memory that all ranks can already access. Each rank
/// passes the addresses of all ranks' memory, or its error; all ranks return
/// the same error. The memory must outlive the window.
Result<std::unique_ptr<Window>>
takeShared(const WindowPlace &place, int64_t bytes,
           Result<std::vector<uint64_t>> addresses);

/// Exchanges the results of all ranks, so that all ranks return the same
/// result: the error of the lowest rank that failed, or success.
Result<void> agree(Communicator &communicator, const Result<void> &mine,
                   std::string_view step);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_CUDAWINDOW_H
