"""A stand-in for `vllm serve`: what TRL's client uses of its HTTP interface, with a transformers model behind it.

Of TRL's own code only the transport of tensors is replaced, which needs NCCL and two GPUs: `connect` hands them over in
this process. What is sent, in which order, and what comes back is the real client's.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.generation import vllm_client, vllm_generation
from trl.trainer import distillation_trainer


class StandIn:
    """Attributes:
    requests: (path, body) in the order in which they came.
    model: what it samples from; weights that arrive are copied into it, unless `deaf`.
    """

    def __init__(self, path, deaf=False):
        self.path, self.deaf = str(path), deaf
        self.model = AutoModelForCausalLM.from_pretrained(path).eval()
        self.eos = AutoTokenizer.from_pretrained(path).eos_token_id
        self.requests, self.tensors = [], Queue()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(stand_in.get(self.path.partition("?")[0]))

            def do_POST(self):
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.reply(stand_in.post(self.path, json.loads(text or "{}")))

            def reply(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def get(self, path):
        mode = {"logprobs_mode": "processed_logprobs"}
        config = {"weight_transfer_config": {"backend": "nccl"}, "model_config": mode}
        return {
            "/health": {},
            "/v1/models": {"data": [{"id": self.path}]},
            "/server_info": {"vllm_config": config},
            "/get_world_size": {"world_size": 1},
        }[path]

    def post(self, path, body):
        self.requests.append((path, body))
        if path == "/v1/completions":
            return {"choices": [self.complete(ids, body) for ids in body["prompt"] for _ in range(body["n"])]}
        if path == "/update_weights":
            self.receive(body["update_info"])
        return {"success": True}

    @torch.no_grad()
    def receive(self, info):
        own = self.model.state_dict()
        for name, dtype, shape in zip(info["names"], info["dtype_names"], info["shapes"], strict=True):
            sent, tensor = self.tensors.get(timeout=30)
            assert (sent, str(tensor.dtype), list(tensor.shape)) == (name, f"torch.{dtype}", shape)
            if not self.deaf:
                own[name].copy_(tensor)

    @torch.no_grad()
    def complete(self, prompt, body):
        ids, logps = list(prompt), []
        while len(ids) - len(prompt) < body["max_tokens"] and (len(ids) == len(prompt) or ids[-1] != self.eos):
            logits = self.model(torch.tensor([ids])).logits[0, -1].float() / body["temperature"]
            token = int(torch.multinomial(logits.softmax(-1), 1))
            logps.append(float(logits.log_softmax(-1)[token]))
            ids.append(token)
        answer = ids[len(prompt) :]
        names = [f"token_id:{token}" for token in answer]
        logprobs = {"tokens": names, "token_logprobs": logps, "top_logprobs": [None] * len(answer)}
        logprobs = None if body["logprobs"] is None else logprobs
        return {"prompt_token_ids": prompt, "token_ids": answer, "logprobs": logprobs}


def connect(monkeypatch, stand_in):
    """Let TRL take vLLM for installed, and its tensors reach the stand-in."""

    def send(iterator, group, src, post_iter_func):
        for item in iterator:
            stand_in.tensors.put((item[0], post_iter_func(item).detach().clone()))

    def init_communicator(client, device=0):
        client.get_server_info(), client.get_world_size()
        client.communicator = None

    for module in (vllm_client, vllm_generation, distillation_trainer):
        monkeypatch.setattr(module, "is_vllm_available", lambda *args, **kwargs: True)
    monkeypatch.setattr(vllm_client, "_HAS_STATEFUL_TRAINER_ENGINE", True)
    monkeypatch.setattr(vllm_client, "packed_nccl_broadcast_producer", send, raising=False)
    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", init_communicator)
    monkeypatch.setattr(vllm_generation, "VLLMClient", vllm_client.VLLMClient, raising=False)
