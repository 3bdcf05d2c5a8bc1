//===- flashinfer_exchange.cu - FlashInfer's one-sided exchange
//-------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Calls FlashInfer's kernels of MoE all-to-all ("moe_a2a") with memory that
/// the caller maps. FlashInfer's own Python package allocates that memory by
/// MNNVL. bench/rank_peers.py loads this library, and bench/README.md says how
/// it is built.
///
/// Memory of a rank: the header, which begins as zeros, then what is received,
/// then the rows for combine. Its addresses are those at which the calling rank
/// sees the memory of each rank.
///
//===----------------------------------------------------------------------===//

#include <cstddef>
#include <cstdint>

// The second header uses what it does not include.
#include <tensorrt_llm/common/dataType.h>

#include <tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.h>

namespace a2a = tensorrt_llm::kernels::moe_alltoall;

namespace {

constexpr size_t Alignment = 256;

size_t aligned(size_t Bytes) {
  return (Bytes + Alignment - 1) / Alignment * Alignment;
}

/// The offsets of the header's parts.
struct Header {
  size_t Flag = 0;
  size_t TokenCounter = sizeof(uint32_t);
  size_t SendCounters = Alignment;
  size_t RecvCounters = SendCounters + aligned(a2a::kMaxRanks * sizeof(int));
  size_t DispatchFlags = RecvCounters + aligned(a2a::kMaxRanks * sizeof(int));
  size_t CombineFlags = DispatchFlags + aligned(a2a::kMaxRanks * sizeof(int));
  size_t TargetRanks = CombineFlags + aligned(a2a::kMaxRanks * sizeof(int));
  size_t SendIndices;
  size_t End;

  explicit Header(int MaxTokens) {
    size_t Pairs = aligned(size_t(MaxTokens) * a2a::kMaxTopK * sizeof(int));
    SendIndices = TargetRanks + Pairs;
    End = SendIndices + Pairs;
  }
};

template <typename T> T *at(void *Memory, size_t Offset) {
  return reinterpret_cast<T *>(static_cast<char *>(Memory) + Offset);
}

} // namespace

extern "C" {

/// Bytes of the header of a rank's memory.
size_t flashinfer_header_bytes(int MaxTokens) { return Header(MaxTokens).End; }

/// Sends each token's rows to the ranks of its experts and waits for the rows
/// of all ranks. Slot [source rank, i] of a tensor in rank r's memory begins at
/// Offsets[tensor] + (source rank * MaxTokens + i) * RowBytes[tensor]. Then ids
/// of slots without a row become -1; they are tensor number IdTensor.
void flashinfer_dispatch(int Rank, int Ranks, int Experts, int TopK, int Tokens,
                         int MaxTokens, const int32_t *Ids, int Tensors,
                         const void *const *Sources, const int *RowBytes,
                         const size_t *Offsets, int IdTensor,
                         void *const *Memories, cudaStream_t Stream) {
  Header Parts(MaxTokens);
  void *Own = Memories[Rank];
  a2a::MoeA2ADispatchParams Params{};
  Params.enable_pdl = true;
  Params.ep_size = Ranks;
  Params.ep_rank = Rank;
  Params.num_experts = Experts;
  Params.local_num_tokens = Tokens;
  Params.max_tokens_per_rank = MaxTokens;
  Params.top_k = TopK;
  Params.token_selected_experts = Ids;
  Params.num_payloads = Tensors;
  Params.flag_val = at<uint32_t>(Own, Parts.Flag);
  Params.local_token_counter = at<int>(Own, Parts.TokenCounter);
  Params.send_counters = at<int>(Own, Parts.SendCounters);
  Params.topk_target_ranks = at<int>(Own, Parts.TargetRanks);
  Params.topk_send_indices = at<int>(Own, Parts.SendIndices);
  for (int Tensor = 0; Tensor < Tensors; ++Tensor)
    Params.payloads[Tensor] = {Sources[Tensor], 1, RowBytes[Tensor]};
  for (int Target = 0; Target < Ranks; ++Target) {
    Params.recv_counters[Target] =
        at<int>(Memories[Target], Parts.RecvCounters);
    Params.completion_flags[Target] =
        at<uint32_t>(Memories[Target], Parts.DispatchFlags);
    for (int Tensor = 0; Tensor < Tensors; ++Tensor)
      Params.recv_buffers[Target][Tensor] =
          at<char>(Memories[Target], Offsets[Tensor]);
  }
  Params.stream = Stream;
  a2a::moe_a2a_prepare_dispatch_launch(Params);
  a2a::moe_a2a_dispatch_launch(Params);
  a2a::moe_a2a_sanitize_expert_ids_launch(at<int32_t>(Own, Offsets[IdTensor]),
                                          at<int>(Own, Parts.RecvCounters), -1,
                                          Ranks, MaxTokens, TopK, Stream, true);
}

/// Sums for each token the bf16 rows of Hidden numbers that ranks hold at
/// Offset of their memory, in the slots of the last dispatch. Output: [Tokens,
/// Hidden].
void flashinfer_combine(int Rank, int Ranks, int TopK, int Tokens,
                        int MaxTokens, int Hidden, size_t Offset, void *Output,
                        void *const *Memories, cudaStream_t Stream) {
  Header Parts(MaxTokens);
  void *Own = Memories[Rank];
  a2a::MoeA2ACombineParams Params{};
  Params.enable_pdl = true;
  Params.ep_size = Ranks;
  Params.ep_rank = Rank;
  Params.local_num_tokens = Tokens;
  Params.max_tokens_per_rank = MaxTokens;
  Params.top_k = TopK;
  Params.output_data = Output;
  Params.elements_per_token = Hidden;
  Params.dtype = nvinfer1::DataType::kBF16;
  Params.flag_val = at<uint32_t>(Own, Parts.Flag);
  Params.topk_target_ranks = at<int>(Own, Parts.TargetRanks);
  Params.topk_send_indices = at<int>(Own, Parts.SendIndices);
  Params.recv_counters = at<int>(Own, Parts.RecvCounters);
  for (int Target = 0; Target < Ranks; ++Target) {
    Params.completion_flags[Target] =
        at<uint32_t>(Memories[Target], Parts.CombineFlags);
    Params.recv_buffers[Target] = at<char>(Memories[Target], Offset);
  }
  Params.stream = Stream;
  a2a::moe_a2a_prepare_combine_launch(Params);
  a2a::moe_a2a_combine_launch(Params);
}
}
