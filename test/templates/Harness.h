//===- Harness.h - cubins on a GPU, by the driver alone ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the checks and the timings of the templates share: lines of a plan
// (key=value words), cubins with their launch numbers, device buffers, argument
// blocks, and conversions of the 16-bit types. Errors end the program.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_HARNESS_H
#define MOEC_TEST_TEMPLATES_HARNESS_H

#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace harness {

inline void check(CUresult status, const char *what) {
  if (status == CUDA_SUCCESS)
    return;
  const char *text = nullptr;
  cuGetErrorString(status, &text);
  std::fprintf(stderr, "%s: %s\n", what, text ? text : "unknown");
  std::exit(3);
}
#define CHECK_CUDA(call) ::harness::check(call, #call)

/// Makes the first GPU's context current, for the whole program; how many
/// multiprocessors it has.
inline int openGpu() {
  CUcontext context;
  CHECK_CUDA(cuInit(0));
  CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CUDA(cuCtxSetCurrent(context));
  int processors;
  CHECK_CUDA(cuDeviceGetAttribute(&processors,
                                  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  return processors;
}

inline int numberIn(const std::string &text) {
  return int(std::strtol(text.c_str(), nullptr, 10));
}

/// One line of the plan.
struct Line {
  std::string verb;
  std::map<std::string, std::string> words;
  const std::string &text(const std::string &key) const {
    auto found = words.find(key);
    if (found == words.end()) {
      std::fprintf(stderr, "a %s line lacks %s\n", verb.c_str(), key.c_str());
      std::exit(2);
    }
    return found->second;
  }
  int number(const std::string &key, int otherwise) const {
    auto found = words.find(key);
    return found == words.end() ? otherwise : numberIn(found->second);
  }
  int number(const std::string &key) const { return numberIn(text(key)); }
  std::vector<std::string> list(const std::string &key) const {
    std::vector<std::string> parts;
    std::stringstream stream(text(key));
    for (std::string part; std::getline(stream, part, ',');)
      parts.push_back(part);
    return parts;
  }
};

inline std::vector<Line> readPlan(const std::string &path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    std::stringstream stream(text);
    Line line;
    stream >> line.verb;
    for (std::string word; stream >> word;) {
      size_t equals = word.find('=');
      line.words[word.substr(0, equals)] = word.substr(equals + 1);
    }
    if (!line.verb.empty())
      lines.push_back(line);
  }
  return lines;
}

/// A cubin's entry with the numbers that a launch needs.
struct Kernel {
  Line line;
  CUfunction function = nullptr;
};

inline Kernel loadKernel(const Line &line, const std::string &folder) {
  Kernel kernel{line, nullptr};
  std::ifstream file(folder + "/" + line.text("file"), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  CUmodule module;
  CHECK_CUDA(cuModuleLoadData(&module, bytes.str().data()));
  CHECK_CUDA(cuModuleGetFunction(&kernel.function, module,
                                 line.text("entry").c_str()));
  if (line.number("shared", 0) > 48 * 1024)
    CHECK_CUDA(cuFuncSetAttribute(
        kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        line.number("shared")));
  return kernel;
}

/// An argument block with natural alignment.
struct Arguments {
  std::vector<char> bytes;
  template <class T> Arguments &add(const T &value) {
    size_t at = (bytes.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes.resize(at);
    const char *raw = reinterpret_cast<const char *>(&value);
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
    return *this;
  }
};

inline void launch(CUstream stream, const Kernel &kernel, long long grid,
                   Arguments arguments, bool programmatic) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = unsigned(grid);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = unsigned(kernel.line.number("threads"));
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = unsigned(kernel.line.number("shared", 0));
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = programmatic ? 1 : 0;
  // A block with a tensor map is a multiple of 64 bytes.
  arguments.bytes.resize((arguments.bytes.size() + 63) / 64 * 64);
  void *parameters[] = {arguments.bytes.data()};
  CHECK_CUDA(cuLaunchKernelEx(&config, kernel.function, parameters, nullptr));
}

/// Copies and waits: cuMemcpyHtoD alone returns when pageable memory is read,
/// and streams that do not wait for the legacy one could begin before.
inline void upload(CUdeviceptr to, const void *from, size_t bytes) {
  CHECK_CUDA(cuMemcpyHtoD(to, from, bytes));
  CHECK_CUDA(cuStreamSynchronize(CU_STREAM_LEGACY));
}

/// Device memory, filled with 0xFF when made; 256 bytes of guard behind it.
struct Buffer {
  CUdeviceptr at = 0;
  size_t bytes = 0;
  Buffer() = default;
  explicit Buffer(size_t count) { make(count); }
  void make(size_t count) {
    release();
    bytes = count;
    CHECK_CUDA(cuMemAlloc(&at, bytes + 256));
    poison();
  }
  void poison() { CHECK_CUDA(cuMemsetD8(at, 0xFF, bytes + 256)); }
  void release() {
    if (at)
      cuMemFree(at);
    at = 0;
  }
  bool guardIntact() const {
    unsigned char guard[256];
    CHECK_CUDA(cuMemcpyDtoH(guard, at + bytes, 256));
    for (unsigned char byte : guard)
      if (byte != 0xFF)
        return false;
    return true;
  }
  template <class T> std::vector<T> read() const {
    std::vector<T> values(bytes / sizeof(T));
    CHECK_CUDA(cuMemcpyDtoH(values.data(), at, values.size() * sizeof(T)));
    return values;
  }
  template <class T> void write(const std::vector<T> &values) {
    upload(at, values.data(), values.size() * sizeof(T));
  }
};

enum class Type { F32, F16, BF16 };
inline Type typeOf(const std::string &name) {
  return name == "f32" ? Type::F32 : name == "f16" ? Type::F16 : Type::BF16;
}
inline size_t sizeOf(Type type) { return type == Type::F32 ? 4 : 2; }

/// As kernels are told what came: moe::ElementCode.
inline int codeOf(Type type) {
  return type == Type::F32 ? 0 : type == Type::F16 ? 1 : 2;
}
inline constexpr int kCodeI64 = 3, kCodeI32 = 4;

/// "edge@f16": takes "@f16" off; without, `otherwise`.
inline Type takeType(std::string &pattern, Type otherwise) {
  size_t at = pattern.find('@');
  if (at == std::string::npos)
    return otherwise;
  Type type = typeOf(pattern.substr(at + 1));
  pattern.resize(at);
  return type;
}

inline float floatOf(uint16_t bits, Type type) {
  if (type == Type::BF16) {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                : exponent ? std::ldexp(float(mantissa + 1024), exponent - 25)
                           : std::ldexp(float(mantissa), -24);
  return bits & 0x8000 ? -value : value;
}

/// Rounds to nearest even.
inline uint16_t bitsOf(float value, Type type) {
  if (std::isnan(value))
    return 0x7fff;
  uint32_t word;
  std::memcpy(&word, &value, 4);
  if (type == Type::BF16)
    return uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
  uint16_t sign = uint16_t(word >> 16 & 0x8000);
  double size = std::fabs(double(value));
  if (size >= 65520)
    return sign | 0x7c00;
  if (size < std::ldexp(1.0, -14))
    return uint16_t(sign + std::lrint(std::ldexp(size, 24)));
  int exponent = std::ilogb(size);
  long mantissa = std::lrint(std::ldexp(size, 10 - exponent)) - 1024;
  return uint16_t(sign + ((exponent + 15) << 10) + mantissa);
}

inline float rounded(float value, Type type) {
  return type == Type::F32 ? value : floatOf(bitsOf(value, type), type);
}

inline void writeFloats(Buffer &buffer, const std::vector<float> &values,
                        Type type) {
  if (type == Type::F32)
    return buffer.write(values);
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    bits[i] = bitsOf(values[i], type);
  buffer.write(bits);
}

inline std::vector<float> readFloats(CUdeviceptr at, size_t count, Type type) {
  std::vector<float> values(count);
  if (type == Type::F32) {
    CHECK_CUDA(cuMemcpyDtoH(values.data(), at, count * 4));
    return values;
  }
  std::vector<uint16_t> bits(count);
  CHECK_CUDA(cuMemcpyDtoH(bits.data(), at, count * 2));
  for (size_t i = 0; i < count; ++i)
    values[i] = floatOf(bits[i], type);
  return values;
}

inline long long ceilDiv(long long a, long long b) { return (a + b - 1) / b; }

} // namespace harness

#endif // MOEC_TEST_TEMPLATES_HARNESS_H
