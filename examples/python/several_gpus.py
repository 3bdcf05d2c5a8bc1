#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One MoE layer across GPUs, a process for each, against the layer on one of them.

    pip install dist/moec-*.whl torch
    python3 examples/python/several_gpus.py --ranks=2

Each rank holds some of the experts and has tokens of its own. The package gathers tokens and sums outputs by NCCL. With
--all-to-all=one_sided its kernels write into the memory of the other GPUs; NCCL connects the processes alone.
--host runs the ranks as threads of the host device, without a GPU and without torch.
"""

import argparse
import multiprocessing
import threading

import numpy as np

import moec

EXPERTS, HIDDEN, INTERMEDIATE = 32, 512, 256
TOKENS = 24  # of each rank
LAYER = {
    "moec_layer": 1,
    "name": "several_gpus",
    "num_experts": EXPERTS,
    "top_k": 4,
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "in_dtype": "bf16",
    "routing_method": "renormalize",
    "activation": "silu",
}


def numbers(ranks):
    """Weights of all experts, and tokens of all ranks: the same in every process."""
    random = np.random.default_rng(0)
    w13 = random.standard_normal((EXPERTS, 2 * INTERMEDIATE, HIDDEN), dtype=np.float32) * 0.05
    w2 = random.standard_normal((EXPERTS, HIDDEN, INTERMEDIATE), dtype=np.float32) * 0.05
    x = random.standard_normal((ranks * TOKENS, HIDDEN), dtype=np.float32)
    logits = random.standard_normal((ranks * TOKENS, EXPERTS), dtype=np.float32)
    return (moec.to_bfloat16(w13), moec.to_bfloat16(w2)), (moec.to_bfloat16(x), logits)


def place(array, device):
    """The array on a GPU, as a tensor of torch; on the host as it is."""
    if device == "host":
        return array
    import torch

    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def floats(array):
    return moec.from_bfloat16(array) if isinstance(array, np.ndarray) else array.float().cpu().numpy()


def run_rank(rank, ranks, all_to_all, arch, device, comm):
    """Runs a rank, and compares its tokens with those of the whole layer. Returns the largest difference."""
    weights, inputs = numbers(ranks)
    options = {"arch": arch, "max_tokens": ranks * TOKENS}
    files = moec.compile(LAYER, **options, dp=ranks, ep=True, all_ranks=True, all_to_all=all_to_all)
    package = moec.load(files, device=device, rank=rank)
    held = package.manifest["layer"]["local_experts"]
    mine = slice(held["begin"], held["begin"] + held["count"])
    layer = package.layer({"w13": place(weights[0][mine], device), "w2": place(weights[1][mine], device)})
    rows = slice(rank * TOKENS, (rank + 1) * TOKENS)
    out = floats(layer(*(place(array[rows], device) for array in inputs), comm=comm))

    whole = moec.load(moec.compile(LAYER, **options), device=device)
    alone = whole.layer({"w13": place(weights[0], device), "w2": place(weights[1], device)})
    wanted = floats(alone(*(place(array, device) for array in inputs)))[rows]
    difference = float(np.abs(out - wanted).max() / np.abs(wanted).max())
    line = f"rank {rank} of {ranks} on {package.device}: {held['count']} experts, largest difference {difference:.4f}"
    print(line + "\n", end="", flush=True)  # in one piece: ranks print at the same time
    return difference


def run_process(rank, ranks, all_to_all, unique_id, worst):
    import torch

    torch.cuda.set_device(rank)
    device = f"cuda:{rank}"
    comm = moec.Communicator(unique_id, rank, ranks, device=device)
    worst[rank] = run_rank(rank, ranks, all_to_all, None, device, comm)
    torch.cuda.synchronize()
    comm.close()


def main():
    parser = argparse.ArgumentParser(description="One MoE layer across GPUs, against the layer on one of them.")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs of this machine")
    parser.add_argument("--host", action="store_true", help="threads of the host device in place of GPUs")
    modes = ("gather_scatter", "one_sided")
    parser.add_argument("--all-to-all", choices=modes, default=modes[0], help="who moves tokens and sums: NCCL, or kernels")
    given = parser.parse_args()
    if given.host:
        worst = [float("inf")] * given.ranks
        ends = moec.Communicator.threads(given.ranks)

        def work(rank):
            worst[rank] = run_rank(rank, given.ranks, given.all_to_all, "sm_90a", "host", ends[rank])

        workers = [threading.Thread(target=work, args=(rank,)) for rank in range(given.ranks)]
    else:
        spawn = multiprocessing.get_context("spawn")
        worst = spawn.Array("d", [float("inf")] * given.ranks)
        unique_id = moec.Communicator.unique_id()
        shared = (given.ranks, given.all_to_all, unique_id, worst)
        workers = [spawn.Process(target=run_process, args=(rank, *shared)) for rank in range(given.ranks)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    # Sums of bf16 parts are rounded once more than those of one GPU.
    if not all(each <= 0.02 for each in worst):
        raise SystemExit("the ranks do not give the layer's output")
    print("the ranks give the layer's output")


if __name__ == "__main__":
    main()
