//===- Memory.h - the memory of the examples --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine has these already and a small program has not: memory on the device
// and data in it. Opens the CUDA driver, so that the examples build where no
// toolkit is; without a GPU it is host memory. Nothing here is moec: an example
// stands alone over the C ABI, so that it can be pasted into an engine. Hence
// it does not share the device wrapper of tools/.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_EXAMPLES_COMMON_MEMORY_H
#define MOEC_EXAMPLES_COMMON_MEMORY_H

#include <algorithm>
#include <cmath>
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
  /// moec's name of this GPU's arch; from 9.0 on, the arch with all features.
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

  /// New memory with random numbers of an element type, as moec_value names
  /// it, from -scale to scale, or from scale / 2 to scale where `positive`: a
  /// checkpoint's stand-in. Codes of 4 and 6 bits are all numbers. Indices are
  /// 0. Null: no memory, or no such type.
  void *random(const std::string &type, uint64_t bytes, double scale,
               bool positive) {
    std::uniform_real_distribution<float> number(positive ? 0.5f : -1.0f, 1);
    std::uniform_int_distribution<int> code(0, 255);
    // All elements of a block are of the same size, 4 bytes at most.
    std::vector<unsigned char> block(std::min<uint64_t>(bytes, 1 << 24));
    size_t size = 1;
    for (size_t at = 0; at < block.size(); at += size) {
      const float value = float(scale) * number(generator);
      uint32_t bits = 0;
      if (type == "f32")
        std::memcpy(&bits, &value, size = 4);
      else if (type == "bf16")
        bits = truncated(value, 8, 7), size = 2;
      else if (type == "f16")
        bits = truncated(value, 5, 10), size = 2;
      else if (type == "f8E4M3FN")
        bits = truncated(value, 4, 3);
      else if (type == "f8E5M2")
        bits = truncated(value, 5, 2);
      else if (type == "f8E8M0FNU")
        bits = uint32_t(127 + std::ilogb(value));
      else if (type == "i8")
        bits = uint32_t(code(generator) % 16);
      else if (type == "i4" || type == "f4E2M1FN" || type.starts_with("f6"))
        bits = uint32_t(code(generator));
      else if (type != "i32" && type != "i64")
        return nullptr;
      std::memcpy(&block[at], &bits, std::min(size, block.size() - at));
    }
    void *memory = allocate(bytes);
    for (uint64_t at = 0; memory && at < bytes; at += block.size())
      upload(static_cast<char *>(memory) + at, block.data(),
             std::min<uint64_t>(block.size(), bytes - at));
    return memory;
  }

private:
  /// A binary float of so many bits, without rounding; 0 below its normal
  /// numbers.
  static uint32_t truncated(float value, int exponentBits, int mantissaBits) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const int exponent =
        int(bits >> 23 & 255) - 127 + (1 << (exponentBits - 1)) - 1;
    const uint32_t sign = bits >> 31 << (exponentBits + mantissaBits);
    if (exponent < 1)
      return sign;
    return sign | uint32_t(exponent) << mantissaBits |
           (bits & 0x7fffff) >> (23 - mantissaBits);
  }

  bool gpu = false;
  int major = 0, minor = 0;
  int (*cuMemAlloc)(unsigned long long *, size_t) = nullptr;
  int (*cuMemcpyHtoD)(unsigned long long, const void *, size_t) = nullptr;
  int (*cuMemcpyDtoH)(void *, unsigned long long, size_t) = nullptr;
  std::mt19937 generator{1};
};

inline float fromBf16(uint16_t element) {
  uint32_t bits = uint32_t(element) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

} // namespace example

#endif // MOEC_EXAMPLES_COMMON_MEMORY_H
