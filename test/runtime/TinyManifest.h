//===- TinyManifest.h - a small complete manifest for tests -*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bf16 layer of 4 experts, top 2, hidden 16, intermediate 16, for one target,
// with everything that a run needs: two variants (one with routing and
// permuting fused), a packed weight, workspace whose regions share bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_TINYMANIFEST_H
#define MOEC_TEST_RUNTIME_TINYMANIFEST_H

#include "runtime/package/Package.h"

#include <algorithm>
#include <string>
#include <vector>

namespace moec::test {

struct TinyShape {
  int64_t experts = 4, topK = 2, hidden = 16, intermediate = 16;
  int64_t tileRows = 16, smallTokens = 8, maxTokens = 64, blockTokens = 8;
};

/// Lays fields out as C++ does.
class BlockBuilder {
public:
  ArgumentField &add(std::string name, ArgumentField::Kind kind) {
    ArgumentField field;
    field.name = std::move(name);
    field.kind = kind;
    block.fields.push_back(field);
    return block.fields.back();
  }
  BlockBuilder &pointer(const std::string &name, std::string value = "") {
    add(name, ArgumentField::Kind::Pointer).value =
        value.empty() ? name : value;
    return *this;
  }
  BlockBuilder &rowStride(const std::string &name, std::string value) {
    add(name, ArgumentField::Kind::RowStride).value = std::move(value);
    return *this;
  }
  /// A pointer, and of which type a run gives it.
  BlockBuilder &chosen(const std::string &name) {
    pointer(name);
    add(name + "_type", ArgumentField::Kind::ElementType).value = name;
    return *this;
  }
  BlockBuilder &size(const std::string &name, Expression expression) {
    ArgumentField &field = add(name, ArgumentField::Kind::Size);
    field.expression = std::move(expression);
    field.elementType = "i32";
    return *this;
  }
  BlockBuilder &firstExpert() {
    add("first_expert", ArgumentField::Kind::FirstExpert);
    return *this;
  }
  ArgumentBlock build() {
    int64_t end = 0;
    for (ArgumentField &field : block.fields) {
      int64_t alignment =
          field.kind == ArgumentField::Kind::TensorMap ? 64 : field.bytes();
      block.alignment = std::max(block.alignment, alignment);
      field.offset = (end + alignment - 1) / alignment * alignment;
      end = field.offset + field.bytes();
    }
    block.bytes =
        (end + block.alignment - 1) / block.alignment * block.alignment;
    return block;
  }

private:
  ArgumentBlock block;
};

/// A stage whose operands and results are fields of the same name, unless
/// spelled "name=field".
Stage stage(std::string op, const std::vector<std::string> &operands,
            const std::vector<std::string> &results,
            const nlohmann::json &attributes);
Value value(std::string name, ValueRole role, std::vector<std::string> types,
            std::vector<Expression> shape);
Kernel kernel(const std::string &name, BlockBuilder block,
              std::vector<Stage> stages);
Launch launch(std::string kernel, Expression ctas);

Manifest tinyManifest(const TinyShape &shape = {});
/// The manifest with files: sources and headers that say their name.
PackageFiles tinyPackage(const TinyShape &shape = {});

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_TINYMANIFEST_H
