#!/usr/bin/python3
"""Makes the golden values beside it, or with --check compares the files with a fresh run. See README.md.

    make_golden.py [--check] [model ...]

Needs Debian 12's python3-torch (1.13) only. One thread; about two minutes for all eight models.
"""
import argparse
import json
import math
import os
import random
import struct
import sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when torch loads the library; torch.set_num_threads misses it
sys.dont_write_bytecode = True
import torch

from torch_models import decay_groups, initial_params, is_bert, losses_of, shapes_of

HERE = Path(__file__).resolve().parent
BATCH, SEQ, STEPS = 3, 40, 20
TRAIN_STEPS, TRAIN_BATCH, TRAIN_SEQ, TRAIN_INIT_STD = 300, 24, 56, 0.06
ADAMW = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0}
SGD = {"lr": 0.05, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "clip": 1.0}


# ---- the models ----

def gpt2_config(layers, bias):
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 131, "n_positions": 64,
        "n_ctx": 64, "n_embd": 48, "n_layer": layers, "n_head": 4, "n_inner": None,
        "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False, "use_cache": True,
        "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": True, "torch_dtype": "float32"}
    if not bias:
        config["bias"] = False  # Hugging Face's GPT-2 always has biases; the key is nanoGPT's
    return config


def llama_config(layers, kv_heads, tied, rope_base):
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 139, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": layers, "num_attention_heads": 4,
        "num_key_value_heads": kv_heads, "hidden_act": "silu", "max_position_embeddings": 64,
        "initializer_range": 0.02, "rms_norm_eps": 1e-5, "use_cache": True, "pad_token_id": None,
        "bos_token_id": 1, "eos_token_id": 2, "pretraining_tp": 1, "tie_word_embeddings": tied,
        "rope_theta": rope_base, "rope_scaling": None, "attention_bias": False, "attention_dropout": 0.0,
        "mlp_bias": False, "torch_dtype": "float32"}
    if not tied:  # both generations of the format: the tied model keeps to the older keys alone
        config.update(head_dim=16, dtype="float32",
                      rope_parameters={"rope_theta": rope_base, "rope_type": "default"})
    return config


def mixtral_config():
    config = llama_config(layers=2, kv_heads=2, tied=False, rope_base=1e6)
    for key in ("pretraining_tp", "rope_scaling", "attention_bias", "mlp_bias"):
        del config[key]
    config.update(architectures=["MixtralForCausalLM"], model_type="mixtral", intermediate_size=48,
                  num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.02,
                  output_router_logits=False, router_jitter_noise=0.0, sliding_window=None)
    return config


def mistral_config():
    config = llama_config(layers=3, kv_heads=2, tied=False, rope_base=10000.0)
    for key in ("pretraining_tp", "rope_scaling", "attention_bias", "mlp_bias", "rope_parameters"):
        del config[key]
    config.update(architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=2)
    return config


def bert_config(kind):
    config = {
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 131, "hidden_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 104, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 64,
        "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "use_cache": True, "classifier_dropout": None,
        "torch_dtype": "float32"}
    if kind == "roberta":
        config.update(architectures=["RobertaForMaskedLM"], model_type="roberta", type_vocab_size=1,
                      layer_norm_eps=1e-5, pad_token_id=1, max_position_embeddings=61)
    return config


MODELS = {
    "gpt2": gpt2_config(layers=3, bias=True),
    "gpt2_nobias": gpt2_config(layers=2, bias=False),
    "llama": llama_config(layers=3, kv_heads=2, tied=False, rope_base=10000.0),
    "llama_tied": llama_config(layers=2, kv_heads=4, tied=True, rope_base=500000.0),
    "mistral": mistral_config(),
    "mixtral": mixtral_config(),
    "bert": bert_config("bert"),  # the place of a model is its seed
    "roberta": bert_config("roberta"),
}
# Mistakes that the golden loss of a family must notice. (The exact GELU in place of the tanh form hardly
# moves the loss; the gradients notice it.)
MISTAKES = {"bert": ["pre_norm"], "roberta": ["pre_norm"],
            "gpt2": ["scale", "positions"], "llama": ["rope", "no_rope", "scale", "kv_map"],
            "mistral": ["wider", "narrower"], "mixtral": ["rope", "scale", "top1"]}
GRADIENT_MISTAKES = {"bert": ["causal", "gelu", "epsilon", "types", "head_bias"],
                     "roberta": ["causal", "gelu", "offset"], "gpt2": ["gelu"], "llama": [], "mistral": ["rope", "scale"], "mixtral": ["no_renormalize", "no_aux"]}


# ---- text that wants attention and positions ----

