/*===- moec.h - the C interface of moec --------------------------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* What libmoec-runtime.so and libmoec.so export; moec/compiler.h has what *|
|* libmoec.so has besides.                                                    *|
|*                                                                            *|
|* Three objects: a package is the code of one layer for one device, loaded   *|
|* once and shared by all layers of equal config; a layer is packed weights;  *|
|* a context is workspace and state, one for each stream in flight.           *|
|*                                                                            *|
|* Every fallible function returns a moec_status; moec_last_error() then says *|
|* what was expected, what came and what would be accepted. A NULL handle is  *|
|* an error, never a crash; destroying NULL does nothing. Structs that may    *|
|* grow begin with struct_size: set it to sizeof(the struct), zero the rest.  *|
|* Out-parameters are written on success only (handles: set to NULL first).   *|
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

/** MAJOR * 10000 + MINOR * 100 + PATCH of the library that is loaded. */
int32_t moec_version(void);

/*===----------------------------------------------------------------------===*\
|* Errors                                                                     *|
\*===----------------------------------------------------------------------===*/

/** Stable numbers; one is never reused. */
typedef enum moec_status {
  MOEC_OK = 0,
  MOEC_INVALID_ARGUMENT = 1,
  MOEC_INVALID_MANIFEST = 2,
  MOEC_DAMAGED_PACKAGE = 3,
  MOEC_NO_MATCHING_TARGET = 4,
  MOEC_DEVICE_LIMIT = 5,
  MOEC_TOO_MANY_TOKENS = 6,
  MOEC_WORKSPACE_TOO_SMALL = 7,
  MOEC_MISALIGNED = 8,
  MOEC_CONTEXT_IN_USE = 9,
  MOEC_CAPTURING = 10,
  MOEC_STRICT_MISS = 11,
  MOEC_COMPILE_FAILED = 12,
  MOEC_NO_COMPILER = 13,
  MOEC_NO_DRIVER = 14,
  MOEC_DRIVER_FAILED = 15,
  MOEC_FILE_SYSTEM = 16,
  MOEC_REFUSED = 17,
  MOEC_INTERNAL = 18,
  MOEC_PEER_LOST = 19,
  MOEC_PEER_MISMATCH = 20,
  MOEC_NO_COMMUNICATION = 21,
  MOEC_INTERRUPTED = 22
} moec_status;

/** "invalid_argument" and so on; never NULL. */
const char *moec_status_name(moec_status status);

/** What the last failed call of this thread has to say; "" if none failed.
 *  Valid until the thread's next failing call. */
const char *moec_last_error(void);

/** A text that a function made. */
typedef struct moec_text moec_text;

/** UTF-8, ending in NUL; lives as long as the handle. NULL for NULL. */
const char *moec_text_get(const moec_text *text);
void moec_text_destroy(moec_text *text);

/*===----------------------------------------------------------------------===*\
|* Messages and progress                                                      *|
\*===----------------------------------------------------------------------===*/

/** The words of MOEC_LOG. */
typedef enum moec_log_level {
  MOEC_LOG_NONE = 0,
  MOEC_LOG_ERROR = 1,
  MOEC_LOG_WARNING = 2,
  MOEC_LOG_INFO = 3,
  MOEC_LOG_DEBUG = 4
} moec_log_level;

/** Gets a message without a newline. Called from any thread, one call at a
 *  time. It must not call moec. */
typedef void (*moec_log_function)(void *user, int32_t level,
                                  const char *message);
/** Messages up to and with `level`, a moec_log_level, go to the function, those
 *  of all packages of the process. NULL: to stderr again. After it returns the
 *  function that was set before is not called any more. */
moec_status moec_set_log(moec_log_function function, void *user, int32_t level);

/** `done` of `total` parts of a step are done: kernels compiled, say. Called
 *  from any thread, one call at a time. The last call of a step has
 *  done == total, also where the step failed. It must not call moec. */
typedef void (*moec_progress_function)(void *user, const char *step,
                                       int64_t done, int64_t total);
