//===- Manifest.h - what a package says -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one definition of the contract between compiler and runtime; both sides
// compile it. A package is a folder with `manifest.json`, the generated `.cu`
// files, the headers that they include and a `.cubin` for each kernel and arch
// that was compiled ahead of time. docs/reference/manifest.md explains every
// field with an example; ManifestJson.cpp reads and writes it (an unknown,
// missing or mistyped field is an error with its JSON path), Validate.cpp
// checks it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_MANIFEST_H
#define MOEC_RUNTIME_PACKAGE_MANIFEST_H

#include "runtime/package/Expression.h"
#include "runtime/support/Json.h"
#include "runtime/support/Result.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace moec {

/// Raised with every change that an older reader would misunderstand.
inline constexpr int kManifestVersion = 7;

/// No manifest comes near; what is larger is none.
inline constexpr size_t kMaxManifestBytes = size_t(16) << 20;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

enum class ValueRole {
  Input,          ///< given at every run
  OptionalInput,  ///< may be absent at a run; kernels then see a null pointer
  Output,         ///< written by every run, every element
  OptionalOutput, ///< written when given
  StoredWeight,   ///< as the checkpoint holds it; given once per layer
  PackedWeight,   ///< made by `pack` from stored weights; once per layer
  Workspace,      ///< content undefined before and after a run
  State,          ///< zeroed once per context, left zero by every run
  Window,         ///< where other ranks write; zeroed once per context
};

/// A tensor. Inputs, outputs and stored weights stand in Manifest::values;
/// what depends on the target stands in Target::values. Names are unique over
/// both.
struct Value {
  std::string name;
  ValueRole role = ValueRole::Input;
  /// Names of ElementTypes.h. The first is the default; more than one only
  /// where the caller may choose at each run (ids: i32 or i64; logits).
  std::vector<std::string> elementTypes;
  std::vector<Expression> shape; ///< logical, outermost first
  /// In elements, outermost first; empty means contiguous.
  std::vector<Expression> strides;
  /// The caller may pass another outermost stride (>= the contiguous one).
  bool callerRowStride = false;
  int64_t alignment = 16; ///< of the pointer, in bytes; a power of two
  /// Another value that may share this one's memory ("" for none): a packed
  /// weight that replaces its stored one in place.
  std::string mayAlias;
};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// One field of a kernel's only parameter, the argument block.
struct ArgumentField {
  enum class Kind {
    Pointer,     ///< 8 bytes: the device address of `value`
    TensorMap,   ///< 128 bytes at a multiple of 64: `tensorMap`, encoded
    Size,        ///< `expression`, as `elementType`
    RowStride,   ///< the outermost stride of `value` in elements, i64
    ElementType, ///< code of `value`'s element type as given at this run, i32
    FirstExpert, ///< of a pack step, i32
    Peers,       ///< 8 bytes: the device address of all windows' addresses
    Status,      ///< 8 bytes: the device address of the ExchangeBlock
  };
  std::string name; ///< of the C++ field, and of the stage operand or result
  int64_t offset = 0;
  Kind kind = Kind::Pointer;
  std::string value;
  std::string tensorMap;
  Expression expression;
  std::string elementType; ///< of Size: i32, i64 or f32
  int64_t bytes() const;   ///< from kind and element type
};

struct ArgumentBlock {
  int64_t bytes = 0;
  int64_t alignment = 8;             ///< 64 when it holds a tensor map
  std::vector<ArgumentField> fields; ///< ascending offsets, no overlap
};

/// A stage of the layer that a kernel performs, so that a device without a
/// GPU can perform it too. `operands` and `results` map the op's own names to
/// argument fields of the kernel, or to "%name": a value that lives inside
/// this kernel alone. docs/reference/manifest-stages.md lists the kinds with
/// their operands, results and attributes.
struct Stage {
  std::string op; ///< route, count, permute, quantize, grouped_matmul, ...
  std::map<std::string, std::string> operands;
  std::map<std::string, std::string> results;
  BoxedJson attributes; ///< an object
};

