//===- WindowManifest.h - a manifest of ranks with windows ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiny manifest as that of two ranks that write into each other's memory:
// its last kernel is told where the windows are.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_WINDOWMANIFEST_H
#define MOEC_TEST_RUNTIME_WINDOWMANIFEST_H

#include "test/runtime/TinyManifest.h"

#include <set>

namespace moec::test {

/// Adds a field behind the others of a block.
inline ArgumentField &addField(ArgumentBlock &block, std::string name,
                               ArgumentField::Kind kind) {
  ArgumentField field;
  field.name = std::move(name);
  field.kind = kind;
  const int64_t end = block.fields.back().offset + block.fields.back().bytes();
  field.offset = (end + 7) / 8 * 8;
  block.bytes =
      (field.offset + 7 + block.alignment) / block.alignment * block.alignment;
  block.fields.push_back(field);
  return block.fields.back();
}

/// Gives the first target windows, and the kernel of each variant's last launch
/// the words of its own, the table of all, the status and the rank.
inline void addWindow(Manifest &m) {
  Target &t = m.targets[0];
  m.tokenRanks = 2;
  t.windowRanks = 2;
  t.windowBytes = 256 + m.maxTokens * 32;
  Value words = value("exchange_words", ValueRole::Window, {"i64"}, {14});
  words.alignment = kWindowAlignment;
  Value received = *findValue(m, t, "out");
  received.name = "received";
  received.role = ValueRole::Window;
  received.alignment = kWindowAlignment;
  received.callerRowStride = false;
  t.values.push_back(words);
  t.values.push_back(received);
  t.windowRegions = {{"exchange_words", 0}, {"received", 256}};
  std::set<std::string> told;
  for (const Variant &variant : t.variants)
    for (Kernel &kernel : t.kernels)
      if (kernel.name == variant.launches.back().kernel &&
          told.insert(kernel.name).second) {
        ArgumentBlock &block = kernel.arguments;
        addField(block, "words", ArgumentField::Kind::Pointer).value =
            "exchange_words";
        addField(block, "received", ArgumentField::Kind::Pointer).value =
            "received";
        addField(block, "peers", ArgumentField::Kind::Peers);
        addField(block, "status", ArgumentField::Kind::Status);
        ArgumentField &rank =
            addField(block, "rank", ArgumentField::Kind::Size);
        rank.expression = Expression::symbol("rank");
        rank.elementType = "i32";
      }
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_WINDOWMANIFEST_H
