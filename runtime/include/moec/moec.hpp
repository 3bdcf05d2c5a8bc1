//===- moec.hpp - the C interface as C++ objects --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Header only, over moec.h: handles that destroy themselves, statuses that
// carry their text, vectors instead of pointer and count. No exceptions. C++17.
//
//   auto package = moec::api::Package::load("qwen3", loadOptions());
//   if (!package)
//     return fail(package.error().message);
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_MOEC_HPP
#define MOEC_MOEC_HPP

#include <moec/moec.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace moec::api {

/// A status and its text.
struct Failure {
  moec_status status = MOEC_OK;
  std::string message;
};

/// A T or a Failure; Expected<void> is success or a Failure. Look before you
/// take.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T given) : value(std::move(given)) {}
  Expected(Failure given) : failure(std::move(given)) {}
  explicit operator bool() const { return failure.status == MOEC_OK; }
  T &operator*() { return value; }
  T *operator->() { return &value; }
  const Failure &error() const { return failure; }

private:
  T value{};
  Failure failure;
};

template <> class [[nodiscard]] Expected<void> {
public:
  Expected() = default;
  Expected(Failure given) : failure(std::move(given)) {}
  explicit operator bool() const { return failure.status == MOEC_OK; }
  const Failure &error() const { return failure; }

private:
  Failure failure;
};

namespace detail {
template <typename Handle, void (*destroy)(Handle *)> struct Destroy {
  void operator()(Handle *handle) const { destroy(handle); }
};
template <typename Handle, void (*destroy)(Handle *)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;

inline Failure lastFailure(moec_status status) {
  return {status, moec_last_error()};
}
inline Expected<void> toExpected(moec_status status) {
  return status == MOEC_OK ? Expected<void>()
                           : Expected<void>(lastFailure(status));
}
} // namespace detail

/// Options with struct_size set and all else zero, to be filled in.
inline moec_load_options loadOptions() {
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  return options;
}
inline moec_layer_options layerOptions() {
  moec_layer_options options = {};
  options.struct_size = sizeof(options);
  return options;
}
inline moec_run_options runOptions() {
  moec_run_options options = {};
  options.struct_size = sizeof(options);
  return options;
}

/// The files of a package in memory.
class Files {
public:
  Files() = default;
  static Expected<Files> read(const std::string &folder) {
    moec_package_files *made = nullptr;
    moec_status status = moec_package_files_read(folder.c_str(), &made);
    return wrap(status, made);
  }
  Expected<void> write(const std::string &folder) const {
    return detail::toExpected(
        moec_package_files_write(handle.get(), folder.c_str()));
  }
  /// What a function of the C interface gave (moec_compile_config, say).
  static Expected<Files> wrap(moec_status status, moec_package_files *given) {
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Files files;
    files.handle.reset(given);
    return Expected<Files>(std::move(files));
  }
  moec_package_files *get() const { return handle.get(); }

private:
  detail::Owned<moec_package_files, moec_package_files_destroy> handle;
};

/// Code for one device.
class Package {
public:
  Package() = default;
  static Expected<Package> load(const std::string &folder,
                                const moec_load_options &options) {
    moec_package *made = nullptr;
    moec_status status = moec_package_load(folder.c_str(), &options, &made);
    return wrap(status, made);
  }
  static Expected<Package> load(const Files &files,
                                const moec_load_options &options) {
    moec_package *made = nullptr;
    moec_status status = moec_package_load_files(files.get(), &options, &made);
    return wrap(status, made);
  }

  std::string name() const { return moec_package_name(get()); }
  std::string arch() const { return moec_package_arch(get()); }
  std::string device() const { return moec_package_device(get()); }
  int64_t maxTokens() const { return moec_package_max_tokens(get()); }
  std::string loadReport() const {
    return moec_package_load_report_json(get());
  }
  Expected<uint64_t> workspaceBytes(int64_t tokens) const {
    uint64_t bytes = 0;
    moec_status status = moec_package_workspace_bytes(get(), tokens, &bytes);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    return bytes;
  }
  Expected<uint64_t> valueBytes(const std::string &value,
                                int64_t tokens) const {
    uint64_t bytes = 0;
    moec_status status =
        moec_package_value_bytes(get(), value.c_str(), tokens, &bytes);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    return bytes;
  }
  moec_package *get() const { return handle.get(); }

private:
  static Expected<Package> wrap(moec_status status, moec_package *given) {
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Package package;
    package.handle.reset(given);
    return Expected<Package>(std::move(package));
  }
  detail::Owned<moec_package, moec_package_destroy> handle;
};

/// Packed weights of one layer.
class Layer {
public:
  Layer() = default;
  static Expected<Layer>
  create(const Package &package, const std::vector<moec_tensor> &weights,
         void *stream, const moec_layer_options &options = layerOptions()) {
    moec_layer *made = nullptr;
    moec_status status = moec_layer_create(
        package.get(), weights.data(), weights.size(), &options, stream, &made);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Layer layer;
    layer.handle.reset(made);
    return Expected<Layer>(std::move(layer));
  }
  Expected<void> repack(const std::vector<moec_tensor> &weights, int64_t first,
                        int64_t count, void *stream) {
    return detail::toExpected(moec_layer_repack(get(), weights.data(),
                                                weights.size(), first, count,
                                                nullptr, 0, stream));
  }
  moec_layer *get() const { return handle.get(); }

private:
  detail::Owned<moec_layer, moec_layer_destroy> handle;
};

/// Workspace and state of one stream in flight. Runs on two streams that no
/// event orders are not detected, and their outputs are undefined: see
/// moec_context_create.
class Context {
public:
  Context() = default;
  static Expected<Context> create(const Package &package, void *workspace,
                                  uint64_t bytes) {
    moec_context *made = nullptr;
    moec_status status =
        moec_context_create(package.get(), workspace, bytes, &made);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Context context;
    context.handle.reset(made);
    return Expected<Context>(std::move(context));
  }
  Expected<void> run(const Layer &layer, void *stream,
                     const std::vector<moec_tensor> &tensors, int64_t tokens,
                     const moec_run_options &options = runOptions()) {
    return detail::toExpected(moec_run(layer.get(), get(), stream,
                                       tensors.data(), tensors.size(), tokens,
                                       &options));
  }
  moec_context *get() const { return handle.get(); }

private:
  detail::Owned<moec_context, moec_context_destroy> handle;
};

} // namespace moec::api

#endif // MOEC_MOEC_HPP
