/*===- moec.h - the C interface of moec ---------------------------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* The functions that libmoec-runtime.so and libmoec.so export. libmoec.so    *|
|* also exports the functions of moec/compiler.h.                             *|
|*                                                                            *|
|* There are three kinds of objects. A package is the code of one layer for   *|
|* one device; it is loaded once and shared by all layers of equal config. A  *|
|* layer holds packed weights. A context holds workspace and state; use one   *|
|* for each stream that has runs in flight.                                   *|
|*                                                                            *|
|* Errors: every function that can fail returns a moec_status. After an       *|
|* error, moec_last_error() reports what was expected, what was passed and    *|
|* what would be accepted. A NULL handle is an error, never a crash. Destroy  *|
|* functions accept NULL and then do nothing.                                 *|
|*                                                                            *|
|* Structs that may grow begin with struct_size: set it to the sizeof of the  *|
|* struct and zero all other fields. Output parameters are written only on    *|
|* success, except that handles are first set to NULL. A caller owns every    *|
|* handle that a function returns, and destroys it.                           *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MOEC_MOEC_H
#define MOEC_MOEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOEC_VERSION_MAJOR 0
#define MOEC_VERSION_MINOR 1
#define MOEC_VERSION_PATCH 0

/** Returns the version of the loaded library: MAJOR * 10000 + MINOR * 100 +
 *  PATCH. */
int32_t moec_version(void);

/*===----------------------------------------------------------------------===*\
|* Errors                                                                     *|
\*===----------------------------------------------------------------------===*/

/** Status codes. Their values are stable and are never reused. */
typedef enum moec_status {
  /** Success. */
  MOEC_OK = 0,
  /** The caller passed an invalid argument. */
  MOEC_INVALID_ARGUMENT = 1,
  /** A package violates the format. */
  MOEC_INVALID_MANIFEST = 2,
  /** A file of the package is missing, or its hash differs. */
  MOEC_DAMAGED_PACKAGE = 3,
  /** The package has no target for this device. */
  MOEC_NO_MATCHING_TARGET = 4,
  /** A kernel needs more resources, such as shared memory, than the device
   *  has. */
  MOEC_DEVICE_LIMIT = 5,
  /** The token count exceeds the maximum of the package. */
  MOEC_TOO_MANY_TOKENS = 6,
  /** Workspace, scratch or state is too small. */
  MOEC_WORKSPACE_TOO_SMALL = 7,
  /** A pointer or stride is misaligned. */
  MOEC_MISALIGNED = 8,
  /** Two concurrent runs used the same context. */
  MOEC_CONTEXT_IN_USE = 9,
  /** The call is not possible during a graph capture. */
  MOEC_CAPTURING = 10,
  /** Strict mode: a kernel is neither in the package nor in the cache. */
  MOEC_STRICT_MISS = 11,
  /** NVRTC could not compile a kernel. */
  MOEC_COMPILE_FAILED = 12,
  /** NVRTC was not found or is too old. */
  MOEC_NO_COMPILER = 13,
  /** The CUDA driver was not found. */
  MOEC_NO_DRIVER = 14,
  /** A call of the CUDA driver failed. */
  MOEC_DRIVER_FAILED = 15,
  /** Reading or writing a file failed. */
  MOEC_FILE_SYSTEM = 16,
  /** The layer or checkpoint is not supported. */
  MOEC_REFUSED = 17,
  /** A bug in moec. */
  MOEC_INTERNAL = 18,
  /** Another rank failed or does not respond. */
  MOEC_PEER_LOST = 19,
  /** The ranks run different packages or operations. */
  MOEC_PEER_MISMATCH = 20,
  /** The ranks have no way to communicate. */
  MOEC_NO_COMMUNICATION = 21,
  /** A signal or the caller ended the call. */
  MOEC_INTERRUPTED = 22
} moec_status;

/** Returns the name of a status, such as "invalid_argument". Never returns
 *  NULL. */
const char *moec_status_name(moec_status status);

/** Returns the error message of the last failed call of this thread, or "" if
 *  no call of this thread has failed. The pointer is valid until the next
 *  failing call of the same thread. */
const char *moec_last_error(void);

/** A string that a function of this library returned. The caller owns the
 *  handle and destroys it with moec_text_destroy(). */
typedef struct moec_text moec_text;

/** Returns the string as NUL-terminated UTF-8, or NULL if `text` is NULL. The
 *  pointer is valid until the handle is destroyed. */
const char *moec_text_get(const moec_text *text);
/** Destroys the string; NULL is accepted. */
void moec_text_destroy(moec_text *text);