struct Kernel {
  std::string name;   ///< unique in the target
  std::string source; ///< path in the package, "sm_90a/gate_up.cu" say
  std::string entry;  ///< extern "C" name, unique in the package
  std::vector<std::string> headers; ///< names as #included, the closure
  std::vector<std::string> options; ///< for NVRTC, the arch among them
  std::string cubin; ///< path in the package; "" if not compiled ahead
  int64_t threads = 0;
  int64_t sharedBytes = 0; ///< dynamic
  std::array<int64_t, 3> cluster = {1, 1, 1};
  int64_t minCtasPerSm = 1; ///< as in __launch_bounds__
  bool cooperative = false; ///< has a grid-wide wait
  /// May start before its predecessor in the stream has finished: executes
  /// griddepcontrol.wait before it touches anything the predecessor wrote.
  bool programmatic = false;
  ArgumentBlock arguments;
  std::vector<Stage> stages;
};

/// A TMA descriptor, as cuTensorMapEncodeTiled takes it.
struct TensorMap {
  std::string name;
  std::string value;
  std::string elementType;
  std::vector<Expression> extents; ///< innermost first, 1 to 5
  std::vector<Expression> strides; ///< in bytes, of dimensions 1.., % 16 == 0
  std::vector<int64_t> box;        ///< innermost first, each 1 to 256
  std::vector<int64_t> elementStrides;
  std::string interleave;      ///< none, 16b, 32b
  std::string swizzle;         ///< none, 32b, 64b, 128b
  std::string l2Promotion;     ///< none, 64b, 128b, 256b
  std::string outOfBoundsFill; ///< zeros, nan
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

struct Grid {
  /// Plain: this many CTAs in x, y, z.
  std::array<Expression, 3> ctas = {Expression(1), Expression(1),
                                    Expression(1)};
  /// Persistent: min(tiles, real SM count * ctasPerSm) CTAs in x.
  bool persistent = false;
  Expression tiles;
  int64_t ctasPerSm = 0;
};

/// The ranks of a group do it together, each with values of its own. The group
/// of a rank has `ranks` members, which are `stride` apart.
struct Collective {
  enum class Kind {
    AllGather,     ///< operands of all, in the order of ranks
    ReduceScatter, ///< the sum over all, of which a rank gets its tokens'
    AllReduce,     ///< the sum over all
  };
  Kind kind = Kind::AllGather;
  int64_t ranks = 1;
  int64_t stride = 1;
  std::vector<std::string> operands;
  std::vector<std::string> results; ///< one for each operand
};

/// A kernel, or a collective in its place.
struct Launch {
  std::string kernel;
  Grid grid;
  std::optional<Collective> collective;
};

/// The place of a workspace value during the launches that need it.
struct Region {
  std::string value;
  Expression offset; ///< a multiple of the value's alignment
  Expression bytes;
  int64_t firstLaunch = 0; ///< indices into Variant::launches, inclusive
  int64_t lastLaunch = 0;
};

/// The launches that serve a range of token counts.
struct Variant {
  std::string name;
  int64_t minTokens = 1;
  int64_t maxTokens = 1; ///< inclusive
  /// A device with fewer SMs passes it by; 0: all take it.
  int64_t minSms = 0;
  std::vector<Launch> launches;
  std::vector<Region> regions; ///< overlap in bytes only if not in time
  Expression workspaceBytes;
};

/// How stored weights become a packed one, a few experts at a time. The
/// launches' expressions may use `experts`, the number in this step.
struct Pack {
  std::string result; ///< a packed weight
  /// Stored weights; behind the first also packed ones of earlier entries.
  std::vector<std::string> from;
  bool inPlace = false; ///< result may be the memory of from[0]
  int64_t expertsPerStep = 1;
  int64_t totalExperts = 0;
  std::string scratch;     ///< the workspace value used as scratch, or ""
  Expression scratchBytes; ///< for one step; the only extra memory in place
  std::vector<Launch> launches;
};

struct StateRegion {
  std::string value;
  int64_t offset = 0;
};

/// A value's place in the window of every rank, sized for max_tokens.
struct WindowRegion {
  std::string value;
  int64_t offset = 0; ///< a multiple of kWindowAlignment
};

inline constexpr int64_t kWindowAlignment = 256;
/// The value that every window begins with; moe::ExchangeWords counts its
/// words.
inline constexpr std::string_view kExchangeWords = "exchange_words";
constexpr int64_t exchangeWordsOf(int64_t ranks) { return 3 * ranks + 8; }

/// One arch's code.
struct Target {
  std::string arch; ///< a row of the architecture table, "sm_90a"
  std::string gpu;  ///< the GPU that ranges and schedules assumed
  /// Archs' binary compatibility, from the arch row: "exact", "major"
  /// (sm_80 serves 8.x with x >= 0) or "family" (sm_100f serves its family).
  std::string compatibility;
  int64_t computeMajor = 0, computeMinor = 0;
  std::vector<Value> values;
  std::vector<Kernel> kernels;
  std::vector<TensorMap> tensorMaps;
  /// The first that a device takes serves. Those that all take ascend, gapless
  /// from 1 to maxTokens.
  std::vector<Variant> variants;
  std::vector<Pack> pack;
  int64_t stateBytes = 0;
  std::vector<StateRegion> stateRegions;
  /// Ranks whose kernels write into each other's windows, 0 to windowRanks - 1;
  /// 1: there are no windows.
  int64_t windowRanks = 1;
  int64_t windowBytes = 0; ///< of each rank's
  std::vector<WindowRegion> windowRegions;
  /// The resolver's: winner, refused candidates, degradations, schedules.
  BoxedJson report;
};

/// A rank has these of its own. All else is equal for the ranks of a package.
struct RankFacts {
  int64_t rank = 0; ///< flattened, (dp_rank * pcp + pcp_rank) * tp + tp_rank
  int64_t localBegin = 0;        ///< the first of its experts
  int64_t intermediateBegin = 0; ///< the first of its columns
  bool addW2Bias = true;         ///< false: another rank adds b2
  bool addZeroExperts = true;    ///< false: another adds what they hand on
  /// The first column of shared experts that have weights of their own.
  int64_t sharedIntermediateBegin = 0;
};

struct Manifest {
  std::string name;     ///< of the layer
  std::string compiler; ///< "moec 0.1.0"; information, in no key
  /// Ranks that the package serves, ascending. A run is one rank's (Ranks.h).
  std::vector<RankFacts> ranks = {RankFacts()};
  /// Every name expanded into structure: what the reference reads. What `ranks`
  /// says is in it once the manifest is that of one rank (ofRank).
  BoxedJson layer;
  int64_t maxTokens = 0;
  /// `tokens` are of so many ranks together, each of which brings `own_tokens`
  /// of them to a run, as many as any other.
  int64_t tokenRanks = 1;
  Expression rows; ///< bound on the rows of all experts, of tokens
  std::vector<Value> values;
  /// Exactly one of these groups of optional inputs is given at each run.
  std::vector<std::vector<std::string>> oneOf;
  std::vector<Target> targets;
  /// Lower-case hex SHA-256 of every other file of the package, by path.
  std::map<std::string, std::string> files;
};

/// Stands in place of a manifest where ranks have shares of several sizes: a
/// folder of the package holds the package of each size.
struct ShareIndex {
  struct Share {
    std::string folder;         ///< "share0", in the package
    std::vector<int64_t> ranks; ///< ascending; each rank is of one share
  };
  std::string name; ///< of the layer
  std::vector<Share> shares;
  /// As Manifest::files, of all folders, with their manifests.
  std::map<std::string, std::string> files;
};

using ManifestFile = std::variant<Manifest, ShareIndex>;

/// The manifest as JSON text, keys in a fixed order, ending in a newline.
std::string toJson(const Manifest &manifest);
std::string toJson(const ShareIndex &index);
/// Parses and checks the format only; every error names the JSON path. An index
/// is checked whole.
Result<ManifestFile> manifestFileFromJson(std::string_view text);
/// Reads a manifest. An index of shares is an error.
Result<Manifest> fromJson(std::string_view text);
/// Checks that the manifest agrees with itself (see Validate.cpp).
Result<void> validate(const Manifest &manifest);

const Value *findValue(const Manifest &manifest, const Target &target,
                       std::string_view name);
const Kernel *findKernel(const Target &target, std::string_view name);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_MANIFEST_H
