//===- CudaWindow.h - windows in the memory of GPUs -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates windows in GPU memory. The CUDA driver lets a GPU access another
// GPU's memory on the same host: by its address within one process, and by CUDA
// IPC between processes. A caller may also pass memory that all GPUs already
// reach.
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

/// The objects that creating a window needs.
struct WindowPlace {
  Communicator &communicator; ///< exchanges bytes between hosts
  const runtime::CudaPlace &cuda;
  std::chrono::milliseconds timeout; ///< limit for a kernel that waits for a
                                     ///< rank
  std::shared_ptr<LiveWindows> live;
};

/// Allocates a window on each rank and maps it on all ranks. All ranks return
/// the same error, NoCommunication if the driver cannot share memory between
/// these GPUs. A rank's memory is freed when no other process maps it, which
/// may be after the Window object is destroyed.
Result<std::unique_ptr<Window>> shareByDriver(const WindowPlace &place,
                                              int64_t bytes);

/// Frees memory of destroyed windows of `context` that no other process maps.
void freeRetired(runtime::cuda::CUcontext context);

/// Creates a window in memory that all ranks already reach at `addresses`. Each
/// rank passes its addresses or its error; all ranks return the same error. The
/// memory must outlive the window.
Result<std::unique_ptr<Window>>
takeShared(const WindowPlace &place, int64_t bytes,
           Result<std::vector<uint64_t>> addresses);

/// Returns the same result on all ranks: the error of the lowest rank that
/// failed, or success.
Result<void> agree(Communicator &communicator, const Result<void> &mine,
                   std::string_view step);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_CUDAWINDOW_H
