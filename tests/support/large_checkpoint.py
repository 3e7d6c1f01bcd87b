"""Writes a checkpoint of the shipped model's kind and tokenizer, in sizes that are given, with random
weights: for tests of memory, where what the model says does not matter.

  large_checkpoint.py OUT HIDDEN WIDTH EXPERTS LAYERS    LAYERS is a multiple of 4
"""
import json, os, shutil, struct, sys

SOURCE = "models/tales"
out, (hidden, width, experts, layers) = sys.argv[1], map(int, sys.argv[2:6])
assert layers % 4 == 0
config = json.load(open(f"{SOURCE}/config.json"))
text = config["text_config"]
text.update(hidden_size=hidden, moe_intermediate_size=width, num_experts=experts,
            num_hidden_layers=layers, mtp_num_hidden_layers=0,
            layer_types=text["layer_types"][:4] * (layers // 4))
vocab, K = text["vocab_size"], text["linear_num_key_heads"] * text["linear_key_head_dim"]
Hv, dv = text["linear_num_value_heads"], text["linear_value_head_dim"]
q, kv, d = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
shared, C = text["shared_expert_intermediate_size"], 2 * K + Hv * dv

tensors = [("lm_head.weight", [vocab, hidden]),
           ("model.language_model.embed_tokens.weight", [vocab, hidden]),
           ("model.language_model.norm.weight", [hidden])]
for l in range(layers):
    p = f"model.language_model.layers.{l}."
    tensors += [(p + "input_layernorm.weight", [hidden]),
                (p + "post_attention_layernorm.weight", [hidden]),
                (p + "mlp.experts.gate_up_proj", [experts, 2 * width, hidden]),
                (p + "mlp.experts.down_proj", [experts, hidden, width]),
                (p + "mlp.gate.weight", [experts, hidden]),
                (p + "mlp.shared_expert.gate_proj.weight", [shared, hidden]),
                (p + "mlp.shared_expert.up_proj.weight", [shared, hidden]),
                (p + "mlp.shared_expert.down_proj.weight", [hidden, shared]),
                (p + "mlp.shared_expert_gate.weight", [1, hidden])]
    if text["layer_types"][l] == "full_attention":
        p += "self_attn."
        tensors += [(p + "q_proj.weight", [2 * q * d, hidden]), (p + "k_proj.weight", [kv * d, hidden]),
                    (p + "v_proj.weight", [kv * d, hidden]), (p + "o_proj.weight", [hidden, q * d]),
                    (p + "q_norm.weight", [d]), (p + "k_norm.weight", [d])]
    else:
        p += "linear_attn."
        tensors += [(p + "A_log", [Hv]), (p + "dt_bias", [Hv]), (p + "conv1d.weight", [C, 1, 4]),
                    (p + "in_proj_a.weight", [Hv, hidden]), (p + "in_proj_b.weight", [Hv, hidden]),
                    (p + "in_proj_qkv.weight", [C, hidden]), (p + "in_proj_z.weight", [Hv * dv, hidden]),
                    (p + "out_proj.weight", [hidden, Hv * dv]), (p + "norm.weight", [dv])]

os.makedirs(out)
header, at = {}, 0
for name, shape in tensors:
    n = 2
    for s in shape:
        n *= s
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
    at += n
# Random bytes; the upper one of each pair becomes 0x3c or 0xbc: values from 0.008 to 0.03, signed.
upper = bytes(0x3C | (b & 0x80) for b in range(256))
block = bytearray(os.urandom(1 << 22))
block[1::2] = block[1::2].translate(upper)
with open(f"{out}/model.safetensors", "wb") as f:
    text_header = json.dumps(header).encode()
    text_header += b" " * (-len(text_header) % 8)
    f.write(struct.pack("<Q", len(text_header)) + text_header)
    for name, shape in tensors:
        left = header[name]["data_offsets"]
        left = left[1] - left[0]
        if "norm" in name:  # linear_attn.norm holds whole factors, the others what is added to 1
            f.write((b"\x80\x3f" if "linear_attn" in name else b"\0\0") * (left // 2))
            continue
        while left > 0:
            # Not the same bytes again at the same place of the next expert.
            start = 2 * int.from_bytes(os.urandom(2), "little")
            f.write(block[start:start + left])
            left -= min(left, len(block) - start)
json.dump(config, open(f"{out}/config.json", "w"))
for name in os.listdir(SOURCE):
    if name.startswith(("tokenizer", "generation_config", "chat_template")):
        shutil.copy(f"{SOURCE}/{name}", out)