/** NULL: nobody is told. As moec_set_log for what was set before. */
moec_status moec_set_progress(moec_progress_function function, void *user);

/** Anything but 0 ends the call that waits: it returns MOEC_INTERRUPTED.
 *  Called every 50 ms by a thread that has called moec and waits for kernels
 *  to compile. It must not call moec. */
typedef int32_t (*moec_interrupt_function)(void *user);
/** NULL: no call is interrupted. */
moec_status moec_set_interrupt(moec_interrupt_function function, void *user);

/*===----------------------------------------------------------------------===*\
|* Package                                                                    *|
\*===----------------------------------------------------------------------===*/

/** The files of a package in memory: manifest, sources, headers, cubins. */
typedef struct moec_package_files moec_package_files;
/** Code for one device. Immutable and thread-safe. */
typedef struct moec_package moec_package;
/** Packed weights of one layer. Immutable but for moec_layer_repack. */
typedef struct moec_layer moec_layer;
/** Workspace and state of one stream in flight. */
typedef struct moec_context moec_context;

typedef enum moec_device_kind {
  MOEC_DEVICE_CUDA = 0,
  /** No GPU: plain C++ on host memory, through the same manifest. */
  MOEC_DEVICE_HOST = 1,
  /** No GPU: the kernels' PTX is interpreted and checked, many times slower
   *  than on a GPU. For debugging. Memory and calls are as on the host device;
   *  `arch` says which GPU it is ("sm_90a" if it is NULL). */
  MOEC_DEVICE_EMULATED = 2
} moec_device_kind;

/** Zero is the default of every field. */
typedef struct moec_load_options {
  size_t struct_size;
  int32_t device; /**< a moec_device_kind */
  /** CUDA: 0 takes the context that is current, else the primary context of
   *  device 0; n > 0 takes the primary context of device n - 1. */
  int32_t ordinal_plus_one;
  /** Not 0: a kernel that is neither in the package nor in the cache is
   *  MOEC_STRICT_MISS. MOEC_STRICT=1 sets it too. */
  int32_t strict;
  /** Compilations at once; 0: MOEC_JOBS, else by cores and memory. */
  int32_t jobs;
  /** NULL: MOEC_CACHE_DIR, else $XDG_CACHE_HOME/moec, else ~/.cache/moec. */
  const char *cache_dir;
  /** Take this target of the package ("sm_90a"); NULL: by the device; on the
   *  host device the first. */
  const char *arch;
  /** Not 0: compile into the cache and load nothing; needs no GPU, but arch.
   *  The package then answers queries only. */
  int32_t prebuild;
  /** The libnvrtc.so.N to compile with, or the folder that holds it; NULL:
   *  MOEC_NVRTC_PATH, else it is searched for. */
  const char *nvrtc_path;
  /** n > 0: rank n - 1 of the package, flattened, (dp_rank * pcp + pcp_rank) *
   *  tp + tp_rank; its kernels are those of other ranks, too. 0: the package
   *  must be of one rank. A rank that it has not is MOEC_INVALID_ARGUMENT. */
  int32_t rank_plus_one;
} moec_load_options;

/** Reads and verifies a package folder: format, consistency, SHA-256s. */
moec_status moec_package_files_read(const char *folder,
                                    moec_package_files **files);
/** Writes it; the folder appears at once, complete, or not at all. A package
 *  that is there is replaced, unless it has files that its manifest does not
 *  list. */
moec_status moec_package_files_write(const moec_package_files *files,
                                     const char *folder);
void moec_package_files_destroy(moec_package_files *files);

/** Loads every kernel of every variant, compiling what neither package nor
 *  cache holds. After it nothing is ever compiled. Options may be NULL. A child
 *  that is forked meanwhile may load, too. A package is code: load only what
 *  you trust. */
moec_status moec_package_load(const char *folder,
                              const moec_load_options *options,
                              moec_package **package);
moec_status moec_package_load_files(const moec_package_files *files,
                                    const moec_load_options *options,
                                    moec_package **package);
