#!/usr/bin/env python3
"""The peer of attention on a GPU: PyTorch's scaled dot-product attention, causal, forward and backward, by backend."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = ((64, 1024, 12, 12, 64), (4, 4096, 16, 16, 128), (4, 4096, 32, 8, 128))


def milliseconds_of(call, times=20):
    for _ in range(3):
        call()
    took = []
    for _ in range(times):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end))
    return sorted(took)[times // 2]


def tensor(batch, length, heads, width):
    return torch.randn(batch, length, heads, width, device="cuda", dtype=torch.bfloat16).transpose(1, 2)


def main():
    for batch, length, heads, kv_heads, width in SHAPES:
        q = tensor(batch, length, heads, width).requires_grad_()
        k, v = (tensor(batch, length, kv_heads, width).requires_grad_() for _ in "kv")
        gradient = tensor(batch, length, heads, width)
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            with sdpa_kernel(backend):
                def forward():
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
                first = milliseconds_of(forward)
                out = forward()
                second = milliseconds_of(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
            print(f"torch {torch.__version__} {backend.name} {batch}x{length}, {heads} heads ({kv_heads} of keys) of "
                  f"{width}: forward {first:.3f} ms, backward {second:.3f} ms", flush=True)


main()
