//===- HostDeviceImpl.h - what runs and packs share -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/host: values bound to memory, and one launch.
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

/// The values of a run or of a pack step.
struct Binding {
  std::vector<BoundValue> values;
  std::vector<int64_t> bytes; ///< of the memory behind each
};

struct HostDevice::Impl {
  const Manifest &manifest;
  const Target &target;
  Options options;
  std::map<std::string, ArgumentPacker> packers; ///< by kernel
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