/** Layers and contexts keep what they need of the package alive. */
void moec_package_destroy(moec_package *package);

/** Queries. Strings live as long as the package; NULL for a NULL package. */
const char *moec_package_name(const moec_package *package);
/** The target in use, "sm_90a" say. */
const char *moec_package_arch(const moec_package *package);
const char *moec_package_device(const moec_package *package);
/** Of a run of this rank, as every count of tokens here. 0 for a NULL
 *  package. */
int64_t moec_package_max_tokens(const moec_package *package);
/** That of the rank that was loaded: `ranks` has it alone. */
const char *moec_package_manifest_json(const moec_package *package);
/** JSON: milliseconds of each phase, where each kernel came from (package,
 *  cache, compiled), where NVRTC was found ("" if it was not opened). On a
 *  GPU also registers, local memory and resident CTAs of each kernel, the SMs
 *  of the context, and variants that cannot serve there. */
const char *moec_package_load_report_json(const moec_package *package);

typedef enum moec_role {
  MOEC_INPUT = 0,
  MOEC_OPTIONAL_INPUT = 1,
  MOEC_OUTPUT = 2,
  MOEC_OPTIONAL_OUTPUT = 3,
  MOEC_STORED_WEIGHT = 4,
  MOEC_PACKED_WEIGHT = 5
} moec_role;

typedef struct moec_value {
  size_t struct_size;
  const char *name;
  int32_t role; /**< a moec_role */
  /** Space-separated names; the first is the default. */
  const char *element_types;
  int32_t rank;
  /** Not 0: the outermost stride may be larger than a row, by a multiple of
   *  the alignment. */
  int32_t caller_row_stride;
  int64_t alignment; /**< of the pointer, in bytes */
  /** "" or the stored weight whose memory this packed weight may take. */
  const char *may_alias;
} moec_value;

/** The tensors that a caller hands over; index < moec_package_num_values. */
size_t moec_package_num_values(const moec_package *package);
moec_status moec_package_value(const moec_package *package, size_t index,
                               moec_value *value);
/** Extents for so many tokens, outermost first; `shape` holds rank numbers. */
moec_status moec_package_value_shape(const moec_package *package,
                                     const char *name, int64_t tokens,
                                     int64_t *shape);
/** Bytes when contiguous, in the default element type. */
moec_status moec_package_value_bytes(const moec_package *package,
                                     const char *name, int64_t tokens,
                                     uint64_t *bytes);

typedef struct moec_variant {
  size_t struct_size;
  const char *name;
  int64_t min_tokens, max_tokens; /**< inclusive, of all ranks together */
  int32_t num_launches;
  int64_t min_sms; /**< a device with fewer SMs has others; 0: any device */
} moec_variant;

size_t moec_package_num_variants(const moec_package *package);
moec_status moec_package_variant(const moec_package *package, size_t index,
                                 moec_variant *variant);
/** The variant that serves this token count. */
moec_status moec_package_variant_for(const moec_package *package,
                                     int64_t tokens, size_t *index);

/** Workspace that suffices for every run of at most `tokens` tokens, whatever
 *  variant serves it. Alignment: 256 bytes. */
moec_status moec_package_workspace_bytes(const moec_package *package,
                                         int64_t tokens, uint64_t *bytes);
/** State that a context of the package has; may be 0. Alignment: 256 bytes. */
moec_status moec_package_state_bytes(const moec_package *package,
                                     uint64_t *bytes);
/** Extra memory that packing needs at a time. Alignment: 256 bytes. */
moec_status moec_package_pack_scratch_bytes(const moec_package *package,
                                            uint64_t *bytes);

/*===----------------------------------------------------------------------===*\
|* Layer                                                                      *|
\*===----------------------------------------------------------------------===*/

/** A tensor by name, in device memory (host device: host memory). Rank, shape
 *  and strides are as in DLPack's DLTensor and are copied during the call. Each
 *  is checked: another rank or extent than the value's is
 *  MOEC_INVALID_ARGUMENT, and so are strides that it does not allow.
 *
 *  Arrays of this struct are handed over, so it never grows: five pointers and
 *  the rank, as they stand here. Zero what you do not set. */
