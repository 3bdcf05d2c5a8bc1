//===- HtmlTesting.h - a report to draw -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_COMPILER_UNIT_HTMLTESTING_H
#define MOEC_TEST_COMPILER_UNIT_HTMLTESTING_H

#include "compiler/html/Page.h"

#include <nlohmann/json.hpp>

namespace moec::compiler::html {

/// Two launches with a value between them, for one GPU, with one prediction.
inline nlohmann::json smallReport() {
  return nlohmann::json::parse(R"json({
    "moec_explain": 1, "served": true, "name": "small", "max_tokens": 64,
    "scheme": "fp8_block",
    "layer": {"name": "small", "num_experts": 8, "top_k": 2,
      "hidden_size": 2048, "intermediate_size": 96,
      "intermediate_size_per_partition": 48, "in_dtype": "bf16",
      "out_dtype": "bf16", "routing": {"name": "renormalize"},
      "activation": {"name": "silu"},
      "quant": {"name": "fp8_block", "a1": {"element_type": "f8E4M3FN"},
                "w1": {"element_type": "f8E4M3FN"}},
      "origin": {"model": "SmallForCausalLM", "layer": 1, "layers": 4}},
    "targets": [{
      "arch": "sm_90a", "gpu": "h100_sxm", "backend": "grouped",
      "engine": "wgmma", "degraded": "", "realization": "native",
      "hardware": {"gpu": "h100_sxm", "bandwidth_gb_s": 3350,
                   "tensor_tflops": {"16_bit": 989, "8_bit": 1979}, "sms": 132},
      "refused": [{"backend": "grouped", "engine": "simt",
                   "code": "not_requested", "reason": "another was asked"}],
      "weights": [{"name": "w13", "role": "stored", "bytes": 1048576},
                  {"name": "w13_packed", "role": "packed", "bytes": 1048576,
                   "may_alias": "w13"}],
      "variants": [{
        "name": "up_to_64", "tokens": [1, 64], "workspace": "tokens * 64",
        "workspace_bytes": 4096,
        "buffers": [
          {"name": "t", "offset": 0, "bytes": 4096, "launches": [0, 1]}],
        "kernels": [
          {"name": "up_to_64_gate_up", "stages": ["grouped_matmul", "activate"],
           "reads": ["x", "w13_packed"], "writes": ["t"],
           "kind": "grouped_matmul", "engine": "wgmma", "tile": [64, 128, 64],
           "pipeline_stages": 4, "producer_warps": 4, "consumer_warps": 8,
           "schedule_source": "tuned", "grid": "rows * 2", "threads": 384,
           "ctas_per_sm": 1, "shared_bytes": 65536, "entry": "moec_gate_up_1"},
          {"name": "up_to_64_down", "stages": ["grouped_matmul", "combine"],
           "reads": ["t"], "writes": ["out"], "kind": "grouped_matmul",
           "engine": "wgmma", "schedule_source": "default", "grid": "rows",
           "early": true, "threads": 384, "ctas_per_sm": 1, "shared_bytes": 0,
           "entry": "moec_down_1"}],
        "predictions": [
          {"tokens": 8, "microseconds": 12.5, "kernels": [
            {"kernel": "up_to_64_gate_up", "microseconds": 8, "bytes": 6700000,
             "flops": 1e9, "bound": "memory"},
            {"kernel": "up_to_64_down", "microseconds": 5, "bytes": 3350000,
             "flops": 5e8, "bound": "latency"}]},
          {"tokens": 64, "microseconds": 25, "kernels": [
            {"kernel": "up_to_64_gate_up", "microseconds": 16,
             "bytes": 6700000, "flops": 8e9, "bound": "memory"},
            {"kernel": "up_to_64_down", "microseconds": 9, "bytes": 3350000,
             "flops": 4e9, "bound": "memory"}]}]}],
      "summary": {"scheme": "fp8_block", "computed": "native",
        "weight_bytes": 1048576, "ranges": [], "at": [
          {"tokens": 1, "variant": "up_to_64", "workspace_bytes": 256}]}}]
  })json");
}

/// A result of moec-bench for that report.
inline nlohmann::json smallBench() {
  nlohmann::json bench = nlohmann::json::parse(R"json({
    "device": "NVIDIA H100 80GB HBM3", "suspect": false, "routing": "uniform",
    "packages": [{"package": "a.moec", "name": "small", "arch": "sm_90a",
      "cells": [{"tokens": 8, "us": 10, "passes_us": [9.5, 10, 11],
        "floor_us": 7.5, "bytes": 1e7, "flops": 1.5e9, "variant": "up_to_64",
        "kernels": [{"entry": "moec_gate_up_1"},
                    {"entry": "moec_down_1"}]}]}]
  })json");
  bench["moec_bench"] = kBenchFormat;
  bench["packages"][0]["layer"] = smallReport()["layer"];
  return bench;
}

/// The page, or the error's message.
inline std::string pageOf(const nlohmann::json &report) {
  Result<std::string> page = makePage(report.dump(), std::nullopt);
  return page ? *page : page.error().message;
}
inline std::string pageOf(const nlohmann::json &report,
                          const nlohmann::json &bench) {
  Result<std::string> page =
      makePage(report.dump(), NamedText{"b.json", bench.dump()});
  return page ? *page : page.error().message;
}

} // namespace moec::compiler::html

#endif // MOEC_TEST_COMPILER_UNIT_HTMLTESTING_H
