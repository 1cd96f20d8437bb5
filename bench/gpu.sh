#!/usr/bin/env bash
# Measures this machine's GPU beside PyTorch: correctness of three families, a GPT-2 step, LLaMA 1B, attention, the start, and
# the machine's CPU. Prints what each command says; figures of an H200 lie in bench/results/gpu.
#
#   bench/gpu.sh [BUILD_FOLDER]          # build/cuda; python3 with PyTorch for the peers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$(realpath "${1-build/cuda}")
athanor=$build/athanor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n$ %s\n' "$*"; }
measure() {
  say "$@"
  "$@" 2>&1 | grep -v '^step ' || echo "failed: $*"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,memory.total --format=csv
"$athanor" doctor

# Real text is not needed: C sources of this folder are one channel of bytes.
cat src/athanor/kernels/*.h >"$work/text.txt"
"$athanor" tokenizer train --type char --output "$work/char.json" "$work/text.txt"
cp bench/gpu/small.toml "$work/small.toml"
(cd "$work" && measure python3 "$OLDPWD/bench/gpu/families.py" "$athanor" small.toml)

step=("$athanor" bench step --device cuda)
measure "${step[@]}" --batch 64 --seq 1024 --vocab 50304 --steps 15
measure python3 bench/gpu/gpt2_torch.py --batch 64 --micro 16
measure "${step[@]}" --batch 64 --seq 1024 --vocab 50304 --steps 15
measure "${step[@]}" --batch 64 --seq 1024 --vocab 50304 --steps 3 --profile
measure "${step[@]}" --preset llama-1b --batch 4 --seq 4096 --steps 8
measure "${step[@]}" --preset tinyllama-1.1b --batch 4 --seq 4096 --steps 8
for shape in "--batch 64 --seq 1024 --heads 12 --head-dim 64" "--batch 4 --seq 4096 --heads 16 --head-dim 128" \
  "--batch 4 --seq 4096 --heads 32 --kv-heads 8 --head-dim 128"; do
  # shellcheck disable=SC2086
  measure "$build/athanor-bench" attention --device cuda $shape --rounds 7
done
measure python3 bench/gpu/attention_torch.py

say "one step of a model of GPT-2 124M's sizes, 2 x 4x1024, the whole process"
cd "$work"
time "$athanor" train small.toml --set model.num_hidden_layers=12 --set model.num_attention_heads=12 \
  --set model.hidden_size=768 --set model.vocab_size=50304 --set data.seq_len=1024 --set train.steps=1 \
  --set precision.compute=bf16 --set train.device=cuda --set train.name=first >"$work/first.txt" 2>&1 || cat "$work/first.txt"
cd - >/dev/null

measure "$athanor" bench step --batch 4 --seq 1024 --vocab 50304 --steps 5
measure python3 bench/gpu/gpt2_torch.py --device cpu --mode eager --batch 4 --micro 4 --steps 5
measure python3 bench/gpu/gpt2_torch.py --device cpu --mode compiled --batch 4 --micro 4 --steps 5
measure "$athanor" bench step --batch 4 --seq 1024 --vocab 50304 --steps 5
