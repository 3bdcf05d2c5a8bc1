//===- PackageLayer.h - the layer of a package ---------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package has its layer as IR. Its manifest says for what it was compiled.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_PACKAGELAYER_H
#define MOEC_COMPILER_TUNE_PACKAGELAYER_H

#include "compiler/CompileOptions.h"
#include "compiler/tune/TuneOptions.h"

namespace moec::compiler {

/// Whether the path is a package's folder.
bool isPackage(const std::string &path);

/// The layer of a package, as a source whose path is that of the file in the
/// package. `options` become those that the package was compiled with. Options
/// that contradict it are refused.
Result<TuneSource> layerOfPackage(const std::string &path,
                                  CompileOptions &options);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_PACKAGELAYER_H