typedef struct moec_tensor {
  const char *name;
  /** The first element; DLPack's byte_offset is added already. */
  void *data;
  /** NULL: the value's default. "u8": the bytes of a value whose elements have
   *  less than 8 bits, or of f8E8M0FNU; shape and strides then count bytes.
   *  Else shape and strides count elements, also where a byte holds two. */
  const char *element_type;
  /** Number of dimensions, as moec_value says; at most 8. */
  int32_t rank;
  /** Extents, outermost first, as moec_package_value_shape says. */
  const int64_t *shape;
  /** NULL: contiguous. Where moec_value.caller_row_stride is set the outermost
   *  may be larger; else they are those of a contiguous tensor. The stride of
   *  an extent of 1 is not read. */
  const int64_t *strides;
} moec_tensor;

#ifndef __cplusplus
/** Rank and shape in an initializer: {"x", x, NULL, MOEC_SHAPE(9, 16), NULL}.
 *  The extents live as long as the enclosing block. C++ has moec.hpp. */
#define MOEC_SHAPE(...)                                                        \
  (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),         \
      (const int64_t[]) {                                                      \
    __VA_ARGS__                                                                \
  }
#endif

typedef struct moec_layer_options {
  size_t struct_size;
  /** Memory for packing, moec_package_pack_scratch_bytes() large; NULL: moec
   *  allocates it, waits for the stream and frees it. */
  void *scratch;
  uint64_t scratch_bytes;
  /** Not 0: the packed weights given (or, in place, the stored ones) are
   *  already packed; only pointers are taken. */
  int32_t already_packed;
} moec_layer_options;

/** Packs the weights on `stream`, a few experts at a time. `weights` names
 *  every stored weight; a packed weight goes to the memory given under its
 *  name, else in place where the manifest allows it (the stored weight is then
 *  overwritten). Weight memory is borrowed: it must outlive the layer, but
 *  stored weights that were packed to other memory may go after the stream
 *  has reached the end of packing. Options may be NULL. routing_bias may be
 * left out: each run of the layer then gives given_ids and given_weights. */
moec_status moec_layer_create(const moec_package *package,
                              const moec_tensor *weights, size_t num_weights,
                              const moec_layer_options *options, void *stream,
                              moec_layer **layer);
/** Packs experts [first, first + count) again, from `weights` (which names the
 *  stored weights of packed ones, whole tensors), into the layer's own packed
 *  memory. In place: the caller has written these experts' stored form there.
 *  The caller orders it against runs. Weights of shared experts' own MLP are
 *  packed only when all experts are. */
moec_status moec_layer_repack(moec_layer *layer, const moec_tensor *weights,
                              size_t num_weights, int64_t first_expert,
                              int64_t num_experts, void *scratch,
                              uint64_t scratch_bytes, void *stream);

/** Zero is the default of every field. */
typedef struct moec_unpack_options {
  size_t struct_size;
  /** Not 0: the tensors' memory is host memory, of any alignment, also of a
   *  layer on a GPU. */
  int32_t to_host;
} moec_unpack_options;

/** Writes stored weights again, bit for bit as they were given, to the memory
 *  given under their names: all of them or some. Waits for the stream, and
 *  returns when the bytes are written; the processor unpacks on a GPU, too. A
 *  weight that packing quantizes is MOEC_REFUSED: its numbers are gone.
 *
 *  In place: the memory may be that of a weight that was packed in place. Then
 *  all weights that were packed in place are unpacked in this call, and
 *  moec_run refuses the layer until moec_layer_repack has packed all experts
 *  again. Any other memory that the layer reads is MOEC_INVALID_ARGUMENT.
 *
 *  The caller orders it against runs and packing. Options may be NULL. */
moec_status moec_layer_unpack(moec_layer *layer, const moec_tensor *weights,
                              size_t num_weights,
                              const moec_unpack_options *options, void *stream);
void moec_layer_destroy(moec_layer *layer);