/*===----------------------------------------------------------------------===*\
|* Messages and progress                                                      *|
\*===----------------------------------------------------------------------===*/

/** Log levels, in the order of the values that the environment variable
 *  MOEC_LOG accepts. */
typedef enum moec_log_level {
  MOEC_LOG_NONE = 0,
  MOEC_LOG_ERROR = 1,
  MOEC_LOG_WARNING = 2,
  MOEC_LOG_INFO = 3,
  MOEC_LOG_DEBUG = 4
} moec_log_level;

/** Receives one log message, without a trailing newline. The library may call
 *  the function from any thread, but never from two threads at once. The
 *  function must not call moec. */
typedef void (*moec_log_function)(void *user, int32_t level,
                                  const char *message);
/** Sets the function that receives the log messages of the whole process
 *  whose level is at most `level` (a moec_log_level). If `function` is NULL,
 *  messages go to stderr again. After the call has returned, the previously
 *  set function is not called any more. */
moec_status moec_set_log(moec_log_function function, void *user, int32_t level);

/** Receives the progress of a step: `done` of its `total` items are
 *  finished, for example kernels compiled. The library may call the function
 *  from any thread, but never from two threads at once. In the last call of
 *  a step, done == total, even if the step failed. The function must not
 *  call moec. */
typedef void (*moec_progress_function)(void *user, const char *step,
                                       int64_t done, int64_t total);
/** Sets the function that receives progress; NULL disables progress reports.
 *  After the call has returned, the previously set function is not called any
 *  more. */
moec_status moec_set_progress(moec_progress_function function, void *user);

/** Returns nonzero to interrupt the moec call that is waiting in this
 *  thread. That call then returns MOEC_INTERRUPTED. A thread that waits in a
 *  moec call for kernels to compile calls this function every 50 ms. The
 *  function must not call moec. */
typedef int32_t (*moec_interrupt_function)(void *user);
/** Sets the function that can interrupt waiting calls. If `function` is NULL,
 *  no call is interrupted. */
moec_status moec_set_interrupt(moec_interrupt_function function, void *user);

/*===----------------------------------------------------------------------===*\
|* Package                                                                    *|
\*===----------------------------------------------------------------------===*/

/** The files of a package in memory: manifest, kernel sources, headers and
 *  cubins. */
typedef struct moec_package_files moec_package_files;
/** The code of one layer, loaded on one device. Immutable and thread-safe. */
typedef struct moec_package moec_package;
/** The packed weights of one layer. Immutable, except during
 *  moec_layer_repack() and moec_layer_unpack(). */
typedef struct moec_layer moec_layer;
/** The workspace and state for the runs of one stream. A context executes
 *  one run at a time. Different contexts may be used concurrently. */
typedef struct moec_context moec_context;

/** Kinds of devices that execute packages. */
typedef enum moec_device_kind {
  MOEC_DEVICE_CUDA = 0,
  /** No GPU: plain C++ executes the package on host memory, following the same
   *  manifest. */
  MOEC_DEVICE_HOST = 1,
  /** No GPU: the PTX of the kernels is interpreted and checked, for debugging.
   *  This is many times slower than a GPU. As on the host device, tensors are
   *  in host memory, and a call returns when its work has ended. `arch` selects
   *  the emulated GPU ("sm_90a" if it is NULL).
   */
  MOEC_DEVICE_EMULATED = 2
} moec_device_kind;

/** Options of moec_package_load(). Zero is the default of every field. */
typedef struct moec_load_options {
  size_t struct_size;
  int32_t device; /**< a moec_device_kind */
  /** CUDA device. 0: uses the current CUDA context if there is one, else the
   *  primary context of device 0. n > 0: uses the primary context of device n -
   *  1. */
  int32_t ordinal_plus_one;
  /** Nonzero: returns MOEC_STRICT_MISS if a kernel is neither in the package
   *  nor in the cache. MOEC_STRICT=1 sets this, too. */
  int32_t strict;
  /** Number of concurrent compilations. 0: MOEC_JOBS, else chosen from the
   *  number of cores and the available memory. */
  int32_t jobs;
  /** Folder of the kernel cache. NULL: MOEC_CACHE_DIR, else
   *  $XDG_CACHE_HOME/moec, else ~/.cache/moec. */
  const char *cache_dir;
  /** The target of the package to load, such as "sm_90a". NULL: the target
   *  that fits the device; the host device uses the first target. */
  const char *arch;
  /** Nonzero: compiles the kernels into the cache and loads nothing. This
   *  needs `arch` but no GPU. The resulting package only supports the query
   *  functions. */
  int32_t prebuild;
  /** The libnvrtc.so.N to compile with, or the folder that contains it. NULL:
   *  MOEC_NVRTC_PATH, else the library is searched for. */
  const char *nvrtc_path;
  /** n > 0: loads the package for rank n - 1, the flattened rank (dp_rank *
   *  pcp + pcp_rank) * tp + tp_rank. All ranks run the same kernels. 0: the
   *  package must have only one rank. MOEC_INVALID_ARGUMENT is returned if
   *  the package does not have the rank. */
  int32_t rank_plus_one;
} moec_load_options;

