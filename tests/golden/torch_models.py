"""BERT, RoBERTa, GPT-2, LLaMA, Mistral and Mixtral in plain PyTorch functions: the outside oracle of the golden tests.

A model is a dict {Hugging Face tensor name: tensor} and a config dict with Hugging Face keys; the functions
take both and work in the dtype of the tensors. Letters: B batch, T tokens, C width, H heads,
K key/value heads, D head width, V vocabulary.

`wrong` plants one named mistake, so that a test can show that the golden values would notice it.
"""
import math

import torch
import torch.nn.functional as F


def causal_attention(q, k, v, scale, window=None):
    """q, k, v [B,H,T,D] -> [B,T,H*D]. With a window W a token sees itself and the W - 1 before it."""
    b, h, t, d = q.shape
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    if window is not None:
        position = torch.arange(t)
        hidden |= position[:, None] - position[None, :] >= window
    scores = (q @ k.transpose(-2, -1)) * scale
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(b, t, h * d)


def token_losses(logits, targets):
    """logits [B,T,V], targets [B,T] -> cross-entropy per token [B,T]"""
    flat = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return flat.view(targets.shape)


# ---- GPT-2 ----

def gpt2_shapes(config):
    c, v = config["n_embd"], config["vocab_size"]
    shapes = {"transformer.wte.weight": (v, c), "transformer.wpe.weight": (config["n_positions"], c)}
    for i in range(config["n_layer"]):
        h = f"transformer.h.{i}."
        shapes.update({h + "ln_1.weight": (c,), h + "ln_2.weight": (c,),
                       h + "attn.c_attn.weight": (c, 3 * c), h + "attn.c_proj.weight": (c, c),
                       h + "mlp.c_fc.weight": (c, 4 * c), h + "mlp.c_proj.weight": (4 * c, c)})
    shapes["transformer.ln_f.weight"] = (c,)
    if config.get("bias", True):
        shapes.update({name.replace("weight", "bias"): (shape[-1],) for name, shape in shapes.items()
                       if "wte" not in name and "wpe" not in name})
    return shapes


