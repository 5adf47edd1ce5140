"""A real llama.cpp server with a tiny random model that it writes first.

Usage: llama_server.py FOLDER PORT, with a Python that has xllamacpp, gguf and numpy.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path

# The environment of the tests does not have them.
gguf, numpy, xllamacpp = map(import_module, ("gguf", "numpy", "xllamacpp"))

WIDTH, LAYERS, INNER, HEADS, CONTEXT = 64, 2, 128, 4, 4096
SPECIAL, CONTROL, BYTE = 2, 3, 6


def write_model(path: Path) -> None:
    """Write a model whose words are bytes and whose weights are chance."""
    chance = numpy.random.default_rng(7)
    words = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([SPECIAL, CONTROL, CONTROL, *[BYTE] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")

    def add(name: str, *shape: int) -> None:
        values = chance.standard_normal(shape) * 0.1 if len(shape) > 1 else numpy.ones(shape)
        writer.add_tensor(name, values.astype(numpy.float32))

    add("token_embd.weight", len(words), WIDTH)
    add("output.weight", len(words), WIDTH)
    add("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}.weight", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}.weight", INNER, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


model = Path(sys.argv[1]) / "tiny.gguf"
write_model(model)
settings = xllamacpp.CommonParams()
settings.model.path = str(model)
settings.port = int(sys.argv[2])
settings.n_parallel, settings.n_ctx, settings.warmup = 1, CONTEXT, False
settings.cpuparams.n_threads = 1
server = xllamacpp.Server(settings)
print("listening", server.listening_address, flush=True)
threading.Event().wait()