/** Reads a package folder and verifies its format, consistency and SHA-256
 *  hashes. On success the caller owns `*files` and destroys it with
 *  moec_package_files_destroy(). */
moec_status moec_package_files_read(const char *folder,
                                    moec_package_files **files);
/** Writes the files to `folder`. On success the complete folder appears in
 *  one atomic step; on failure nothing appears. An existing package is
 *  replaced, unless its folder contains files that its manifest does not
 *  list. */
moec_status moec_package_files_write(const moec_package_files *files,
                                     const char *folder);
/** Destroys the files; NULL is accepted. */
void moec_package_files_destroy(moec_package_files *files);

/** Loads every kernel of every variant, and compiles the kernels that are
 *  neither in the package nor in the cache. After the call, nothing is ever
 *  compiled. `options` may be NULL. A child process that was forked while
 *  another thread was loading a package may load packages, too. On success
 *  the caller owns `*package` and destroys it with moec_package_destroy(). A
 *  package contains code: load only packages that you trust. */
moec_status moec_package_load(const char *folder,
                              const moec_load_options *options,
                              moec_package **package);
/** Like moec_package_load(), for files in memory. `files` may be destroyed
 *  after the call. */
moec_status moec_package_load_files(const moec_package_files *files,
                                    const moec_load_options *options,
                                    moec_package **package);
/** Destroys the handle. Layers and contexts keep the parts of the package
 *  alive that they use. */
void moec_package_destroy(moec_package *package);

/** Returns the name of the package. This function and the following query
 *  functions read the manifest and the load report, and never access the
 *  device. Returned strings are valid until the package is destroyed; they
 *  are NULL if `package` is NULL. */
const char *moec_package_name(const moec_package *package);
/** Returns the arch of the loaded target, such as "sm_90a". */
const char *moec_package_arch(const moec_package *package);
/** Returns the name of the device that the package was loaded on. */
const char *moec_package_device(const moec_package *package);
/** Returns the maximum token count per run of one rank. All token counts in
 *  this interface are counts per rank, unless stated otherwise. Returns 0 if
 *  `package` is NULL. */
int64_t moec_package_max_tokens(const moec_package *package);
/** Returns the manifest as JSON, narrowed to the loaded rank: its `ranks` lists
 *  only that rank. */
const char *moec_package_manifest_json(const moec_package *package);
/** Returns the load report as JSON: the milliseconds of each phase, the
 *  source of each kernel (package, cache or compiled) and the path of NVRTC
 *  ("" if NVRTC was not opened). On a GPU the report also lists the
 *  registers, local memory and resident CTAs of each kernel, the number of
 *  SMs of the CUDA context, and the variants that this GPU cannot run. */
const char *moec_package_load_report_json(const moec_package *package);

/** The role of a value. */
typedef enum moec_role {
  MOEC_INPUT = 0,
  MOEC_OPTIONAL_INPUT = 1,
  MOEC_OUTPUT = 2,
  MOEC_OPTIONAL_OUTPUT = 3,
  MOEC_STORED_WEIGHT = 4,
  MOEC_PACKED_WEIGHT = 5
} moec_role;

/** A tensor that a caller passes: an input, output or weight. */
typedef struct moec_value {
  size_t struct_size;
  const char *name;
  int32_t role; /**< a moec_role */
  /** Names of the accepted element types, separated by spaces. The first is the
   *  default. */
  const char *element_types;
  int32_t rank;
  /** Nonzero: the outermost stride may be larger than that of a contiguous
   *  tensor. The stride in bytes must then be a multiple of `alignment`. */
  int32_t caller_row_stride;
  int64_t alignment; /**< alignment of the pointer in bytes */
  /** The stored weight whose memory this packed weight may occupy, or "". */
  const char *may_alias;
} moec_value;

/** Returns the number of values, the tensors that a caller passes. The index
 *  of moec_package_value() must be less than this count. Returns 0 if
 *  `package` is NULL. */
size_t moec_package_num_values(const moec_package *package);
/** Describes the value at `index`. Set value->struct_size before the call. The
 *  strings are valid until the package is destroyed. An index that is out of
 *  range is MOEC_INVALID_ARGUMENT. */