class Stream:
    """An endless random source: most tokens are a fixed function of the last one and of the class of the one
    before it, so a model must look back an exact distance; the rest is Zipf noise."""

    def __init__(self, vocab_size, seed, masks=False):
        self.masks = masks
        self.rng = random.Random(seed)
        self.maps = [self.rng.sample(range(vocab_size), vocab_size) for _ in range(3)]
        self.weights = [1.0 / (rank + 3) for rank in range(vocab_size)]
        self.vocab = range(vocab_size)

    def sequence(self, length):
        out = self.rng.choices(self.vocab, self.weights, k=2)
        while len(out) < length:
            if self.rng.random() < 0.15:
                out += self.rng.choices(self.vocab, self.weights)
            else:
                out.append(self.maps[out[-2] % 3][out[-1]])
        return out

    def batch(self, batch, seq):
        """tokens [batch,seq] and targets [batch,seq], shifted by one"""
        rows = torch.tensor([self.sequence(seq + 1) for _ in range(batch)])
        if self.masks:  # an encoder sees the next token: it is to restore those that were taken out
            taken = torch.tensor([[self.rng.random() < 0.25 for _ in range(seq)] for _ in range(batch)])
            return rows[:, :-1].masked_fill(taken, self.vocab[-1]), rows[:, :-1]
        return rows[:, :-1], rows[:, 1:]


# ---- training ----

def leaves(state, dtype):
    return {name: value.to(dtype).clone().requires_grad_() for name, value in state.items()}


def norm_of(tensors):
    return math.sqrt(sum(float(t.detach().double().square().sum()) for t in tensors))


def train_steps(params, config, optimizer, clip, batches):
    """Returns losses and gradient norms (before clipping) of one step per batch; changes params."""
    losses, norms = [], []
    for tokens, targets in batches:
        optimizer.zero_grad()
        loss = losses_of(params, config, tokens, targets).mean()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(params.values(), clip)))
        losses.append(float(loss))
        optimizer.step()
    return losses, norms


def make_adamw(params, lr, betas, eps, weight_decay, **_):
    return torch.optim.AdamW(decay_groups(params, weight_decay), lr=lr, betas=betas, eps=eps, foreach=False)


def make_sgd(params, lr, momentum, dampening, weight_decay, **_):
    return torch.optim.SGD(params.values(), lr=lr, momentum=momentum, dampening=dampening,
                           weight_decay=weight_decay, foreach=False)


def trained_state(config, seed):
    """A model after TRAIN_STEPS steps, as float32. Run in float64, so that the rounded result does not
    hang on the order in which one machine's matrix product adds."""
    params = initial_params(config, torch.Generator().manual_seed(seed), torch.float64, TRAIN_INIT_STD)
    for p in params.values():
        p.requires_grad_()
    stream = Stream(config["vocab_size"], seed, is_bert(config))
    batches = (stream.batch(TRAIN_BATCH, TRAIN_SEQ) for _ in range(TRAIN_STEPS))
    optimizer = make_adamw(params, lr=8e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses, _ = train_steps(params, config, optimizer, 1.0, batches)
    print(f"  trained: loss {losses[0]:.3f} -> {losses[-1]:.3f}", file=sys.stderr)
    return {name: p.detach().float() for name, p in params.items()}


# ---- golden values of a state ----

def golden_of(config, state, seed):
    """Returns (golden.json content, gradients)."""
    stream = Stream(config["vocab_size"], seed, is_bert(config))
    stream.rng.seed(seed + 1000)  # the same language, other sentences than those trained on
    batches = [stream.batch(BATCH, SEQ) for _ in range(STEPS)]
    golden = {"torch": torch.__version__, "parameters": sum(p.numel() for p in state.values())}
    for key, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        params = leaves(state, dtype)
        per_token = losses_of(params, config, *batches[0])
        per_token.mean().backward()
        at_state = {"loss": float(per_token.detach().mean()),
                    "grad_norm": norm_of(p.grad for p in params.values())}
        if dtype is torch.float64:
            gradients = {name: p.grad.float() for name, p in params.items()}
            at_state["token_losses"] = per_token.tolist()
        for name, recipe, make in (("adamw", ADAMW, make_adamw), ("sgd", SGD, make_sgd)):
            params = leaves(state, dtype)
            losses, norms = train_steps(params, config, make(params, **recipe), recipe["clip"], batches)
            at_state[name] = {"losses": losses, "grad_norms": norms,
                              "final_param_norms": {n: norm_of([p]) for n, p in sorted(params.items())}}
        golden[key] = at_state
    golden.update(wrong_losses(config, state, batches[0], golden["f64"]["loss"], gradients))
    golden.update(adamw=ADAMW, sgd=SGD)
    golden["batches"] = [{"tokens": x.tolist(), "targets": y.tolist()} for x, y in batches]
    check_precision(golden)
    return golden, gradients


def wrong_losses(config, state, batch, right_loss, right_gradients):
    """Losses of deliberately wrong models; fails if a test might take one of them for right."""
    family, losses = config["model_type"], {}
    for mistake in MISTAKES[family] + GRADIENT_MISTAKES[family]:
        if mistake == "kv_map" and config["num_key_value_heads"] == config["num_attention_heads"]:
            continue
        params = leaves(state, torch.float64)
        loss = losses_of(params, config, *batch, wrong=mistake).mean()
        loss.backward()
        gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in params.items()}
        off = max(norm_of([gradients[n] - g.double()]) / norm_of([g]) for n, g in right_gradients.items()
                  if not n.endswith(("c_attn.bias", "key.bias")))
        print(f"  wrong {mistake}: loss off by {float(loss) - right_loss:+.2e}, a gradient by {off:.1e}",
              file=sys.stderr)
        assert off > 1e-4, (mistake, off)
        if mistake in MISTAKES[family]:
            losses["loss_wrong_" + mistake] = float(loss)
            assert abs(float(loss) - right_loss) > 1e-2, (mistake, float(loss), right_loss)
    return losses


