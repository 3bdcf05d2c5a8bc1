//===- CudaWindow.h - windows in the memory of GPUs -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver lets a GPU reach memory of another one of its host: by the address
// itself within a process, by CUDA IPC between processes. Other memory that
// GPUs reach may be handed in.
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

/// A communicator that windows are made for, and what they need of it.
struct WindowPlace {
  Communicator &communicator; ///< exchanges bytes
  const runtime::CudaPlace &cuda;
  std::chrono::milliseconds timeout; ///< of a wait of a kernel
  std::shared_ptr<LiveWindows> live;
};

/// Allocates a window on each rank and lets all reach it. All ranks return the
/// same error; NoCommunication where the driver cannot do it for these GPUs. A
/// rank's memory is freed when no other process maps it any more, which may be
/// after the window's end.
Result<std::unique_ptr<Window>> shareByDriver(const WindowPlace &place,
                                              int64_t bytes);

/// Frees memory of windows that have ended, where no other process maps it.
void freeRetired(runtime::cuda::CUcontext context);

/// A window in memory that all ranks reach already, at these addresses, or the
/// error of a rank that has none. The memory must outlive it.
Result<std::unique_ptr<Window>>
takeShared(const WindowPlace &place, int64_t bytes,
           Result<std::vector<uint64_t>> addresses);

/// The same success or error on all ranks: that of the first that failed.
Result<void> agree(Communicator &communicator, const Result<void> &mine,
                   std::string_view step);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_CUDAWINDOW_H