/*===----------------------------------------------------------------------===*\
|* Checkpoints                                                                *|
\*===----------------------------------------------------------------------===*/

/** The tensors of a model by name; its files are mapped and must not change.
 *  Thread-safe. */
typedef struct moec_checkpoint moec_checkpoint;
/** One layer of a checkpoint, as one package takes it. Thread-safe. */
typedef struct moec_weights moec_weights;

/** Opens a folder of safetensors files as Hugging Face writes it, with an index
 *  or without one, or one such file. Reads headers; MOEC_INVALID_ARGUMENT where
 *  one is truncated, or says what cannot be. */
moec_status moec_checkpoint_open(const char *path,
                                 moec_checkpoint **checkpoint);
/** Layers that were opened keep what they need of it. */
void moec_checkpoint_close(moec_checkpoint *checkpoint);
/** The layers that have experts, a JSON array in ascending order; each has
 *  "layer", "prefix" (what names begin with), "experts" (how many; null where
 *  one tensor has all), "shared_experts" (true or false) and "holds" (weights,
 *  scales and so on). By names alone: opens no further file. */
moec_status moec_checkpoint_layers_json(const moec_checkpoint *checkpoint,
                                        moec_text **layers);

/** Zero is the default of every field. */
typedef struct moec_weights_options {
  size_t struct_size;
  /** Not 0: the checkpoint's weights are floats; moec_weights_open quantizes
   *  them on the processor to what the package stores. */
  int32_t quantize;
  /** Not 0: the caller computes the checkpoint's shared experts. */
  int32_t no_shared_experts;
  /** Words of tensors that no value takes and that are left out, "input_scale"
   *  say. Each must name a tensor. */
  const char *const *ignored;
  size_t num_ignored;
} moec_weights_options;

/** Finds the tensors of one layer and checks that package and checkpoint agree.
 *  `layer` is the model's number; -1: the first that has experts. A tensor of
 *  the layer's experts, shared experts or router that no value takes is
 *  MOEC_REFUSED, unless it is known to say nothing; the message says what would
 *  take it. Options may be NULL. No device is touched. */
moec_status moec_weights_open(moec_checkpoint *checkpoint,
                              const moec_package *package, int64_t layer,
                              const moec_weights_options *options,
                              moec_weights **weights);
/** The model's number of the layer; -1 for NULL. */
int64_t moec_weights_layer(const moec_weights *weights);
/** Fills stored weights of the package, in host memory of any alignment. Only
 *  names that are given are loaded. A missing tensor, one of another shape and
 *  a number that would have to be rounded are MOEC_REFUSED; what was written
 *  until then stays. */
moec_status moec_weights_load(const moec_weights *weights,
                              const moec_tensor *tensors, size_t num_tensors);
/** The same of the package's experts [first, first + count): the outermost
 *  extent of each tensor is `count`. So a buffer of any size serves a layer of
 *  any size. MOEC_INVALID_ARGUMENT for a value that is not of experts. */
moec_status moec_weights_load_experts(const moec_weights *weights,
                                      const moec_tensor *tensors,
                                      size_t num_tensors, int64_t first_expert,
                                      int64_t num_experts);
void moec_weights_close(moec_weights *weights);

/** For a program that loads checkpoints itself: JSON that says for each stored
 *  weight which tensors hold it, by the endings of their names, which rows and
 *  columns of them this rank takes, and where these stand in the value.
 *  docs/reference/checkpoints.md explains the fields. */
moec_status moec_package_weight_map_json(const moec_package *package,
                                         moec_text **map);

/*===----------------------------------------------------------------------===*\
|* Ranks that reach each other                                                *|
\*===----------------------------------------------------------------------===*/

/** A rank's end of what connects ranks, for contexts of packages that move
 *  tokens and sums between ranks (all2all_backend gather_scatter or one_sided).
 *  One run at a time uses it. */
typedef struct moec_comm moec_comm;
/** Ranks that are threads of one process. */
typedef struct moec_comm_group moec_comm_group;

#define MOEC_COMM_ID_BYTES 128

