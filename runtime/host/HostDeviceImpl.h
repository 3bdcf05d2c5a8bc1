//===- HostDeviceImpl.h - shared by runs and packs --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/host: binds values to memory and executes one launch.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_HOSTDEVICEIMPL_H
#define MOEC_RUNTIME_HOST_HOSTDEVICEIMPL_H

#include "runtime/host/HostDevice.h"
#include "runtime/package/Limits.h"

namespace moec::host {

inline uint64_t addressOf(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

/// The memory of all values during a run or a step of a pack.
struct Binding {
  std::vector<BoundValue> values;
  /// The size in bytes of each value's memory.
  std::vector<int64_t> bytes;
};

struct HostDevice::Impl {
  const Manifest &manifest;
  const Target &target;
  Options options;
  /// Argument packers by kernel name.
  std::map<std::string, ArgumentPacker> packers;
  Impl(const Manifest &manifest, const Target &target)
      : manifest(manifest), target(target) {}

  Result<void> bind(Binding &binding, size_t index, const Symbols &symbols,
                    const Tensor &tensor) const;
  Result<Binding> bindCommon(const Symbols &symbols,
                             const Tensors &tensors) const;
  Result<void> checkOneOf(const Tensors &tensors) const;
  Result<void> launch(const Launch &launch, const Symbols &symbols,
                      const Binding &binding, int64_t firstExpert,
                      bool backwards = false,
                      const comm::Window *window = nullptr) const;
  Result<void> bindWindow(Binding &binding, const Symbols &symbols,
                          const comm::Window *window) const;
  Result<void> bindScratch(Binding &binding, const Pack &pack,
                           const Symbols &symbols,
                           std::span<std::byte> scratch) const;
  Symbols symbolsOf(int64_t experts) const;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_HOSTDEVICEIMPL_H
