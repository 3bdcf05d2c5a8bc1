//===- moec.hpp - the C interface as C++ classes --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A header-only C++17 wrapper of moec.h: handles that destroy themselves,
// errors that carry their message, and vectors instead of pointer and count.
// The wrapper itself throws no exceptions. Errors, ownership and thread safety
// are the same as for the C functions.
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

/// A status and its error message.
struct Failure {
  moec_status status = MOEC_OK;
  std::string message;
};

/// A T or a Failure; Expected<void> is success or a Failure. Test it with
/// operator bool before accessing the value.
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
template <typename Options> Options sized() {
  Options options = {};
  options.struct_size = sizeof(options);
  return options;
}
} // namespace detail

/// Return an options struct with struct_size set and all other fields zero.
inline moec_load_options loadOptions() {
  return detail::sized<moec_load_options>();
}
inline moec_layer_options layerOptions() {
  return detail::sized<moec_layer_options>();
}
inline moec_unpack_options unpackOptions() {
  return detail::sized<moec_unpack_options>();
}
inline moec_context_options contextOptions() {
  return detail::sized<moec_context_options>();
}
inline moec_weights_options weightsOptions() {
  return detail::sized<moec_weights_options>();
}
inline moec_run_options runOptions() {
  return detail::sized<moec_run_options>();
}

/// A named tensor with its shape, in memory of the package's device.
struct Tensor {
  std::string name;
  void *data = nullptr;
  std::vector<int64_t> shape;        ///< outermost first
  std::vector<int64_t> strides = {}; ///< in elements; empty: contiguous
  std::string elementType = {};      ///< "": the default of the value
};

namespace detail {
/// Takes ownership of a moec_text and returns its content.
inline Expected<std::string> take(moec_status status, moec_text *text) {
  if (status != MOEC_OK)
    return lastFailure(status);
  const Owned<moec_text, moec_text_destroy> owner(text);
  return std::string(moec_text_get(text));
}

/// Converts tensors to structs of the C interface. The structs point into
/// `tensors`.
inline Expected<std::vector<moec_tensor>>
toC(const std::vector<Tensor> &tensors) {
  std::vector<moec_tensor> made;
  made.reserve(tensors.size());
  for (const Tensor &tensor : tensors) {
    if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size())
      return Failure{MOEC_INVALID_ARGUMENT,
                     "tensor '" + tensor.name + "': expected " +
                         std::to_string(tensor.shape.size()) +
                         " strides, one for each extent, got " +
                         std::to_string(tensor.strides.size())};
    moec_tensor one = {};
    one.name = tensor.name.c_str();
    one.data = tensor.data;
    one.element_type =
        tensor.elementType.empty() ? nullptr : tensor.elementType.c_str();
    one.rank = static_cast<int32_t>(tensor.shape.size());
    one.shape = tensor.shape.data();
    one.strides = tensor.strides.empty() ? nullptr : tensor.strides.data();
    made.push_back(one);
  }
  return Expected<std::vector<moec_tensor>>(std::move(made));
}
} // namespace detail

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
  /// Wraps the result of a C function, for example moec_compile_config().
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

