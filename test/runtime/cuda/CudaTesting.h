//===- CudaTesting.h - a tiny package for the fake driver -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_CUDA_CUDATESTING_H
#define MOEC_TEST_RUNTIME_CUDA_CUDATESTING_H

#include "test/runtime/TinyManifest.h"
#include "test/runtime/api/ApiTesting.h"
#include "test/runtime/cuda/FakeCuda.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace moec::test {

/// Before the runtime looks for a driver; this program is linked with that one.
inline const int kDriverIsSet =
    ::setenv("MOEC_CUDA_DRIVER_PATH", MOEC_FAKE_CUDA, 1) +
    ::unsetenv("MOEC_STRICT");

/// A package with something for a cubin in the place of each kernel's, whose
/// variant `of_some` serves what `large` does, by cooperative kernels, on GPUs
/// of 100 SMs or more.
inline PackageFiles loadablePackage() {
  PackageFiles package = tinyPackage();
  Target &target = package.manifest.targets[0];
  const auto large = std::find_if(
      target.variants.begin(), target.variants.end(),
      [](const Variant &variant) { return variant.name == "large"; });
  Variant ofSome = *large;
  ofSome.name = "of_some";
  ofSome.minSms = 100;
  Kernel waits = *findKernel(target, ofSome.launches.back().kernel);
  waits.name = "waits";
  waits.entry = "moec_waits_90a";
  waits.cooperative = true;
  target.kernels.push_back(waits);
  Launch &last = ofSome.launches.back();
  last.kernel = waits.name;
  last.grid = {};
  last.grid.persistent = true;
  last.grid.tiles = Expression::symbol("rows");
  last.grid.ctasPerSm = 1;
  target.variants.insert(large, ofSome);
  for (Kernel &kernel : target.kernels) {
    kernel.cubin = "sm_90a/" + kernel.name + ".cubin";
    package.files[kernel.cubin] = "the cubin of " + kernel.name;
  }
  hashFiles(package);
  return package;
}

/// A package and a layer of weights that are packed already.
inline void loadPacked(PackageFiles files,
                       const std::vector<moec_tensor> &tensors,
                       moec_package *&package, moec_layer *&layer,
                       int32_t ordinalPlusOne = 0) {
  const moec_package_files handle{{std::move(files)}};
  moec_load_options load = {};
  load.struct_size = sizeof(load);
  load.cache_dir = "";
  load.ordinal_plus_one = ordinalPlusOne;
  EXPECT_EQ(kDriverIsSet, 0);
  EXPECT_EQ(moec_package_load_files(&handle, &load, &package), MOEC_OK)
      << moec_last_error();
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  options.already_packed = 1;
  EXPECT_EQ(moec_layer_create(package, tensors.data(), tensors.size(), &options,
                              nullptr, &layer),
            MOEC_OK)
      << moec_last_error();
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_CUDA_CUDATESTING_H
