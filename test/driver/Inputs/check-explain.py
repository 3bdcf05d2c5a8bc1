"""Checks the shape of `moec explain --json` for two targets of Mixtral-8x7B."""

import json
import sys

report = json.load(open(sys.argv[1]))
assert report["moec_explain"] == 1
assert report["layer"]["num_experts"] == 8
assert [target["arch"] for target in report["targets"]] == ["sm_75", "sm_90a"]
turing, hopper = report["targets"]
assert (turing["backend"], turing["engine"]) == ("grouped", "simt"), turing["engine"]
assert (hopper["backend"], hopper["engine"]) == ("grouped", "wgmma"), hopper["engine"]
refused = [row for row in turing["refused"] if row["engine"] == "mma_sync"]
assert refused and refused[0]["code"] and refused[0]["reason"], turing["refused"]
for target in report["targets"]:
    assert {row["name"]: row["bytes"] for row in target["weights"] if row["role"] == "stored"} == {
        "w13": 8 * 28672 * 4096 * 2,
        "w2": 8 * 14336 * 4096 * 2,
    }
    last = 0
    for variant in target["variants"]:
        assert variant["tokens"][0] == last + 1, variant["name"]
        last = variant["tokens"][1]
        assert variant["workspace_bytes"] > 0
        for kernel in variant["kernels"]:
            assert kernel["stages"] and kernel["entry"].startswith("moec_")
            assert kernel["schedule_source"] in ("tuned", "modelled", "default")
            if "grouped_matmul" in kernel["stages"]:
                assert kernel["pipeline_stages"] >= 2
                assert len(kernel["tile"]) == 3 if kernel["engine"] != "gemv" else "tile" not in kernel
    assert last == report["max_tokens"] == 65536
    summary = target["summary"]
    assert (summary["scheme"], summary["computed"]) == ("bf16", "native")
    assert summary["weight_bytes"] == 8 * 3 * 14336 * 4096 * 2
    assert [row["tokens"] for row in summary["at"]] == [1, 1024, 8192]
    assert all(row["workspace_bytes"] > 0 for row in summary["at"])
    assert [row["tokens"] for row in summary["ranges"]] == [row["tokens"] for row in target["variants"]]
    assert summary["ranges"][-1]["engines"] == [target["engine"]]