def check_precision(golden):
    """float32 must follow float64 well inside the tolerances that the tests use (1e-6 and 1e-4)."""
    f64, f32 = golden["f64"], golden["f32"]
    assert abs(f64["loss"] - f32["loss"]) < 5e-7, (f64["loss"], f32["loss"])
    distances = []
    for name in ("adamw", "sgd"):
        for series in ("losses", "grad_norms"):
            pairs = zip(f64[name][series], f32[name][series])
            distances.append(max(abs(a - b) / abs(a) for a, b in pairs))
    print("  loss {:.6f}, grad norm {:.4f}, float32 off by {:.1e} (20 steps: {})".format(
        f64["loss"], f64["grad_norm"], abs(f64["loss"] - f32["loss"]),
        " ".join(f"{d:.1e}" for d in distances)), file=sys.stderr)
    assert max(distances) < 3e-5, distances


# ---- files ----

def write_safetensors(path, tensors):
    """All tensors float32, ordered by name; header padded with spaces to a multiple of 8."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        end = offset + 4 * tensors[name].numel()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].contiguous().numpy().astype("<f4").tobytes())


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            tensors[name] = flat.view(entry["shape"])
    return tensors


def json_text(value, depth=0):
    """One line per key down to depth 3 (and per step of the batches); repr keeps every digit of a float."""
    if isinstance(value, dict) and depth < 3 and value:
        pad = "  " * (depth + 1)
        rows = (f"{pad}{json.dumps(key)}: {json_text(item, depth + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(rows) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = ("    " + json.dumps(item, separators=(",", ":")) for item in value)
        return "[\n" + ",\n".join(rows) + "\n  ]"
    return json.dumps(value)


def difference(path, old, new, tolerance):
    """Yields a line for each place where two JSON values differ by more than the relative tolerance."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if key not in old or key not in new:
                yield f"{path}.{key}: only in {'the file' if key in old else 'the fresh run'}"
            else:
                allowed = 1e-5 if key == "f32" else tolerance
                yield from difference(f"{path}.{key}", old[key], new[key], allowed)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from difference(f"{path}[{i}]", a, b, tolerance)
    elif isinstance(old, float) and isinstance(new, float):
        if not abs(old - new) <= tolerance * max(abs(old), 1e-3):
            yield f"{path}: file {old!r}, fresh run {new!r}"
    elif old != new:
        yield f"{path}: file {old!r}, fresh run {new!r}"


def tensor_difference(label, old, new, tolerance):
    if {n: t.shape for n, t in old.items()} != {n: t.shape for n, t in new.items()}:
        yield f"{label}: other names or shapes"
        return
    floor = 1e-7 * max(norm_of([t]) for t in new.values())
    for name in sorted(old):
        distance = norm_of([old[name].double() - new[name].double()])
        if not distance <= tolerance * norm_of([new[name]]) + floor:
            yield f"{label} {name}: differs by {distance:.2e}"


# ---- command ----

def make(name, seed):
    folder, config = HERE / name, MODELS[name]
    state = trained_state(config, seed)
    golden, gradients = golden_of(config, state, seed)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "golden.json").write_text(json_text(golden) + "\n")
    write_safetensors(folder / "model.safetensors", state)
    write_safetensors(folder / "grads.safetensors", gradients)


def check(name, seed):
    """Trains again (the weights must come out alike), then takes the values from the stored weights."""
    folder, config = HERE / name, MODELS[name]
    stored = read_safetensors(folder / "model.safetensors")
    yield from difference("config", json.loads((folder / "config.json").read_text()), config, 0.0)
    assert {n: tuple(t.shape) for n, t in stored.items()} == shapes_of(config), "names or shapes"
    yield from tensor_difference("model.safetensors", stored, trained_state(config, seed), 1e-6)
    golden, gradients = golden_of(config, stored, seed)
    yield from difference("golden", json.loads((folder / "golden.json").read_text()), golden, 1e-9)
    stored_gradients = read_safetensors(folder / "grads.safetensors")
    yield from tensor_difference("grads.safetensors", stored_gradients, gradients, 1e-6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with a fresh run, write nothing")
    parser.add_argument("models", nargs="*", metavar="model", help=f"default: {' '.join(MODELS)}")
    args = parser.parse_args()
    if unknown := set(args.models) - set(MODELS):
        parser.error(f"unknown model: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    failures = 0
    for seed, name in enumerate(MODELS, start=1):
        if args.models and name not in args.models:
            continue
        print(name, file=sys.stderr)
        if not args.check:
            make(name, seed)
            continue
        for line in check(name, seed):
            print(f"{name}: {line}")
            failures += 1
    if args.check:
        print(f"{failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
