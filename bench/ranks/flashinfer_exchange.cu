//===- flashinfer_exchange.cu - FlashInfer's one-sided exchange
//-------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls FlashInfer's kernels of MoE all-to-all ("moe_a2a") with memory that the
// caller maps. FlashInfer's own Python package allocates that memory by MNNVL.
// rank_peers.py loads this library; bench/README.md says how it is built.
//
// Memory of a rank: the header, which begins as zeros, then what is received,
// then the rows for combine. `memories` are the addresses at which the calling
// rank sees the memory of each rank.
//
//===----------------------------------------------------------------------===//

#include <cstddef>
#include <cstdint>

// The second header uses what it does not include.
#include <tensorrt_llm/common/dataType.h>

#include <tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.h>

namespace a2a = tensorrt_llm::kernels::moe_alltoall;

namespace {

constexpr size_t kAlignment = 256;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The offsets of the header's parts.
struct Header {
  size_t flag = 0;
  size_t tokenCounter = sizeof(uint32_t);
  size_t sendCounters = kAlignment;
  size_t recvCounters = sendCounters + aligned(a2a::kMaxRanks * sizeof(int));
  size_t dispatchFlags = recvCounters + aligned(a2a::kMaxRanks * sizeof(int));
  size_t combineFlags = dispatchFlags + aligned(a2a::kMaxRanks * sizeof(int));
  size_t targetRanks = combineFlags + aligned(a2a::kMaxRanks * sizeof(int));
  size_t sendIndices;
  size_t end;

  explicit Header(int maxTokens) {
    size_t pairs = aligned(size_t(maxTokens) * a2a::kMaxTopK * sizeof(int));
    sendIndices = targetRanks + pairs;
    end = sendIndices + pairs;
  }
};

template <typename T> T *at(void *memory, size_t offset) {
  return reinterpret_cast<T *>(static_cast<char *>(memory) + offset);
}

/// Parameters that both kernels have, of ranks and of a rank's header.
template <typename Params>
Params paramsOf(int rank, int ranks, int topK, int tokens, int maxTokens,
                void *const *memories, cudaStream_t stream) {
  Header parts(maxTokens);
  void *own = memories[rank];
  Params params{};
  params.enable_pdl = true;
  params.ep_size = ranks;
  params.ep_rank = rank;
  params.local_num_tokens = tokens;
  params.max_tokens_per_rank = maxTokens;
  params.top_k = topK;
  params.flag_val = at<uint32_t>(own, parts.flag);
  params.topk_target_ranks = at<int>(own, parts.targetRanks);
  params.topk_send_indices = at<int>(own, parts.sendIndices);
  params.stream = stream;
  return params;
}

} // namespace

extern "C" {

/// Bytes of the header of a rank's memory.
size_t flashinfer_header_bytes(int maxTokens) { return Header(maxTokens).end; }

/// Sends each token's rows to the ranks of its experts and waits for the rows
/// of all ranks. Slot [source rank, i] of a tensor in rank r's memory begins at
/// offsets[tensor] + (source rank * maxTokens + i) * rowBytes[tensor]. Then ids
/// of slots without a row become -1; they are tensor number idTensor.
void flashinfer_dispatch(int rank, int ranks, int experts, int topK, int tokens,
                         int maxTokens, const int32_t *ids, int tensors,
                         const void *const *sources, const int *rowBytes,
                         const size_t *offsets, int idTensor,
                         void *const *memories, cudaStream_t stream) {
  Header parts(maxTokens);
  void *own = memories[rank];
  auto params = paramsOf<a2a::MoeA2ADispatchParams>(
      rank, ranks, topK, tokens, maxTokens, memories, stream);
  params.num_experts = experts;
  params.token_selected_experts = ids;
  params.num_payloads = tensors;
  params.local_token_counter = at<int>(own, parts.tokenCounter);
  params.send_counters = at<int>(own, parts.sendCounters);
  for (int tensor = 0; tensor < tensors; ++tensor)
    params.payloads[tensor] = {sources[tensor], 1, rowBytes[tensor]};
  for (int target = 0; target < ranks; ++target) {
    params.recv_counters[target] =
        at<int>(memories[target], parts.recvCounters);
    params.completion_flags[target] =
        at<uint32_t>(memories[target], parts.dispatchFlags);
    for (int tensor = 0; tensor < tensors; ++tensor)
      params.recv_buffers[target][tensor] =
          at<char>(memories[target], offsets[tensor]);
  }
  a2a::moe_a2a_prepare_dispatch_launch(params);
  a2a::moe_a2a_dispatch_launch(params);
  a2a::moe_a2a_sanitize_expert_ids_launch(at<int32_t>(own, offsets[idTensor]),
                                          at<int>(own, parts.recvCounters), -1,
                                          ranks, maxTokens, topK, stream, true);
}

/// Sums for each token the bf16 rows that ranks hold at `offset` of their
/// memory, in the slots of the last dispatch. `output`: [tokens, hidden].
void flashinfer_combine(int rank, int ranks, int topK, int tokens,
                        int maxTokens, int hidden, size_t offset, void *output,
                        void *const *memories, cudaStream_t stream) {
  Header parts(maxTokens);
  auto params = paramsOf<a2a::MoeA2ACombineParams>(rank, ranks, topK, tokens,
                                                   maxTokens, memories, stream);
  params.output_data = output;
  params.elements_per_token = hidden;
  params.dtype = nvinfer1::DataType::kBF16;
  params.recv_counters = at<int>(memories[rank], parts.recvCounters);
  for (int target = 0; target < ranks; ++target) {
    params.completion_flags[target] =
        at<uint32_t>(memories[target], parts.combineFlags);
    params.recv_buffers[target] = at<char>(memories[target], offset);
  }
  a2a::moe_a2a_prepare_combine_launch(params);
  a2a::moe_a2a_combine_launch(params);
}
}