/** Gathers `bytes` bytes of each rank, in the order of ranks, into `all`. Any
 *  value but 0 is a failure. Called while communicators and contexts are
 *  created, by the thread that creates them. */
typedef int32_t (*moec_all_gather_function)(void *user, const void *mine,
                                            uint64_t bytes, void *all);
/** Fills in, for each rank, the address at which this rank's GPU reaches
 *  `bytes` bytes of that rank's GPU, a multiple of 256. moec zeroes its own.
 *  The memory outlives the context that is being created. Any value but 0 is a
 *  failure. */
typedef int32_t (*moec_window_function)(void *user, uint64_t bytes,
                                        uint64_t *addresses);

/** Exactly one of unique_id, nccl_comm, group and all_gather is given. With one
 *  of the last two NCCL is not needed, and gather_scatter not possible on
 *  GPUs. */
typedef struct moec_comm_options {
  size_t struct_size;
  int32_t ranks; /**< of the layout, dp * pcp * tp */
  int32_t rank;  /**< flattened, as rank_plus_one of moec_load_options - 1 */
  /** MOEC_COMM_ID_BYTES bytes of moec_comm_unique_id, the same on all ranks. */
  const void *unique_id;
  /** An ncclComm_t of the caller with these ranks. It is split at once
   *  (ncclCommSplit) and not used again. */
  void *nccl_comm;
  moec_comm_group *group;
  /** The GPU, as ordinal_plus_one of moec_load_options. With a group, 0 is the
   *  host device. */
  int32_t ordinal_plus_one;
  /** To wait for other ranks: while connecting, in kernels of one_sided, and in
   *  runs of gather_scatter, as moec_comm_status says. 0: 60000. */
  int32_t timeout_ms;
  /** The libnccl.so.2; NULL: one that the process has loaded, else as the
   *  loader finds it. NCCL 2.18 or later. */
  const char *nccl_path;
  /** In the place of NCCL: the caller's own way between hosts. `window` may be
   *  NULL: the driver then shares memory between GPUs of one host. */
  moec_all_gather_function all_gather;
  moec_window_function window;
  void *user; /**< of both functions */
  /** Not 0: NCCL (2.29.2 or later) makes the windows of one_sided, also where
   *  the driver could share memory. 0: NCCL makes them where the driver cannot,
   *  between hosts for one. On all ranks alike. */
  int32_t nccl_windows;
} moec_comm_options;

/** One rank makes it and gives it to all. */
moec_status moec_comm_unique_id(const char *nccl_path, void *id);
/** timeout_ms: a rank waits so long for the others of a collective; 0:
 *  60000. */
moec_status moec_comm_group_create(int32_t ranks, int32_t timeout_ms,
                                   moec_comm_group **group);
/** Communicators keep what they need of it. */
void moec_comm_group_destroy(moec_comm_group *group);
/** Returns when all ranks have called it, or MOEC_PEER_LOST. With NCCL, where
 *  one is missing, a thread of the process goes on to wait for it. */
moec_status moec_comm_create(const moec_comm_options *options,
                             moec_comm **comm);
/** MOEC_PEER_LOST where it has failed, NCCL reports a failure of what was
 * queued (ncclCommGetAsyncError), a kernel's wait has ended without its ranks,
 * or what a run queued to NCCL has not ended timeout_ms after it was the
 * oldest; it then serves no more. In the last case it calls ncclCommAbort.
 * Captured runs have no such deadline. Waits for nothing else. Any thread may
 * call it at any time; a run looks at the same. */
moec_status moec_comm_status(moec_comm *comm);
/** Ends what waits for other ranks: MOEC_PEER_LOST there, and in all that comes
 *  later. With NCCL it is ncclCommAbort, which ends kernels that wait; outputs
 *  of their runs are undefined. Kernels of one_sided that wait end, and their
 *  outputs are NaN. Any thread may call it at any time. The other
 *  ranks must do the same. */
moec_status moec_comm_abort(moec_comm *comm);
/** Contexts keep what they need of it. No run may be in flight. */
void moec_comm_destroy(moec_comm *comm);