moec_status moec_package_value(const moec_package *package, size_t index,
                               moec_value *value);
/** Writes the extents of a value for `tokens` tokens to `shape`, outermost
 *  first. `shape` must have room for moec_value.rank extents. */
moec_status moec_package_value_shape(const moec_package *package,
                                     const char *name, int64_t tokens,
                                     int64_t *shape);
/** Computes the size in bytes of a contiguous value for `tokens` tokens in
 *  its default element type. */
moec_status moec_package_value_bytes(const moec_package *package,
                                     const char *name, int64_t tokens,
                                     uint64_t *bytes);

/** The launches that are used for a range of token counts. */
typedef struct moec_variant {
  size_t struct_size;
  const char *name;
  /** Inclusive; tokens of all ranks together. */
  int64_t min_tokens, max_tokens;
  int32_t num_launches;
  /** Minimum SM count of the device; 0: any device. Devices with fewer SMs
   *  use other variants. */
  int64_t min_sms;
} moec_variant;

/** Returns the number of variants of the loaded target; 0 if `package` is
 *  NULL. */
size_t moec_package_num_variants(const moec_package *package);
/** Describes the variant at `index`. Set variant->struct_size before the call.
 *  An index that is out of range is MOEC_INVALID_ARGUMENT. */
moec_status moec_package_variant(const moec_package *package, size_t index,
                                 moec_variant *variant);
/** Finds the index of the variant that a run of `tokens` tokens uses.
 *  Returns MOEC_TOO_MANY_TOKENS if `tokens` exceeds the maximum of the
 *  package. */
moec_status moec_package_variant_for(const moec_package *package,
                                     int64_t tokens, size_t *index);

/** Computes a workspace size in bytes that suffices for every run of at most
 *  `tokens` tokens, whichever variant it uses. The workspace must be aligned
 *  to 256 bytes. */
moec_status moec_package_workspace_bytes(const moec_package *package,
                                         int64_t tokens, uint64_t *bytes);
/** Computes the size in bytes of the state that each context of the package
 *  needs. The size may be 0. The state must be aligned to 256 bytes. */
moec_status moec_package_state_bytes(const moec_package *package,
                                     uint64_t *bytes);
/** Computes the size in bytes of the scratch memory that packing needs. The
 *  scratch memory must be aligned to 256 bytes. */
moec_status moec_package_pack_scratch_bytes(const moec_package *package,
                                            uint64_t *bytes);

/*===----------------------------------------------------------------------===*\
|* Layer                                                                      *|
\*===----------------------------------------------------------------------===*/

/** A named tensor in device memory (on the host device: in host memory).
 *  Rank, shape and strides have the meaning of DLPack's DLTensor; they are
 *  read only during the call. A rank or extent that differs from the value's
 *  is MOEC_INVALID_ARGUMENT, and so are strides that the value does not
 *  allow.
 *
 *  Callers pass arrays of this struct, so its size is fixed: later versions
 *  add no fields. Set unused fields to zero. */
typedef struct moec_tensor {
  const char *name;
  /** Pointer to the first element. DLPack's byte_offset is already added. */
  void *data;
  /** Name of the element type. NULL: the default of the value. "u8" passes
   *  the value as raw bytes; this is allowed if its elements have fewer than
   *  8 bits or are f8E8M0FNU. Shape and strides then count bytes. With any
   *  other type, shape and strides count elements, even if one byte holds
   *  two elements. */
  const char *element_type;
  /** Number of dimensions, equal to moec_value.rank; at most 8. */
  int32_t rank;
  /** Extents, outermost first, as moec_package_value_shape() returns them. */
  const int64_t *shape;
  /** Strides in the same unit as `shape`. NULL: contiguous. The outermost
   *  stride may be larger if moec_value.caller_row_stride is set; all other
   *  strides must be those of a contiguous tensor. The stride of a dimension of
   *  extent 1 is not read. */
  const int64_t *strides;
} moec_tensor;

#ifndef __cplusplus
/** Expands to the rank and shape fields of an initializer: {"x", x, NULL,
 *  MOEC_SHAPE(9, 16), NULL}. The extents live as long as the enclosing block.
 *  C++ programs use moec.hpp instead. */
#define MOEC_SHAPE(...)                                                        \
  (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),         \
      (const int64_t[]) {                                                      \
    __VA_ARGS__                                                                \
  }
#endif