def gpt2_token_losses(p, config, tokens, targets, wrong=None):
    b, t = tokens.shape
    heads, c, eps = config["n_head"], config["n_embd"], config["layer_norm_epsilon"]
    approximate = "none" if wrong == "gelu" else "tanh"
    scale = 1.0 if wrong == "scale" else 1.0 / math.sqrt(c // heads)

    def norm(x, name):
        return F.layer_norm(x, (c,), p[name + ".weight"], p.get(name + ".bias"), eps)

    def conv1d(x, name):
        w, bias, rows = p[name + ".weight"], p.get(name + ".bias"), x.reshape(-1, x.shape[-1])
        y = rows @ w if bias is None else torch.addmm(bias, rows, w)
        return y.view(*x.shape[:-1], w.shape[1])

    def split_heads(x):
        return x.view(b, t, heads, -1).transpose(1, 2)

    x = F.embedding(tokens, p["transformer.wte.weight"])
    if wrong != "positions":
        x = x + p["transformer.wpe.weight"][:t]
    for i in range(config["n_layer"]):
        h = f"transformer.h.{i}."
        q, k, v = (split_heads(s) for s in conv1d(norm(x, h + "ln_1"), h + "attn.c_attn").split(c, -1))
        x = x + conv1d(causal_attention(q, k, v, scale), h + "attn.c_proj")
        hidden = F.gelu(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate=approximate)
        x = x + conv1d(hidden, h + "mlp.c_proj")
    return token_losses(norm(x, "transformer.ln_f") @ p["transformer.wte.weight"].T, targets)


# ---- LLaMA ----

def llama_shapes(config):
    c, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    d = config.get("head_dim") or c // heads
    shapes = {"model.embed_tokens.weight": (v, c)}
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        shapes.update({h + "input_layernorm.weight": (c,), h + "post_attention_layernorm.weight": (c,),
                       h + "self_attn.q_proj.weight": (heads * d, c),
                       h + "self_attn.k_proj.weight": (kv_heads * d, c),
                       h + "self_attn.v_proj.weight": (kv_heads * d, c),
                       h + "self_attn.o_proj.weight": (c, heads * d)})
        if config["model_type"] == "mixtral":
            m = h + "block_sparse_moe."
            shapes[m + "gate.weight"] = (config["num_local_experts"], c)
            for e in range(config["num_local_experts"]):
                shapes.update({f"{m}experts.{e}.w1.weight": (f, c), f"{m}experts.{e}.w2.weight": (c, f),
                               f"{m}experts.{e}.w3.weight": (f, c)})
            continue
        shapes.update({h + "mlp.gate_proj.weight": (f, c), h + "mlp.up_proj.weight": (f, c),
                       h + "mlp.down_proj.weight": (c, f)})
    shapes["model.norm.weight"] = (c,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (v, c)
    return shapes


def rotate(x, base, interleaved):
    """Rotary positions on x [B,H,T,D]: pairs are (i, i + D/2), or (2i, 2i + 1) when interleaved."""
    t, half = x.shape[2], x.shape[3] // 2
    i = torch.arange(half, dtype=torch.float64)
    angles = torch.arange(t, dtype=torch.float64)[:, None] * base ** (-i / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def experts(p, config, x, name, wrong=None):
    """x [B,T,C] -> its mixture of experts, and the load-balancing loss of Switch Transformers over these tokens:
    E * sum over e of (share of the choices that fell on e, a constant) * (mean probability of e)."""
    rows, k = x.flatten(0, 1), config["num_experts_per_tok"]
    probabilities = F.linear(rows, p[name + "gate.weight"]).softmax(-1)
    chosen = probabilities.topk(1 if wrong == "top1" else k, -1).indices
    weights = probabilities.gather(1, chosen)
    if wrong != "no_renormalize":
        weights = weights / weights.sum(-1, keepdim=True)
    outputs, num_experts = [], probabilities.shape[1]
    for e in range(num_experts):
        w = name + f"experts.{e}."
        gated = F.silu(F.linear(rows, p[w + "w1.weight"])) * F.linear(rows, p[w + "w3.weight"])
        outputs.append(F.linear(gated, p[w + "w2.weight"]) * (weights * (chosen == e)).sum(-1, keepdim=True))
    share = torch.bincount(chosen.flatten(), minlength=num_experts).to(x.dtype) / chosen.numel()
    return sum(outputs).view(x.shape), num_experts * (share * probabilities.mean(0)).sum()


def llama_token_losses(p, config, tokens, targets, wrong=None):
    b, t = tokens.shape
    c, eps = config["hidden_size"], config["rms_norm_eps"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    group, d = heads // kv_heads, config.get("head_dim") or c // heads

    def norm(x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * p[name + ".weight"]

    def linear(x, name):
        return F.linear(x, p[name + ".weight"])

    def split_heads(x, n):
        return x.view(b, t, n, d).transpose(1, 2)

    def positions(x):
        return x if wrong == "no_rope" else rotate(x, config["rope_theta"], interleaved=wrong == "rope")

    def spread(x):
        """[B,K,T,D] -> [B,H,T,D]: query head h reads key/value head h // group."""
        return x.repeat(1, group, 1, 1) if wrong == "kv_map" else x.repeat_interleave(group, 1)

    window = config.get("sliding_window")
    window = None if window is None else window + {"wider": 1, "narrower": -1}.get(wrong, 0)
    x, aux_loss = F.embedding(tokens, p["model.embed_tokens.weight"]), 0.0
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        y = norm(x, h + "input_layernorm")
        q = positions(split_heads(linear(y, h + "self_attn.q_proj"), heads))
        k = positions(split_heads(linear(y, h + "self_attn.k_proj"), kv_heads))
        v = split_heads(linear(y, h + "self_attn.v_proj"), kv_heads)
        scale = 1.0 if wrong == "scale" else 1.0 / math.sqrt(d)
        x = x + linear(causal_attention(q, spread(k), spread(v), scale, window), h + "self_attn.o_proj")
        y = norm(x, h + "post_attention_layernorm")
        if config["model_type"] == "mixtral":
            y, loss = experts(p, config, y, h + "block_sparse_moe.", wrong)
            x, aux_loss = x + y, aux_loss + config["router_aux_loss_coef"] * loss
            continue
        gated = F.silu(linear(y, h + "mlp.gate_proj")) * linear(y, h + "mlp.up_proj")
        x = x + linear(gated, h + "mlp.down_proj")
    head = p["model.embed_tokens.weight"] if config["tie_word_embeddings"] else p["lm_head.weight"]
    losses = token_losses(norm(x, "model.norm") @ head.T, targets)
    if torch.is_tensor(aux_loss) and wrong != "no_aux":
        losses = losses + (aux_loss - aux_loss.detach())  # in the gradient, not in the value
    return losses


# ---- all ----

def shapes_of(config):
    if is_bert(config):
        return bert_shapes(config)
    return gpt2_shapes(config) if config["model_type"] == "gpt2" else llama_shapes(config)


# ---- BERT and RoBERTa ----

def is_bert(config):
    return config["model_type"] in ("bert", "roberta")


def bert_head(config):
    """The names of the head: the dense layer, its norm, the bias of the logits."""
    if config["model_type"] == "roberta":
        return "lm_head.dense", "lm_head.layer_norm", "lm_head.bias"
    return "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"


def bert_shapes(config):
    c, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    root = config["model_type"] + "."
    dense, norm, bias = bert_head(config)
    shapes = {root + "embeddings.word_embeddings.weight": (v, c),
              root + "embeddings.position_embeddings.weight": (config["max_position_embeddings"], c),
              root + "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], c)}

    def linear(name, out, into):
        shapes.update({name + ".weight": (out, into), name + ".bias": (out,)})

    def layer_norm(name):
        shapes.update({name + ".weight": (c,), name + ".bias": (c,)})

    layer_norm(root + "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        h = f"{root}encoder.layer.{i}."
        for part in ("query", "key", "value"):
            linear(h + "attention.self." + part, c, c)
        linear(h + "attention.output.dense", c, c)
        layer_norm(h + "attention.output.LayerNorm")
        linear(h + "intermediate.dense", f, c)
        linear(h + "output.dense", c, f)
        layer_norm(h + "output.LayerNorm")
    linear(dense, c, c)
    layer_norm(norm)
    shapes[bias] = (v,)
    return shapes


def bert_token_losses(p, config, tokens, targets, wrong=None):
    b, t = tokens.shape
    heads, c = config["num_attention_heads"], config["hidden_size"]
    eps = 1e-3 if wrong == "epsilon" else config["layer_norm_eps"]
    form = "tanh" if wrong == "gelu" else "none"
    root = config["model_type"] + "."
    first = config["pad_token_id"] + 1 if config["model_type"] == "roberta" and wrong != "offset" else 0
    dense, norm, bias = bert_head(config)

    def linear(x, name):
        return F.linear(x, p[name + ".weight"], p[name + ".bias"])

    def layer_norm(x, name):
        return F.layer_norm(x, (c,), p[name + ".weight"], p[name + ".bias"], eps)

    def split_heads(x):
        return x.view(b, t, heads, -1).transpose(1, 2)

    words = p[root + "embeddings.word_embeddings.weight"]
    x = F.embedding(tokens, words) + p[root + "embeddings.position_embeddings.weight"][first:first + t]
    if wrong != "types":
        x = x + p[root + "embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(x, root + "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        h = f"{root}encoder.layer.{i}."
        into = layer_norm(x, h + "attention.output.LayerNorm") if wrong == "pre_norm" else x
        q, k, v = (split_heads(linear(into, h + "attention.self." + n)) for n in ("query", "key", "value"))
        scores = q @ k.transpose(-2, -1) * (c // heads) ** -0.5
        if wrong == "causal":
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)
        y = linear(mixed, h + "attention.output.dense")
        x = x + y if wrong == "pre_norm" else layer_norm(x + y, h + "attention.output.LayerNorm")
        into = layer_norm(x, h + "output.LayerNorm") if wrong == "pre_norm" else x
        y = linear(F.gelu(linear(into, h + "intermediate.dense"), approximate=form), h + "output.dense")
        x = x + y if wrong == "pre_norm" else layer_norm(x + y, h + "output.LayerNorm")
    x = layer_norm(F.gelu(linear(x, dense), approximate=form), norm)
    logits = x @ words.T
    return token_losses(logits if wrong == "head_bias" else logits + p[bias], targets)


def losses_of(p, config, tokens, targets, wrong=None):
    """Cross-entropy of every token [B,T]."""
    if is_bert(config):
        return bert_token_losses(p, config, tokens, targets, wrong)
    model = gpt2_token_losses if config["model_type"] == "gpt2" else llama_token_losses
    return model(p, config, tokens, targets, wrong)


def initial_params(config, generator, dtype, std=0.02):
    """Normal(0, std), projections into the residual stream / sqrt(2 * layers); norms 1, biases 0."""
    layers = config.get("n_layer") or config["num_hidden_layers"]
    params = {}
    for name, shape in shapes_of(config).items():
        if len(shape) == 1:
            params[name] = (torch.zeros if name.endswith("bias") else torch.ones)(shape, dtype=dtype)
            continue
        into_residual = name.endswith(("c_proj.weight", "o_proj.weight", "down_proj.weight", "w2.weight"))
        shrink = 1 / math.sqrt(2 * layers) if into_residual else 1.0
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        params[name] = (normal * (std * shrink)).to(dtype)
    return params


def decay_groups(params, weight_decay):
    """AdamW parameter groups: decay on matrices and embeddings, none on norms and biases."""
    matrices = [p for p in params.values() if p.dim() >= 2]
    vectors = [p for p in params.values() if p.dim() < 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
