#!/usr/bin/env python3
"""The peer of a GPT-2 step: PyTorch with fused attention and fused AdamW, compiled or eager, on a GPU or the CPU.

    gpt2_torch.py [--device cuda --batch 64 --micro 16 --seq 1024 --steps 12 --mode compiled]

The vocabulary is 50304, a multiple of 64 as its users choose it. Prints one line.
"""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--mode", default="compiled", choices=["compiled", "eager"])
for option, default in (("layers", 12), ("width", 768), ("heads", 12), ("vocab", 50304), ("batch", 64), ("micro", 16),
                        ("seq", 1024), ("steps", 12)):
    parser.add_argument("--" + option, type=int, default=default)
ARGS = parser.parse_args()
WIDTH, HEADS = ARGS.width, ARGS.heads
torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
torch.set_default_device(ARGS.device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = [part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                 for part in self.qkv(self.attention_norm(x)).split(WIDTH, 2)]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(ARGS.vocab, WIDTH), nn.Embedding(ARGS.seq, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(ARGS.layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, ARGS.vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, ARGS.vocab).float(), targets.reshape(-1))


def settle():
    if ARGS.device == "cuda":
        torch.cuda.synchronize()


def main():
    model = Gpt2()
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if ARGS.mode == "compiled" else model
    seconds = []
    for _ in range(ARGS.steps + 3):
        settle()
        start = time.time()
        ids = torch.randint(0, ARGS.vocab - 100, (ARGS.batch, ARGS.seq + 1))
        optimizer.zero_grad(set_to_none=True)
        for part in ids.split(ARGS.micro):
            with torch.autocast(ARGS.device, dtype=torch.bfloat16):
                loss = run(part[:, :-1], part[:, 1:]) / (ARGS.batch // ARGS.micro)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        settle()
        seconds.append(time.time() - start)
    timed = sorted(seconds[3:])
    median = timed[len(timed) // 2]
    print(f"torch {torch.__version__} {ARGS.mode} on {ARGS.device}, GPT-2 bf16 {ARGS.batch}x{ARGS.seq} in micro-batches of "
          f"{ARGS.micro}: first step {seconds[0]:.1f} s, median {median * 1e3:.1f} ms (min {timed[0] * 1e3:.1f}, "
          f"max {timed[-1] * 1e3:.1f}), {ARGS.batch * ARGS.seq / median:.0f} tokens/s", flush=True)


main()