/** Options of moec_layer_create(). Zero is the default of every field. */
typedef struct moec_layer_options {
  size_t struct_size;
  /** Scratch memory for packing, of moec_package_pack_scratch_bytes() bytes.
   *  NULL: moec allocates it, synchronizes with the stream and frees it. */
  void *scratch;
  uint64_t scratch_bytes;
  /** Nonzero: the given packed weights are already packed, and so are stored
   *  weights that are packed in place. The call only records their pointers. */
  int32_t already_packed;
} moec_layer_options;

/** Packs the weights on `stream`, a few experts at a time, and creates a
 *  layer. `weights` must contain every stored weight. If `weights` also
 *  contains a packed weight by its name, packing writes to that memory.
 *  Otherwise the stored weight is overwritten with the packed weight, if the
 *  manifest allows packing in place. `routing_bias` may be omitted: each run
 *  of the layer must then provide given_ids and given_weights.
 *
 *  The layer borrows the memory of the weights, which must outlive the
 *  layer. Stored weights that were packed into other memory may be freed as
 *  soon as the stream has completed packing. `options` may be NULL. On
 *  success the caller owns `*layer` and destroys it with
 *  moec_layer_destroy(). */
moec_status moec_layer_create(const moec_package *package,
                              const moec_tensor *weights, size_t num_weights,
                              const moec_layer_options *options, void *stream,
                              moec_layer **layer);
/** Packs experts [first_expert, first_expert + num_experts) again into the
 *  layer's own packed memory. `weights` contains the stored weights to pack
 *  from, each as a whole tensor. For weights that are packed in place, the
 *  caller first writes the stored form of these experts to that memory. The
 *  weights of the shared experts' MLP are packed only if the range contains
 *  all experts. `scratch` and `scratch_bytes` are like those of
 *  moec_layer_options; without scratch memory the call returns
 *  MOEC_CAPTURING if the stream is being captured. The caller must order the
 *  call against runs of the layer. */
moec_status moec_layer_repack(moec_layer *layer, const moec_tensor *weights,
                              size_t num_weights, int64_t first_expert,
                              int64_t num_experts, void *scratch,
                              uint64_t scratch_bytes, void *stream);

/** Options of moec_layer_unpack(). Zero is the default of every field. */
typedef struct moec_unpack_options {
  size_t struct_size;
  /** Nonzero: the destinations are host memory of any alignment, even if the
   *  layer is on a GPU. */
  int32_t to_host;
} moec_unpack_options;

/** Restores some or all stored weights, bit for bit, and writes each to the
 *  memory that is given under its name. The call waits for the stream and
 *  returns when the bytes are written. Unpacking is done by the CPU, even if
 *  the layer is on a GPU. A weight that packing quantizes is MOEC_REFUSED,
 *  because its original values are lost.
 *
 *  A destination may be the memory of a weight that was packed in place. All
 *  weights that were packed in place must then be unpacked by the same call.
 *  moec_run() then returns an error until moec_layer_repack() has packed all
 *  experts again. A destination in any other memory that the layer reads is
 *  MOEC_INVALID_ARGUMENT.
 *
 *  The caller must order the call against runs and packing. `options` may be
 *  NULL. */
moec_status moec_layer_unpack(moec_layer *layer, const moec_tensor *weights,
                              size_t num_weights,
                              const moec_unpack_options *options, void *stream);
/** Destroys the layer. The memory of the weights remains the caller's. */
void moec_layer_destroy(moec_layer *layer);

/*===----------------------------------------------------------------------===*\
|* Checkpoints                                                                *|
\*===----------------------------------------------------------------------===*/

/** The tensors of a model's checkpoint, by name. The files are memory-mapped
 *  and must not change. Thread-safe. */
typedef struct moec_checkpoint moec_checkpoint;
/** The tensors of one layer of a checkpoint, matched to the stored weights of
 *  one package. Thread-safe. */
typedef struct moec_weights moec_weights;

/** Opens a checkpoint: a folder of safetensors files in the layout of
 *  Hugging Face, with or without an index file, or a single safetensors
 *  file. Only the headers are read. A truncated or inconsistent header is
 *  MOEC_INVALID_ARGUMENT. On success the caller owns `*checkpoint` and
 *  closes it with moec_checkpoint_close(). */
moec_status moec_checkpoint_open(const char *path,
                                 moec_checkpoint **checkpoint);
/** Closes the checkpoint. Handles from moec_weights_open() keep the mapped
 *  files alive. */
void moec_checkpoint_close(moec_checkpoint *checkpoint);
/** Lists the layers that have experts, as a JSON array in ascending order.
 *  Each entry has "layer", "prefix" (the common prefix of the tensor names),
 *  "experts" (the expert count; null if one tensor holds all experts),
 *  "shared_experts" (true or false) and "holds" (weights, scales and so on).
 *  Only tensor names are examined; no further file is opened. */