/// The loaded code of one layer for one device.
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
  /// Returns the extents of a value for `tokens` tokens, outermost first.
  Expected<std::vector<int64_t>> valueShape(const std::string &name,
                                            int64_t tokens) const {
    for (size_t i = 0; i < moec_package_num_values(get()); ++i) {
      moec_value value = {};
      value.struct_size = sizeof(value);
      moec_status status = moec_package_value(get(), i, &value);
      if (status != MOEC_OK)
        return detail::lastFailure(status);
      if (value.name != name)
        continue;
      std::vector<int64_t> shape(static_cast<size_t>(value.rank));
      status =
          moec_package_value_shape(get(), value.name, tokens, shape.data());
      if (status != MOEC_OK)
        return detail::lastFailure(status);
      return Expected<std::vector<int64_t>>(std::move(shape));
    }
    return Failure{MOEC_INVALID_ARGUMENT,
                   "package " + this->name() + " has no value '" + name + "'"};
  }
  /// Returns the weight map as JSON: the checkpoint tensors, rows and columns
  /// that hold each stored weight. See moec_package_weight_map_json().
  Expected<std::string> weightMap() const {
    moec_text *text = nullptr;
    moec_status status = moec_package_weight_map_json(get(), &text);
    return detail::take(status, text);
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

/// The tensors of a model's checkpoint, by name.
class Checkpoint {
public:
  Checkpoint() = default;
  static Expected<Checkpoint> open(const std::string &path) {
    moec_checkpoint *made = nullptr;
    moec_status status = moec_checkpoint_open(path.c_str(), &made);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Checkpoint checkpoint;
    checkpoint.handle.reset(made);
    return Expected<Checkpoint>(std::move(checkpoint));
  }
  /// Lists the layers that have experts, as JSON.
  Expected<std::string> layers() const {
    moec_text *text = nullptr;
    moec_status status = moec_checkpoint_layers_json(get(), &text);
    return detail::take(status, text);
  }
  moec_checkpoint *get() const { return handle.get(); }

private:
  detail::Owned<moec_checkpoint, moec_checkpoint_close> handle;
};

/// The tensors of one layer of a checkpoint, matched to one package.
class Weights {
public:
  Weights() = default;
  /// Finds the tensors of layer `layer` of the model; -1 selects the first
  /// layer that has experts.
  static Expected<Weights>
  open(const Checkpoint &checkpoint, const Package &package, int64_t layer,
       const moec_weights_options &options = weightsOptions()) {
    moec_weights *made = nullptr;
    moec_status status = moec_weights_open(checkpoint.get(), package.get(),
                                           layer, &options, &made);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Weights weights;
    weights.handle.reset(made);
    return Expected<Weights>(std::move(weights));
  }
  int64_t layer() const { return moec_weights_layer(get()); }
  /// Loads stored weights into host memory.
  Expected<void> load(const std::vector<Tensor> &tensors) const {
    auto given = detail::toC(tensors);
    if (!given)
      return given.error();
    return detail::toExpected(
        moec_weights_load(get(), given->data(), given->size()));
  }
  /// Loads experts [first, first + count) into host memory.
  Expected<void> load(const std::vector<Tensor> &tensors, int64_t first,
                      int64_t count) const {
    auto given = detail::toC(tensors);
    if (!given)
      return given.error();
    return detail::toExpected(moec_weights_load_experts(
        get(), given->data(), given->size(), first, count));
  }
  moec_weights *get() const { return handle.get(); }

private:
  detail::Owned<moec_weights, moec_weights_close> handle;
};

/// The packed weights of one layer.
class Layer {
public:
  Layer() = default;
  static Expected<Layer>
  create(const Package &package, const std::vector<Tensor> &weights,
         void *stream, const moec_layer_options &options = layerOptions()) {
    auto given = detail::toC(weights);
    if (!given)
      return given.error();
    moec_layer *made = nullptr;
    moec_status status = moec_layer_create(
        package.get(), given->data(), given->size(), &options, stream, &made);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Layer layer;
    layer.handle.reset(made);
    return Expected<Layer>(std::move(layer));
  }
  Expected<void> repack(const std::vector<Tensor> &weights, int64_t first,
                        int64_t count, void *stream) {
    auto given = detail::toC(weights);
    if (!given)
      return given.error();
    return detail::toExpected(moec_layer_repack(
        get(), given->data(), given->size(), first, count, nullptr, 0, stream));
  }
  /// Restores stored weights, bit for bit. See moec_layer_unpack().
  Expected<void> unpack(const std::vector<Tensor> &weights, void *stream,
                        const moec_unpack_options &options = unpackOptions()) {
    auto given = detail::toC(weights);
    if (!given)
      return given.error();
    return detail::toExpected(moec_layer_unpack(
        get(), given->data(), given->size(), &options, stream));
  }
  moec_layer *get() const { return handle.get(); }

private:
  detail::Owned<moec_layer, moec_layer_destroy> handle;
};

/// The workspace and state for the runs of one stream. If two runs are queued
/// into streams that no event orders, the outputs are undefined and no error is
/// reported: see moec_context_create().
class Context {
public:
  Context() = default;
  static Expected<Context>
  create(const Package &package, void *workspace, uint64_t bytes,
         const moec_context_options &options = contextOptions()) {
    moec_context *made = nullptr;
    moec_status status =
        moec_context_create(package.get(), workspace, bytes, &options, &made);
    if (status != MOEC_OK)
      return detail::lastFailure(status);
    Context context;
    context.handle.reset(made);
    return Expected<Context>(std::move(context));
  }
  Expected<void> run(const Layer &layer, void *stream,
                     const std::vector<Tensor> &tensors, int64_t tokens,
                     const moec_run_options &options = runOptions()) {
    auto given = detail::toC(tensors);
    if (!given)
      return given.error();
    return detail::toExpected(moec_run(layer.get(), get(), stream,
                                       given->data(), given->size(), tokens,
                                       &options));
  }
  moec_context *get() const { return handle.get(); }

private:
  detail::Owned<moec_context, moec_context_destroy> handle;
};

} // namespace moec::api

#endif // MOEC_MOEC_HPP
