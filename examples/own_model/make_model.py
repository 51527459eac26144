"""Writes a small Llama with random weights, and a tokenizer: python make_model.py FOLDER

Any folder that `from_pretrained` of transformers reads will do: config.json, safetensors, tokenizer. This one has the
shipped model's tokenizer, with a token for each word of a Countdown search.
"""

import sys

from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, set_seed

from rlhf_exp.config.model_shape import ASSETS

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
config = LlamaConfig(
    vocab_size=len(tokenizer),
    hidden_size=128,
    intermediate_size=384,
    num_hidden_layers=4,
    num_attention_heads=4,
    max_position_embeddings=512,
    bos_token_id=None,
    eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id,
)
set_seed(0)
model = LlamaForCausalLM(config)
model.save_pretrained(folder)
tokenizer.save_pretrained(folder)
print(f"{model.num_parameters():,} parameters: {folder}")