moec_status moec_checkpoint_layers_json(const moec_checkpoint *checkpoint,
                                        moec_text **layers);

/** Options of moec_weights_open(). Zero is the default of every field. */
typedef struct moec_weights_options {
  size_t struct_size;
  /** Nonzero: the checkpoint has floating-point weights, which
   *  moec_weights_load() quantizes on the CPU to the format that the package
   *  stores. */
  int32_t quantize;
  /** Nonzero: the caller computes the shared experts of the checkpoint. */
  int32_t no_shared_experts;
  /** Substrings of the names of tensors to ignore, for example
   *  "input_scale". These are tensors that no value of the package uses.
   *  Each substring must match at least one tensor. */
  const char *const *ignored;
  size_t num_ignored;
} moec_weights_options;

/** Finds the tensors of one layer and checks that package and checkpoint
 *  agree. `layer` is the layer's index in the model; -1 selects the first
 *  layer that has experts. If a tensor of the layer's experts, shared
 *  experts or router is used by no value, the function returns MOEC_REFUSED.
 *  Tensors that are known to have no effect are exempt. The message names
 *  the option that would accept the tensor. `options` may be NULL. No device
 *  is accessed. */
moec_status moec_weights_open(moec_checkpoint *checkpoint,
                              const moec_package *package, int64_t layer,
                              const moec_weights_options *options,
                              moec_weights **weights);
/** Returns the index of the layer in the model, or -1 if `weights` is NULL. */
int64_t moec_weights_layer(const moec_weights *weights);
/** Loads stored weights of the package into host memory of any alignment.
 *  Only the weights named in `tensors` are loaded. A missing tensor, a
 *  tensor of a different shape and an element that would have to be rounded
 *  are MOEC_REFUSED; data that was written before the error remains. */
moec_status moec_weights_load(const moec_weights *weights,
                              const moec_tensor *tensors, size_t num_tensors);
/** Like moec_weights_load(), for the package's experts [first_expert,
 *  first_expert + num_experts): the outermost extent of each tensor is
 *  `num_experts`. This way a layer of any size can be loaded through a
 *  buffer for a few experts. A value without an expert dimension is
 *  MOEC_INVALID_ARGUMENT. */
moec_status moec_weights_load_experts(const moec_weights *weights,
                                      const moec_tensor *tensors,
                                      size_t num_tensors, int64_t first_expert,
                                      int64_t num_experts);
/** Closes the handle; NULL is accepted. */
void moec_weights_close(moec_weights *weights);

/** Returns the weight map as JSON, for programs that load checkpoints
 *  themselves. For each stored weight the map lists the checkpoint tensors
 *  that hold it (by their name suffixes), the rows and columns that this
 *  rank needs, and the position of these rows and columns in the stored
 *  weight. docs/reference/checkpoints.md explains the fields. */
moec_status moec_package_weight_map_json(const moec_package *package,
                                         moec_text **map);

/*===----------------------------------------------------------------------===*\
|* Communication between ranks                                                *|
\*===----------------------------------------------------------------------===*/

/** The endpoint of one rank for communication with the other ranks. A
 *  package that moves tokens and partial results between ranks
 *  (all2all_backend gather_scatter or one_sided) needs it in its contexts.
 *  Only one run may use it at a time. */
typedef struct moec_comm moec_comm;
/** A group of ranks that are threads of one process. */
typedef struct moec_comm_group moec_comm_group;

/** Size of an NCCL unique ID in bytes. */
#define MOEC_COMM_ID_BYTES 128

/** Gathers `bytes` bytes from each rank into `all`, in rank order (an
 *  all-gather). A nonzero return value reports a failure. moec calls the
 *  function while it creates communicators and contexts, from the thread
 *  that creates them. */
typedef int32_t (*moec_all_gather_function)(void *user, const void *mine,
                                            uint64_t bytes, void *all);
/** Allocates a window: memory of `bytes` bytes on each rank's GPU that all
 * ranks can access. Stores in addresses[r], for each rank r, the address at
 * which this rank's GPU accesses rank r's memory. `bytes` is a multiple of 256.
 * moec zeroes this rank's own memory. The memory must outlive the context that
 * is being created. A nonzero return value reports a failure. */
typedef int32_t (*moec_window_function)(void *user, uint64_t bytes,
                                        uint64_t *addresses);

/** Options of moec_comm_create(). Exactly one of unique_id, nccl_comm, group
 *  and all_gather must be set. With `group` or `all_gather`, NCCL is not
 *  needed, but gather_scatter packages cannot run on GPUs. */
