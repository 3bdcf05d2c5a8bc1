//===- CheckpointTesting.h - small checkpoints of a test --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_WEIGHTS_CHECKPOINTTESTING_H
#define MOEC_TEST_RUNTIME_WEIGHTS_CHECKPOINTTESTING_H

#include "runtime/weights/Safetensors.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace moec::test {

/// A tensor of a file.
struct Stored {
  std::string type;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline Stored filled(const std::string &type, std::vector<int64_t> shape,
                     char byte = 0) {
  int64_t bits = weights::bitsOf(type);
  for (int64_t extent : shape)
    bits *= extent;
  return {type, std::move(shape), std::string(size_t(bits / 8), byte)};
}

/// A safetensors file of these.
inline std::string fileOf(const std::map<std::string, Stored> &tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto &[name, tensor] : tensors) {
    header[name] = {
        {"dtype", tensor.type},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  std::string made;
  for (size_t i = 0; i < 8; ++i)
    made += char(text.size() >> (8 * i) & 0xff);
  return made + text + data;
}

/// A folder of a test's own.
class Folder {
public:
  Folder()
      : path(testing::TempDir() + "moec-" +
             testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  }
  std::string path;
};

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_WEIGHTS_CHECKPOINTTESTING_H
