# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plain implementations of what `moec bench` calls in SGLang, FlashInfer and triton_kernels, with the parameters that
peer_signatures.json records. Each reads weights in the layout of its library, and computes in float32.
"""

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from peer_signatures import fake, records

Tensor = Any
FP4 = "fp4"
FOUR_BITS = torch.tensor((0, 0.5, 1, 1.5, 2, 3, 4, 6))
E2M1 = torch.cat((FOUR_BITS, -FOUR_BITS))
ROTATED = 5  # bytes by which the fake rotates rows of FP4 codes


def install(monkeypatch: Any, modules: dict[str, dict[str, Any]]) -> None:
    """Puts packages with these members into sys.modules."""
    names = {".".join(name.split(".")[:count]) for name in modules for count in range(1, name.count(".") + 2)}
    made = {name: types.ModuleType(name) for name in names}
    for name, module in made.items():
        module.__path__ = [f"/fake/{name}"]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        for key, value in modules.get(name, {}).items():
            setattr(module, key, value)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
        monkeypatch.setitem(sys.modules, name, module)


def top_k(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    weights, ids = logits.float().softmax(-1).topk(count, -1)
    return weights / weights.sum(-1, keepdim=True), ids.int()


def nibbles(codes: Tensor) -> Tensor:
    """[..., columns] of [..., columns / 2]; the first one is in the low bits."""
    return torch.stack((codes & 15, codes >> 4), -1).flatten(-2).long()


def blocks(codes: Tensor, scale: Tensor) -> Tensor:
    return codes.float() * scale.repeat_interleave(128, -2).repeat_interleave(128, -1)


def moe(x: Tensor, ids: Tensor, shares: Tensor, gates: Tensor, ups: Tensor, downs: Tensor) -> Tensor:
    """[E, I, H], [E, I, H] and [E, H, I] in float32. Ids below 0 or from E on have no expert."""
    out = torch.zeros(x.shape[0], downs.shape[1])
    for token in range(x.shape[0]):
        for id, share in zip(ids[token].tolist(), shares[token].tolist(), strict=True):
            if 0 <= id < len(downs):
                row = x[token].float()
                out[token] += share * (downs[id] @ (torch.nn.functional.silu(gates[id] @ row) * (ups[id] @ row)))
    return out.bfloat16()


# ---- SGLang: rows [gates, ups]


def sglang(monkeypatch: Any, release: str) -> None:
    words, place = records()[f"sglang {release}"], "sglang.srt.layers.moe"
    home = f"{place}.moe_runner.triton_utils.fused_moe"

    def fused_moe(given: Any) -> Tensor:
        def weights(codes: Tensor, scale: Tensor) -> Tensor:
            if given.use_int4_w4a16:
                group = given.block_shape[1]
                assert given.block_shape[0] == 0
                return (nibbles(codes) - 8) * scale.float().repeat_interleave(group, -1)
            if not given.use_fp8_w8a8:
                return codes.float()
            if given.per_channel_quant:
                assert scale.shape == (*codes.shape[:2], 1)
                return codes.float() * scale
            assert given.block_shape == [128, 128]
            return blocks(codes, scale)

        config = given.moe_runner_config
        assert published
        assert not config.inplace
        # The function asks for the group of ranks.
        if release == "0.5.23":
            assert parallel.tp_group
        else:
            assert sys.modules[home].get_tp_group() is None
        ids, local = given.topk_output.topk_ids, config.num_local_experts
        assert local == len(given.w1)
        # The kernel skips ids of -1 only if the config says that experts are elsewhere.
        assert (ids >= 0).all() or config.num_experts != local
        gates, ups = weights(given.w1, given.w1_scale).chunk(2, 1)
        downs = weights(given.w2, given.w2_scale)
        return moe(given.hidden_states, ids, given.topk_output.topk_weights, gates, ups, downs)

    def fused_topk(given: Any) -> tuple[Tensor, Tensor]:
        assert given.renormalize
        return top_k(given.gating_output, given.topk)

    published: list[bool] = []
    context = types.SimpleNamespace(
        override_server_args=lambda: types.SimpleNamespace(install=lambda: published.append(True)),
    )
    parallel = types.SimpleNamespace(tp_group=None)
    parallel.override_permanently = lambda tp_group: setattr(parallel, "tp_group", tp_group)

    def get_tp_group() -> Any:
        raise AssertionError("tensor model parallel group is not initialized")

    install(
        monkeypatch,
        {
            "sglang": {"__version__": release},
            "sglang.srt.runtime_context": {"get_context": lambda: context, "get_parallel": lambda: parallel},
            f"{place}.moe_runner": {"MoeRunnerConfig": fake(words["MoeRunnerConfig"])},
            home: {"fused_moe": fake(words["fused_moe"], fused_moe)}
            | ({} if release == "0.5.23" else {"get_tp_group": get_tp_group}),
            f"{place}.topk": {
                "fused_topk": fake(words["fused_topk"], fused_topk),
                "StandardTopKOutput": fake(words["StandardTopKOutput"]),
            },
        },
    )


# ---- FlashInfer: rows [ups, gates]


def folded(scales: Tensor) -> Tensor:
    """Scales of one byte for groups of 32, as FlashInfer folds 64 rows of 128 columns into 16 bytes."""
    experts, rows, groups = scales.shape
    split = scales.reshape(experts, rows // 64, 4, 16, groups // 4, 4)
    return split.permute(0, 1, 4, 3, 2, 5).reshape(experts, rows // 64, groups // 4, 16, 16).contiguous()


def unfolded(scales: Tensor) -> Tensor:
    experts, rows, groups = scales.shape[:3]
    split = scales.reshape(experts, rows, groups, 16, 4, 4)
    return split.permute(0, 1, 4, 3, 2, 5).reshape(experts, rows * 64, groups * 4)


def flashinfer(monkeypatch: Any) -> list[tuple[bool, tuple[int, ...]]]:
    """Returns the list of the calls of autotune."""
    words = records()["flashinfer 0.7.4"]
    tuning: list[tuple[bool, tuple[int, ...]]] = []

    @contextlib.contextmanager
    def tuned(given: Any) -> Iterator[None]:
        tuning.append((given.tune_mode, given.tuning_buckets))
        yield

    def mxfp4(codes: Tensor, scale: Tensor) -> Tensor:
        assert scale.dtype == torch.int32
        exponents = unfolded(scale.view(torch.uint8))
        return E2M1[nibbles(codes.roll(-ROTATED, -1))] * torch.exp2(exponents.float() - 127).repeat_interleave(32, -1)

    def cutlass(given: Any) -> Tensor:
        first, second, scales = given.fc1_expert_weights, given.fc2_expert_weights, given.quant_scales
        if given.use_deepseek_fp8_block_scale:
            first, second = blocks(first, scales[0]), blocks(second, scales[1])
        elif given.use_w4_group_scaling:
            first, second = mxfp4(first, scales[0]), mxfp4(second, scales[1])
        else:
            assert not scales
        ups, gates = first.float().chunk(2, 1)
        assert given.token_selected_experts.dtype == torch.int32
        ids = given.token_selected_experts - given.ep_rank * len(second)
        made = moe(given.input, ids, given.token_final_scales, gates, ups, second.float())
        return given.output.copy_(made)

    def trtllm(given: Any) -> Tensor:
        assert given.routing_method_type == 1
        shares, ids = top_k(given.routing_logits, given.top_k)
        x = given.hidden_states.float() * given.hidden_states_scale.t().repeat_interleave(128, -1)
        ups, gates = blocks(given.gemm1_weights, given.gemm1_weights_scale).chunk(2, 1)
        downs = blocks(given.gemm2_weights, given.gemm2_weights_scale)
        assert (given.intermediate_size, given.local_num_experts) == (downs.shape[2], len(downs))
        return moe(x, ids - given.local_expert_offset, shares, gates, ups, downs)

    def interleaved(given: Any) -> Tensor:
        assert given.quant_type == "fp4"
        return given.weight.roll(ROTATED, -1)

    install(
        monkeypatch,
        {
            "flashinfer": {"__version__": "0.7.4", "autotune": fake(words["autotune"], tuned)},
            "flashinfer.fused_moe": {
                "cutlass_fused_moe": fake(words["cutlass_fused_moe"], cutlass),
                "trtllm_fp8_block_scale_moe": fake(words["trtllm_fp8_block_scale_moe"], trtllm),
                "interleave_moe_weights_for_sm90_mixed_gemm": fake(
                    words["interleave_moe_weights_for_sm90_mixed_gemm"], interleaved
                ),
                "interleave_moe_scales_for_sm90_mixed_gemm": fake(
                    words["interleave_moe_scales_for_sm90_mixed_gemm"], lambda given: folded(given.scales)
                ),
            },
        },
    )
    return tuning


# ---- triton_kernels: rows gate, up, gate, up, ...


def swiglu_fn(rows: Tensor, alpha: float, limit: float) -> Tensor:
    """As the library's kernel: s * (up + 1)."""
    gates, ups = rows[:, ::2].clamp(max=limit), rows[:, 1::2].clamp(-limit, limit)
    s = gates / (1 + torch.exp(-alpha * gates))
    return s * ups + s


