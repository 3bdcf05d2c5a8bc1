//===- Memory.h - the memory of the examples --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an engine has already and a small program has not: memory on the device
// and data in it. Opens the CUDA driver, so that the examples build where no
// toolkit is; without a GPU it is host memory. Nothing here is moec: an example
// stands alone over the C ABI, so that it can be pasted into an engine. Hence
// it does not share the device wrapper of tools/.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_EXAMPLES_COMMON_MEMORY_H
#define MOEC_EXAMPLES_COMMON_MEMORY_H

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <string>
#include <vector>

namespace example {

/// The GPU's memory if there is a GPU (and it is wanted), else the host's.
/// Freed when the program ends.
class Memory {
public:
  explicit Memory(bool wantGpu) {
    void *driver =
        wantGpu ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!driver)
      return;
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(
          dlsym(driver, name));
      return function != nullptr;
    };
    int (*init)(unsigned), (*deviceGet)(int *, int);
    int (*attribute)(int *, int, int);
    int (*retain)(void **, int), (*setCurrent)(void *);
    void *context = nullptr;
    int device = 0;
    gpu = find(init, "cuInit") && find(deviceGet, "cuDeviceGet") &&
          find(attribute, "cuDeviceGetAttribute") &&
          find(retain, "cuDevicePrimaryCtxRetain") &&
          find(setCurrent, "cuCtxSetCurrent") &&
          find(cuMemAlloc, "cuMemAlloc_v2") &&
          find(cuMemcpyHtoD, "cuMemcpyHtoD_v2") &&
          find(cuMemcpyDtoH, "cuMemcpyDtoH_v2") && init(0) == 0 &&
          deviceGet(&device, 0) == 0 && retain(&context, device) == 0 &&
          setCurrent(context) == 0 && attribute(&major, 75, device) == 0 &&
          attribute(&minor, 76, device) == 0;
  }

  bool onGpu() const { return gpu; }
  /// What moec calls this GPU's arch; from 9.0 on, the one with all features.
  std::string arch() const {
    return "sm_" + std::to_string(major * 10 + minor) + (major >= 9 ? "a" : "");
  }

  /// Aligned to 256 bytes; null when there is no room.
  void *allocate(uint64_t bytes) const {
    uint64_t rounded = (bytes + 256) / 256 * 256;
    if (!gpu)
      return std::aligned_alloc(256, rounded);
    unsigned long long pointer = 0;
    return cuMemAlloc(&pointer, rounded) == 0
               ? reinterpret_cast<void *>(pointer)
               : nullptr;
  }
  bool upload(void *to, const void *from, uint64_t bytes) const {
    if (gpu)
      return cuMemcpyHtoD(reinterpret_cast<unsigned long long>(to), from,
                          bytes) == 0;
    std::memcpy(to, from, bytes);
    return true;
  }
  /// Waits for everything that was queued on the null stream.
  bool download(void *to, const void *from, uint64_t bytes) const {
    if (gpu)
      return cuMemcpyDtoH(to, reinterpret_cast<unsigned long long>(from),
                          bytes) == 0;
    std::memcpy(to, from, bytes);
    return true;
  }

  /// New memory with small random bf16 numbers: a checkpoint's stand-in.
  void *randomBf16(uint64_t bytes, double scale) {
    void *memory = allocate(bytes);
    std::vector<uint16_t> block(std::min<uint64_t>(bytes, 1 << 24) / 2);
    std::uniform_real_distribution<float> number(-1, 1);
    for (uint16_t &element : block) {
      float value = float(scale) * number(random);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      element = uint16_t(bits >> 16);
    }
    for (uint64_t at = 0; memory && at < bytes; at += block.size() * 2)
      upload(static_cast<char *>(memory) + at, block.data(),
             std::min<uint64_t>(block.size() * 2, bytes - at));
    return memory;
  }

private:
  bool gpu = false;
  int major = 0, minor = 0;
  int (*cuMemAlloc)(unsigned long long *, size_t) = nullptr;
  int (*cuMemcpyHtoD)(unsigned long long, const void *, size_t) = nullptr;
  int (*cuMemcpyDtoH)(void *, unsigned long long, size_t) = nullptr;
  std::mt19937 random{1};
};

inline float fromBf16(uint16_t element) {
  uint32_t bits = uint32_t(element) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

} // namespace example

#endif // MOEC_EXAMPLES_COMMON_MEMORY_H