typedef struct moec_comm_options {
  size_t struct_size;
  int32_t ranks; /**< number of ranks of the package, dp * pcp * tp */
  /** Flattened rank, equal to moec_load_options.rank_plus_one - 1. */
  int32_t rank;
  /** MOEC_COMM_ID_BYTES bytes from moec_comm_unique_id(), the same on all
   *  ranks. */
  const void *unique_id;
  /** The caller's ncclComm_t, which must have the same ranks.
   *  moec_comm_create() splits it (ncclCommSplit) and does not use it
   *  afterwards. */
  void *nccl_comm;
  moec_comm_group *group;
  /** The GPU, like moec_load_options.ordinal_plus_one. If `group` is set, 0
   *  means the host device. */
  int32_t ordinal_plus_one;
  /** Maximum time that a rank waits for other ranks, in milliseconds. It
   *  applies while connecting, in one_sided kernels, and in gather_scatter
   *  runs as moec_comm_status() describes. 0: 60000. */
  int32_t timeout_ms;
  /** Path of libnccl.so.2. NULL: the library that the process has already
   *  loaded, otherwise the library that the dynamic loader finds. NCCL 2.18
   *  or later is required. */
  const char *nccl_path;
  /** The caller's own communication between hosts, used instead of NCCL.
   *  `window` may be NULL: the CUDA driver then shares memory between the
   *  GPUs of one host. */
  moec_all_gather_function all_gather;
  moec_window_function window;
  void *user; /**< passed to both functions */
  /** Nonzero: NCCL (2.29.2 or later) allocates the one_sided windows, even
   *  if the driver could share memory. 0: NCCL allocates them only if the
   *  driver cannot share memory, for example between hosts. Must be the same
   *  on all ranks. */
  int32_t nccl_windows;
} moec_comm_options;

/** Writes a new NCCL unique ID of MOEC_COMM_ID_BYTES bytes to `id`. One rank
 *  calls this function and sends the ID to all other ranks. */
moec_status moec_comm_unique_id(const char *nccl_path, void *id);
/** Creates a group of `ranks` ranks. In a collective, each rank waits up to
 *  `timeout_ms` milliseconds for the other ranks; 0: 60000. */
moec_status moec_comm_group_create(int32_t ranks, int32_t timeout_ms,
                                   moec_comm_group **group);
/** Destroys the handle. Communicators keep the group alive that they use. */
void moec_comm_group_destroy(moec_comm_group *group);
/** Creates the communicator of one rank. The call returns when all ranks
 *  have called it, or returns MOEC_PEER_LOST after the timeout. If a rank is
 *  missing with NCCL, a background thread of the process keeps waiting for
 *  it. On success the caller owns `*comm` and destroys it with
 *  moec_comm_destroy(). */
moec_status moec_comm_create(const moec_comm_options *options,
                             moec_comm **comm);
/** Returns MOEC_PEER_LOST if the communicator has failed. A failure is
 *  permanent. The communicator has failed in any of these cases: a call on
 *  it failed; NCCL reports an asynchronous error (ncclCommGetAsyncError); a
 *  wait in a kernel ended before its ranks arrived; or NCCL work of a run is
 *  still unfinished `timeout_ms` milliseconds after all earlier work
 *  finished. In the last case the function calls ncclCommAbort. Runs that a
 *  CUDA graph has captured have no such deadline. Apart from that, the
 *  function does not block. Thread-safe; may be called at any time.
 *  moec_run() checks the same conditions. */
moec_status moec_comm_status(moec_comm *comm);
/** Aborts all waiting for other ranks: waiting calls and all later calls
 *  return MOEC_PEER_LOST. With NCCL, ncclCommAbort ends waiting kernels; the
 *  outputs of their runs are undefined. Waiting one_sided kernels end, and
 *  their outputs are NaN. Thread-safe; may be called at any time. The other
 *  ranks must call this function, too. */
moec_status moec_comm_abort(moec_comm *comm);
/** Destroys the handle. Contexts keep the communicator alive that they use.
 *  No run may be in flight. */
void moec_comm_destroy(moec_comm *comm);

/*===----------------------------------------------------------------------===*\
|* Context and run                                                            *|
\*===----------------------------------------------------------------------===*/

/** Options of moec_context_create(). Zero is the default of every field. */
typedef struct moec_context_options {
  size_t struct_size;
  /** Memory for the state, of moec_package_state_bytes() bytes, which must
   *  outlive the context. NULL: moec allocates it. */
  void *state;
  uint64_t state_bytes;
  /** The communicator, for a package that moves tokens and partial results
   *  between ranks. Without it, moec_context_create() returns
   *  MOEC_NO_COMMUNICATION for such a package. All ranks must create their
   *  contexts in the same order, because rank groups and windows are created
   *  at that time. MOEC_PEER_MISMATCH is returned if the packages of the
   *  ranks differ in more than the rank. */
  moec_comm *comm;
} moec_context_options;

