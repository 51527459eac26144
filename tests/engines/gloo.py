"""Carries weights to a vLLM server by gloo, where TRL and vLLM have NCCL alone: all else is theirs.

The server's side is a plugin of vLLM (`install`, `register`); the trainer's replaces two pieces of TRL's client
(`connect`), which refuses any device but a GPU.
"""

from concurrent.futures import ThreadPoolExecutor

import torch
from trl.generation import vllm_client


def install(folder):
    """Make vLLM find the plugin, with `folder` on the PYTHONPATH."""
    info = folder / "gloo-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gloo\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\ngloo = tests.engines.gloo:register\n")


def register():
    """Called by vLLM in each of its processes."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine

    class GlooEngine(NCCLWeightTransferEngine):
        def init_transfer_engine(self, info):
            self.model_update_group = join(info.master_port, info.rank_offset, info.world_size)

        def receive_weights(self, info):
            for name, dtype, shape in zip(info.names, info.dtype_names, info.shapes, strict=True):
                weight = torch.empty(shape, dtype=getattr(torch, dtype))
                broadcast(self.model_update_group, weight)
                self.model.load_weights([(name, weight)])

    if "gloo" not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine("gloo", GlooEngine)


def join(port, rank, count):
    from vllm.distributed.utils import stateless_init_torch_distributed_process_group

    return stateless_init_torch_distributed_process_group("127.0.0.1", port, rank, count, "gloo")


def broadcast(group, tensor):
    options = torch.distributed.BroadcastOptions()
    options.rootRank = 0
    group.broadcast([tensor], options).wait()


def connect(monkeypatch):
    def init_communicator(client, device):
        info = {"master_address": "127.0.0.1", "master_port": client.group_port, "rank_offset": 1, "world_size": 2}
        with ThreadPoolExecutor(1) as pool:
            url = f"{client.base_url}/init_weight_transfer_engine"
            answer = pool.submit(client._post, url, json={"init_info": info})
            client.communicator = join(client.group_port, 0, 2)
            answer.result()

    def send(iterator, group, src, post_iter_func):
        for item in iterator:
            broadcast(group, post_iter_func(item).contiguous())

    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", init_communicator)
    monkeypatch.setattr(vllm_client, "packed_nccl_broadcast_producer", send)
