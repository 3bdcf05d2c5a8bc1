//===- Cases.cpp - many inputs in one process -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cases share only the MLIR context, which owns types and attributes. Each
// case's line is written before the next case starts. If the process ends
// early, the first case without a line caused it.
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/Input.h"
#include "runtime/support/Files.h"
#include "runtime/support/Guard.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

/// Runs a case and returns its JSON line.
static ordered_json answer(Case &one, RunCase run, mlir::MLIRContext &context) {
  const auto start = std::chrono::steady_clock::now();
  std::string printed, error = "ended by an exception, see standard error";
  one.options.printed = &printed;
  const int status = guarded("moec", [&] {
    const Result<void> done = run(one.options, context);
    if (!done)
      error = done.error().message;
    return done ? 0 : 1;
  });
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  ordered_json made = {{"line", one.line},
                       {"input", one.options.input},
                       {"status", status},
                       {"seconds", seconds.count()}};
  made[status == 0 ? "text" : "error"] = status == 0 ? printed : error;
  return made;
}

int moec::compiler::runCases(std::vector<Case> cases, RunCase run) {
  const std::unique_ptr<mlir::MLIRContext> context = makeContext();
  int status = 0;
  for (Case &one : cases) {
    const ordered_json made = answer(one, run, *context);
    status = std::max(status, made["status"].get<int>());
    fmt::print("{}\n", made.dump(-1, ' ', false,
                                 ordered_json::error_handler_t::replace));
    if (std::fflush(stdout) != 0) {
      fmt::print(stderr, "moec: {}\n",
                 fileError("cannot write", "standard output").message);
      return 1;
    }
  }
  return status;
}