/** Creates a context, zeroes its state and waits until the state is zeroed.
 *  `options` may be NULL. On success the caller owns `*context` and destroys
 *  it with moec_context_destroy().
 *
 *  The caller keeps ownership of the workspace. Its content is undefined
 *  before and after each run. It may be NULL if `workspace_bytes` is 0. A
 *  context can run every layer of its package, one run at a time.
 *
 *  All runs on a context use its workspace and state, so each run must have
 *  ended before the next run starts. Queue the runs into one stream, or
 *  order the streams with events. If two threads call moec_run() on one
 *  context at the same time, one of the calls returns MOEC_CONTEXT_IN_USE.
 *  Runs that are queued one after the other into streams that no event
 *  orders are not detected, and their outputs are undefined. */
moec_status moec_context_create(const moec_package *package, void *workspace,
                                uint64_t workspace_bytes,
                                const moec_context_options *options,
                                moec_context **context);
/** Replaces the workspace. The next run uses the new workspace. */
moec_status moec_context_set_workspace(moec_context *context, void *workspace,
                                       uint64_t workspace_bytes);
/** Destroys the context. For a one_sided package, call it only after the
 *  runs of all ranks have ended, because ranks write to each other's memory.
 *  The window memory is freed when no other process maps it any more. This
 *  happens during this call, or when this process later creates or destroys
 *  another one_sided context or a communicator. A CUDA context that the
 *  caller created must outlive the window memory; a primary context always
 *  does. */
void moec_context_destroy(moec_context *context);

/** Options of moec_run(). Zero is the default of every field. */
typedef struct moec_run_options {
  size_t struct_size;
  /** Nonzero: the first launch may start before its predecessor in the
   *  stream has ended (programmatic dependent launch). The caller guarantees
   *  that no earlier launch in the stream still writes weights at that time. */
  int32_t overlap_previous;
  /** The name of the variant to run; its token range must contain the token
   *  count. NULL: the token count selects the variant. */
  const char *variant;
} moec_run_options;

/** Queues one run on `stream`. The call allocates nothing and synchronizes
 *  nothing, and a CUDA graph may capture it. A run of 0 tokens succeeds and
 *  launches nothing. `options` may be NULL. On the host device the function
 *  returns after the outputs are written.
 *
 *  Errors: MOEC_INVALID_ARGUMENT, MOEC_TOO_MANY_TOKENS,
 *  MOEC_WORKSPACE_TOO_SMALL, MOEC_MISALIGNED, MOEC_CONTEXT_IN_USE,
 *  MOEC_DRIVER_FAILED, and between ranks MOEC_PEER_LOST and
 *  MOEC_PEER_MISMATCH.
 *
 *  Ranks: on a context with a moec_comm, all ranks must call moec_run()
 *  equally often and with the same token count. Ranks with fewer tokens pad
 *  them; valid_tokens is the number of tokens that are not padding. If the
 *  function returns MOEC_PEER_LOST or MOEC_PEER_MISMATCH, required
 *  floating-point outputs are filled with NaN.
 *
 *  Types: if a value has several element types, each run may use any of
 *  them: i32 or i64 for ids; f32, f16 or bf16 for logits, given_weights and
 *  shared_gate. Results do not depend on the element type, only on the
 *  values. Any other type is MOEC_INVALID_ARGUMENT. A tensor of such a value
 *  needs no larger alignment than the size of one element.
 *
 *  Memory: `out` may be the same tensor as `x` or `residual`: the same
 *  address and element type, with contiguous rows. Any other overlap of an
 *  output with another tensor of the run, or with a weight that the run
 *  reads, is MOEC_INVALID_ARGUMENT. So is any overlap of a tensor with the
 *  workspace or the state. Inputs may overlap each other.
 *
 *  Ids: a valid id is at least 0 and less than num_experts +
 *  num_zero_experts + num_constant_experts. A pair with any other id in
 *  given_ids counts as having weight 0: nothing is computed for it, whatever
 *  weight is given, even a NaN. The outputs `ids` and `weights`, if
 *  requested, repeat the given ids and weights; an id that does not fit into
 *  32 bits becomes -1. */
moec_status moec_run(const moec_layer *layer, moec_context *context,
                     void *stream, const moec_tensor *tensors,
                     size_t num_tensors, int64_t tokens,
                     const moec_run_options *options);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOEC_MOEC_H */
