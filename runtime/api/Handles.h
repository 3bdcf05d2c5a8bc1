//===- Handles.h - handles of the C interface -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The opaque handles of moec/moec.h and the error message of each thread. The
// implementations of moec/moec.h (CApi*.cpp) and of moec/compiler.h
// (libmoec.so) include this header.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_HANDLES_H
#define MOEC_RUNTIME_API_HANDLES_H

#include "runtime/api/Context.h"
#include "runtime/host/RankGroup.h"
#include "runtime/include/moec/moec.h"
#include "runtime/weights/LoadWeights.h"

#include <exception>

struct moec_text {
  std::string text;
};

struct moec_package_files {
  moec::Shares shares;
};

struct moec_package {
  std::shared_ptr<const moec::runtime::Package> package;
  /// Strings that queries return.
  std::string manifestJson, reportJson;
  struct Line {
    const moec::Value *value;
    std::string elementTypes;
  };
  std::vector<Line> values; ///< inputs, outputs and weights
};

struct moec_layer {
  std::unique_ptr<moec::runtime::Layer> layer;
};

struct moec_context {
  std::unique_ptr<moec::runtime::Context> context;
};

struct moec_comm_group {
  std::shared_ptr<moec::host::RankGroup> group;
};

struct moec_comm {
  std::shared_ptr<moec::comm::Communicator> communicator;
};

struct moec_checkpoint {
  std::shared_ptr<moec::weights::Checkpoint> files;
};

struct moec_weights {
  std::shared_ptr<const moec::runtime::Package> package;
  /// The files that `loader` reads.
  std::shared_ptr<moec::weights::Checkpoint> files;
  moec::weights::WeightLoader loader;
};

namespace moec::runtime {

/// Stores the message for moec_last_error() and returns the status code.
moec_status fail(const Error &error);
moec_status fail(ErrorCode code, std::string message);

/// Runs the body of a C function. Converts an error of the Result to a status.
/// Exceptions, for example for out of memory, are converted, too, so that none
/// leaves the library.
template <typename Body> moec_status guarded(Body body) {
  try {
    Result<void> result = body();
    return result ? MOEC_OK : fail(result.error());
  } catch (const std::exception &exception) {
    return fail(ErrorCode::Internal, exception.what());
  } catch (...) {
    return fail(ErrorCode::Internal, "an unknown exception");
  }
}

/// Returns the error for a NULL argument.
Error nullArgument(const char *function, const char *argument);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_HANDLES_H