/*===----------------------------------------------------------------------===*\
|* Context and run                                                            *|
\*===----------------------------------------------------------------------===*/

typedef struct moec_context_options {
  size_t struct_size;
  /** Memory for the state, moec_package_state_bytes() large, which must outlive
   *  the context; NULL: moec allocates it. */
  void *state;
  uint64_t state_bytes;
  /** For a package that moves tokens and sums between ranks, which is
   *  MOEC_NO_COMMUNICATION without it. All ranks create their contexts in one
   *  order, since groups of ranks and windows are made then; MOEC_PEER_MISMATCH
   * where their packages differ in more than the rank. */
  moec_comm *comm;
} moec_context_options;

/** Zeroes the package's state, and waits for that. The workspace stays the
 *  caller's; its content is undefined before and after each run. It may be NULL
 *  when bytes is 0. A context serves every layer of its package, one run at a
 *  time. Options may be NULL.
 *
 *  All runs on a context use its workspace and state, so each must have ended
 *  before the next begins: queue them into one stream, or order streams with
 *  events. Two calls of moec_run at the same moment are MOEC_CONTEXT_IN_USE.
 *  Runs that were queued one after the other into streams that nothing orders
 *  cannot be told from ordered ones: they are not detected, and their outputs
 *  are undefined. */
moec_status moec_context_create(const moec_package *package, void *workspace,
                                uint64_t workspace_bytes,
                                const moec_context_options *options,
                                moec_context **context);
/** Other workspace from the next run on. */
moec_status moec_context_set_workspace(moec_context *context, void *workspace,
                                       uint64_t workspace_bytes);
/** Of a one_sided package: once the runs of all ranks have ended, since ranks
 *  write into each other's memory. That memory is freed when no rank of another
 *  process maps it any more: now, or when this process makes or destroys
 *  another such context or a communicator. A CUDA context that the caller made
 *  must outlive it; a primary one does. */
void moec_context_destroy(moec_context *context);

typedef struct moec_run_options {
  size_t struct_size;
  /** Not 0: the first launch may start before its predecessor in the stream
   *  has ended; the caller promises that no one writes weights then. */
  int32_t overlap_previous;
  /** NULL: by token count; else this variant, whose range must hold it. */
  const char *variant;
} moec_run_options;

/** Queues one run. Allocates nothing, synchronizes nothing, may be captured in
 *  a CUDA graph. tokens = 0 succeeds and launches nothing. Options may be NULL.
 *  On a context with a moec_comm all ranks run the same number of times, with
 *  the same token count; valid_tokens says how many of them are real. Where
 *  it returns MOEC_PEER_LOST or MOEC_PEER_MISMATCH, required outputs of floats
 *  are NaN.
 *  On the host device it returns when the outputs are written.
 *
 *  Types: where a value has several element types, any of them may be given at
 *  any run: ids as i32 or i64; logits, given_weights and shared_gate as f32,
 * f16 or bf16. Results depend on the numbers alone. Any other type is
 *  MOEC_INVALID_ARGUMENT. A value of several types needs no larger alignment
 *  than the size of the type that is given.
 *
 *  Memory: `out` may be `x` or `residual` itself: the same address and element
 *  type, contiguous rows. Any other overlap of an output with another tensor of
 *  the run or with a weight that it reads, and of any tensor with the workspace
 *  or the state, is MOEC_INVALID_ARGUMENT. Inputs may overlap each other.
 *
 *  Ids: an id in given_ids that is not of an expert (negative, or not below
 *  num_experts + num_zero_experts + num_constant_experts) weighs 0: nothing is
 * computed for it, whatever its weight is, a NaN too. `ids` and `weights`, if
 * asked for, repeat what was given; an id that 32 bits cannot hold becomes -1.
 */
moec_status moec_run(const moec_layer *layer, moec_context *context,
                     void *stream, const moec_tensor *tensors,
                     size_t num_tensors, int64_t tokens,
                     const moec_run_options *options);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOEC_MOEC_H */