class Stored:
    """A tensor of the library in one of its layouts."""

    def __init__(self, data: Tensor, dtype: Any, layout: Any) -> None:
        self.data, self.dtype, self.layout = data, dtype, layout


class TritonKernels:
    """The functions of a release of the library."""

    def __init__(self, release: str) -> None:
        self.release = release

    def layout(self, name: str) -> Any:
        # Classes with options, or instances since 3.8.
        return name if self.release == "3.8" else (name, {"mx_axis": 1})

    def layout_of(self, name: str) -> Callable[[Any], Any]:
        def work(given: Any) -> Any:
            assert given.mx_axis == (-2 if self.release == "3.8" else 1)
            return self.layout(name)

        return work

    def convert(self, given: Any) -> Stored:
        wanted = given.layout if self.release == "3.8" else given.layout_cls
        assert given.tensor.layout is None
        return Stored(given.tensor.data, given.tensor.dtype, wanted)

    def weights_of(self, weight: Any, precision: Any) -> Tensor:
        """float32 [E, columns, rows]"""
        if precision is None:
            return weight.float()
        scale = precision.b_mx_scale if self.release == "3.8" else precision.weight_scale
        assert (weight.layout, weight.dtype, scale.layout) == ("values", FP4, "scales")
        assert self.release != "3.8" or precision.b_microblock_size == 32
        exponents = torch.exp2(scale.data.transpose(1, 2).float() - 127).repeat_interleave(32, -1)
        digits = E2M1[nibbles(weight.data.transpose(1, 2))]
        return (digits * exponents[..., : digits.shape[-1]]).transpose(1, 2)

    def matmul(self, given: Any) -> Tensor:
        if self.release == "3.8":
            x, weight, counts = given.a, given.b, given.a_ragged_metadata.counts
            gathered = given.gather_indx
            scattered = given.scatter_indx
        else:
            x, weight, data = given.x, given.w, given.routing_data
            counts = data.expt_hist
            gathered = None if given.gather_indx is None else given.gather_indx.src_indx // data.n_expts_act
            scattered = None if given.scatter_indx is None else given.scatter_indx.dst_indx
        rows = x if gathered is None else x[gathered.long()]
        every, made, begin = self.weights_of(weight, given.precision_config), [], 0
        for expert, count in enumerate(counts.tolist()):
            made.append(rows[begin : begin + count].float() @ every[expert])
            if given.bias is not None:
                assert given.bias.dtype == torch.float32
                made[-1] += given.bias[expert]
            begin += count
        out = torch.cat(made)
        if given.fused_activation is not None:
            specs = given.fused_activation.specs
            columns = specs.reduction_n if self.release != "3.5" else given.fused_activation.reduction_n
            assert (specs.fn_arg_names, columns) == (("alpha", "limit"), 2)
            out = specs.fn(out, *given.fused_activation.fn_args)
        if given.gammas is not None:
            out = out * given.gammas[:, None].float()
        if scattered is not None:
            placed = torch.empty_like(out)
            placed[scattered.long()] = out
            # Before 3.8 the library sums the rows of a token.
            out = placed if self.release == "3.8" else placed.unflatten(0, (-1, given.routing_data.n_expts_act)).sum(1)
        return out.bfloat16()

    def chosen(self, logits: Tensor, count: int) -> Any:
        """Weights and ids of each token, the pairs sorted by expert, and the place of each pair among them."""
        values, ids = logits.float().topk(count, -1)
        of_columns = torch.argsort(ids.flatten(), stable=True).int()
        counts = torch.bincount(ids.flatten(), minlength=logits.shape[1]).int()
        return values.softmax(-1), of_columns, torch.argsort(of_columns).int(), counts

    def topk(self, given: Any) -> Any:
        assert given.apply_softmax
        values, of_columns, of_rows, counts = self.chosen(given.x, given.k)
        metadata = types.SimpleNamespace(row_sorted_indx=of_rows, col_sorted_indx=of_columns, col_sum=counts)
        return types.SimpleNamespace(vals=values, mask_metadata=metadata)

    def routing(self, given: Any) -> Any:
        assert not given.sm_first
        values, of_columns, of_rows, counts = self.chosen(given.logits, given.n_expts_act)
        gates = values.flatten()[of_columns.long()]
        data = types.SimpleNamespace(gate_scal=gates, expt_hist=counts, n_expts_act=given.n_expts_act)
        gather = types.SimpleNamespace(src_indx=of_columns, dst_indx=of_rows)
        return data, gather, types.SimpleNamespace(src_indx=of_rows, dst_indx=of_columns)

    def ragged(self, given: Any) -> Any:
        assert given.n_total_rows == given.slice_sizes.sum()
        return types.SimpleNamespace(counts=given.slice_sizes, slice_sizes=given.slice_sizes)

    def stored(self, given: Any) -> Stored:
        return Stored(given.torch_tensor, given.dtype, None)


