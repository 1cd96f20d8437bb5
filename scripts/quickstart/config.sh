#!/usr/bin/env bash
# The quickstart's config on standard output: scripts/quickstart/config.sh FOLDER SIZE STEPS
#
# FOLDER holds corpora/quickstart/ and tokenizer.json, where the config is to lie too. SIZE is 1 (1.4 million parameters) to 4 (11.5
# million), STEPS how long to train. `config.sh sizes` prints each size, its floating-point operations per token in
# millions and its tokens per step.
set -euo pipefail

# size: layers width heads ffn_width sequences-per-step peak-learning-rate
models=([1]="4 128 4 384 16 4e-3" [2]="5 192 3 512 16 3e-3" [3]="6 256 4 704 32 2.5e-3" [4]="8 320 5 896 32 2e-3")
vocabulary=4096
sequence=128

if [ "${1-}" = sizes ]; then
  for size in "${!models[@]}"; do
    read -r layers width _ ffn_width sequences _ <<<"${models[size]}"
    parameters=$((layers * (4 * width * width + 3 * width * ffn_width) + vocabulary * width))
    echo "$size $(((6 * parameters + 6 * layers * width * sequence) / 1000000)) $((sequences * sequence))"
  done
  exit 0
fi

folder=${1:?usage: config.sh FOLDER SIZE STEPS}
read -r layers width heads ffn_width sequences rate <<<"${models[${2:?usage: config.sh FOLDER SIZE STEPS}]}"
steps=${3:?usage: config.sh FOLDER SIZE STEPS}

channel() {  # channel NAME WEIGHT: left out where there is no text for it
  [ ! -d "$folder/corpora/quickstart/$1" ] ||
    printf '  {name = "%s", path = "corpora/quickstart/%s", weight = %s},\n' "$1" "$1" "$2"
}

# setting LINE COMMENT
setting() { printf '%-28s # %s\n' "$1" "$2"; }

echo '# The run of the quickstart. Everything not named here has a default; to see them all, with units and origins:'
echo '#   athanor train quickstart.toml --print-config'
echo
setting '[model]' "a small LLaMA, as large as this machine can train in two to three minutes"
echo 'model_type = "llama"'
echo "num_hidden_layers = $layers"
setting "hidden_size = $width" "numbers that stand for each token inside the model"
setting "num_attention_heads = $heads" "of attention; each sees hidden_size / num_attention_heads of those"
setting "intermediate_size = $ffn_width" "of the feed-forward part of a layer"
setting 'tie_word_embeddings = true' "one table both to read and to write tokens: fewer parameters"
echo
setting '[data]' "what athanor corpus build has made; paths are relative to this file"
setting 'channels = [' "the data mixture: its losses are shown one by one, weights say how often each is drawn"
channel en 0.8
channel zh 0.1
channel code 0.1
echo ']'
setting 'tokenizer = "tokenizer.json"' "from: athanor tokenizer train"
setting "seq_len = $sequence" "tokens that the model sees at once"
setting 'valid_fraction = 0.02' "the last 2 % of each channel are kept to validate with, never trained on"
echo
echo '[train]'
setting 'name = "quickstart"' "everything of this run goes to runs/quickstart"
echo "steps = $steps"
setting "global_batch_size = $sequences" "sequences per step: micro-batch x ranks x accumulation"
setting 'micro_batch_size = 8' "sequences that a rank computes at once"
setting "eval_every = $(((steps + 4) / 5))" "steps between two validations"
setting 'initial_eval_tokens = 131072' "validate before step 1 too, with all of the validation text"
setting 'seed = 1' "the same seed gives the same model"
echo
setting '[optimizer]' "AdamW"
setting "lr = $rate" "the learning rate at its peak: the first setting to change when a loss will not fall"
echo
setting '[schedule]' "cosine: from the peak down to a tenth of it"
setting "warmup_steps = $((steps < 1000 ? (steps + 19) / 20 : 50))" "steps from zero up to the peak"
echo
echo '[precision]'
setting 'compute = "bf16"' "products in bfloat16, weights and sums in f32"
echo
echo '[checkpoint]'
setting "every_steps = $(((steps + 1) / 2))" "a killed run resumes from the newest by the same command"
