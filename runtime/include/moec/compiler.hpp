//===- compiler.hpp - C++ wrapper of the compiler's C interface -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A header-only wrapper of compiler.h for programs that link libmoec.so.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HPP
#define MOEC_COMPILER_HPP

#include <moec/compiler.h>
#include <moec/moec.hpp>

#include <string>

namespace moec::api {

/// Compiles the text of a config into a package in memory.
inline Expected<Files> compileConfig(const std::string &text,
                                     const std::string &optionsJson = "") {
  moec_package_files *files = nullptr;
  moec_status status =
      moec_compile_config(text.c_str(), optionsJson.c_str(), &files);
  return Files::wrap(status, files);
}
/// Reports what compileConfig() would decide and why, as JSON.
inline Expected<std::string>
explainConfig(const std::string &text, const std::string &optionsJson = "") {
  moec_text *report = nullptr;
  moec_status status =
      moec_explain_config(text.c_str(), optionsJson.c_str(), &report);
  return detail::take(status, report);
}
/// Measures schedules of a config and returns the report as JSON.
inline Expected<std::string> tuneConfig(const std::string &text,
                                        const std::string &optionsJson) {
  moec_text *report = nullptr;
  moec_status status =
      moec_tune_config(text.c_str(), optionsJson.c_str(), &report);
  return detail::take(status, report);
}
/// Renders the report as an HTML page; `benchJson` may be null.
inline Expected<std::string> explainHtml(const std::string &reportJson,
                                         const char *benchJson = nullptr) {
  moec_text *page = nullptr;
  moec_status status = moec_explain_html(reportJson.c_str(), benchJson, &page);
  return detail::take(status, page);
}
/// Lists the words that a config may use, as JSON.
inline Expected<std::string> catalog() {
  moec_text *text = nullptr;
  moec_status status = moec_catalog_json(&text);
  return detail::take(status, text);
}
/// Lists the model families whose config.json can be compiled, as JSON.
inline Expected<std::string> families() {
  moec_text *text = nullptr;
  moec_status status = moec_families_json(&text);
  return detail::take(status, text);
}

} // namespace moec::api

#endif // MOEC_COMPILER_HPP