def triton_kernels(monkeypatch: Any, release: str) -> list[dict[str, int]]:
    """Returns the list of constraints."""
    words = records()[f"triton_kernels {release}"]
    constraints: list[dict[str, int]] = []
    matmul_module = "matmul" if release == "3.8" else "matmul_ogs"
    library = TritonKernels(release)

    home = {name: fake(words[name]) for name in ("FnSpecs", "FusedActivation", "PrecisionConfig")}
    home[matmul_module] = fake(words[matmul_module], library.matmul)
    home |= {name: fake(words[name]) for name in ("RoutingData", "GatherIndx", "ScatterIndx") if name in words}
    tensor = {
        "FP4": FP4,
        "wrap_torch_tensor": fake(words["wrap_torch_tensor"], library.stored),
        "convert_layout": fake(words["convert_layout"], library.convert),
    }
    values, scales = "make_default_matmul_mxfp4_w_layout", "make_default_matmul_mxfp4_w_scale_layout"
    modules: dict[str, dict[str, Any]] = {
        f"triton_kernels.{matmul_module}": home,
        f"triton_kernels.{matmul_module}_details.opt_flags": {"update_opt_flags_constraints": constraints.append},
        "triton_kernels.swiglu": {"swiglu_fn": swiglu_fn},
        "triton_kernels.tensor": tensor,
        "triton_kernels.tensor_details.layout": {
            values: fake(words[values], library.layout_of("values")),
            scales: fake(words[scales], library.layout_of("scales")),
        },
    }
    if release == "3.5":
        modules["triton_kernels.routing"] = {"routing": fake(words["routing"], library.routing)}
    else:
        modules["triton_kernels.topk"] = {"topk": fake(words["topk"], library.topk)}
        tensor["make_ragged_tensor_metadata"] = fake(words["make_ragged_tensor_metadata"], library.ragged)
    install(monkeypatch, modules)
    return constraints
