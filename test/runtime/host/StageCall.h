//===- StageCall.h - one stage of the host device in a test -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls a stage with the numbers of a test, without a layer around it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_HOST_STAGECALL_H
#define MOEC_TEST_RUNTIME_HOST_STAGECALL_H

#include "runtime/host/KernelRun.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moec::test {

class StageCall {
public:
  explicit StageCall(std::string op, nlohmann::json attributes = {}) {
    stage.op = std::move(op);
    if (attributes.is_object())
      *stage.attributes = std::move(attributes);
    else
      *stage.attributes = nlohmann::json::object();
    kernel.name = "under_test";
    kernel.threads = 256;
  }

  /// An operand with these numbers, row by row.
  void operand(const std::string &name, const std::string &type, int64_t rows,
               const std::vector<float> &numbers) {
    stage.operands[name] = name;
    View &view = memory(name, type, rows, int64_t(numbers.size()) / rows);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto row = int64_t(i) / view.columns;
      const auto column = int64_t(i) % view.columns;
      if (isInteger(view.storage))
        view.setInteger(row, column, int64_t(numbers[i]));
      else
        host::storeFloats(view.storage, &numbers[i], 1, view.at(row, column));
    }
  }
  /// A result, which is filled with zeros.
  void result(const std::string &name, const std::string &type, int64_t rows,
              int64_t columns) {
    stage.results[name] = name;
    memory(name, type, rows, columns);
  }
  /// A value of the window, `offset` bytes behind its begin.
  void inWindow(const std::string &name, const std::string &type, int64_t rows,
                int64_t columns, int64_t offset) {
    add(name, type, rows, columns,
        reinterpret_cast<std::byte *>(window->own() + uint64_t(offset)),
        ValueRole::Window);
  }
  /// An argument of the kernel, which the stage may name, too.
  void size(const std::string &name, int64_t number) {
    field(name, ArgumentField::Kind::Size).elementType = "i32";
    numbers.push_back(uint64_t(number));
  }
  void peers() {
    field("peers", ArgumentField::Kind::Peers);
    numbers.push_back(window->peers());
  }

  Result<void> run(Result<void> (*perform)(host::KernelRun &)) {
    std::vector<std::byte> block(8 * numbers.size());
    std::memcpy(block.data(), numbers.data(), block.size());
    host::KernelRun run(manifest, target, kernel);
    run.arguments = block;
    run.grid = {ctas, 1, 1};
    run.stage = &stage;
    run.window = window;
    run.ranges = ranges;
    return perform(run);
  }

  /// The numbers of a value, row by row.
  std::vector<float> numbersOf(const std::string &name) const {
    const View &view = views.at(name);
    std::vector<float> all;
    for (int64_t row = 0; row < view.rows; ++row)
      for (int64_t column = 0; column < view.columns; ++column)
        all.push_back(isInteger(view.storage) ? float(view.integer(row, column))
                                              : view.number(row, column));
    return all;
  }

  Stage stage;
  int64_t ctas = 64; ///< of the launch
  const comm::Window *window = nullptr;

private:
  using View = host::View;

  static bool isInteger(host::Storage storage) {
    return storage == host::Storage::I32 || storage == host::Storage::I64;
  }
  ArgumentField &field(const std::string &name, ArgumentField::Kind kind) {
    ArgumentField &made = kernel.arguments.fields.emplace_back();
    made.name = name;
    made.kind = kind;
    made.offset = 8 * int64_t(numbers.size());
    return made;
  }
  View &memory(const std::string &name, const std::string &type, int64_t rows,
               int64_t columns) {
    std::vector<std::byte> &own = bytes[name];
    own.resize(size_t(rows * columns * 8));
    return add(name, type, rows, columns, own.data(), ValueRole::Workspace);
  }
  View &add(const std::string &name, const std::string &type, int64_t rows,
            int64_t columns, std::byte *data, ValueRole role) {
    Value value;
    value.name = name;
    value.role = role;
    value.elementTypes = {type};
    value.shape = {Expression(rows), Expression(columns)};
    manifest.values.push_back(value);
    names.push_back(std::make_unique<std::string>(name));
    field(name, ArgumentField::Kind::Pointer).value = name;
    const auto address = reinterpret_cast<uint64_t>(data);
    numbers.push_back(address);
    const host::Storage storage = host::storageOf(type);
    ranges.push_back(
        {address,
         address + uint64_t(host::storageBytes(storage, rows * columns)),
         *names.back()});
    return views[name] = {data, storage, rows, columns, columns};
  }

  Manifest manifest;
  Target target;
  Kernel kernel;
  std::map<std::string, std::vector<std::byte>> bytes;
  std::map<std::string, View> views;
  std::vector<std::unique_ptr<std::string>> names; ///< of the ranges
  std::vector<uint64_t> numbers; ///< the arguments, 8 bytes each
  std::vector<host::Range> ranges;
};

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_HOST_STAGECALL_H
