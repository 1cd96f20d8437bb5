#include "athanor/config/field_lists.h"

namespace athanor::config {

std::vector<Field<Config>> train_fields() {
  using C = Config;
  using D = DataConfig;
  using T = TrainConfig;
  using O = OptimizerConfig;
  using S = ScheduleConfig;
  using P = PrecisionConfig;
  return {
      {"data", "channels",
       "the data mixture: name, path, relative weight (or epochs, or tokens) and valid_path of each channel",
       "A channel is one source of text; losses are reported for each. A path is a .bin/.idx prefix, or "
       "text, JSONL or folders of them, tokenized once into data.cache.",
       at<&C::data, &D::channels>, any()},
      {"data", "tokenizer", "a tokenizer.json, or a folder that has one",
       "'athanor tokenizer train' makes one. A path of token files needs none, and then no bits per byte are "
       "reported.",
       at<&C::data, &D::tokenizer>, path()},
      {"data", "seq_len", "tokens of a training sequence",
       "Activations grow in proportion, attention's time with the square. At most "
       "model.max_position_embeddings.",
       at<&C::data, &D::seq_len>, at_least(1, 1 << 30)},
      {"data", "valid_fraction", "fraction of each channel without valid_path, its end, kept for validation",
       "0 trains on everything; then no validation loss is known.", at<&C::data, &D::valid_fraction>,
       below(0, 1)},
      {"data", "cache", "folder of token files; empty: .cache in train.runs",
       "Token files take 2 or 4 bytes a token. Put the cache on a fast disk that several runs share.",
       at<&C::data, &D::cache>, path()},
      {"data", "text_key", "field of a JSONL line that holds the text",
       "A path of text without JSON ignores it.", at<&C::data, &D::text_key>, any()},
      {"data", "packing", "how documents become sequences",
       "stream cuts sequences from the stream of all documents: no place is wasted, and most documents that "
       "are "
       "shorter than a sequence are cut in two. best-fit packs whole documents into sequences, and cuts only "
       "what "
       "is longer than data.seq_len; the rest of a sequence is padding, usually below 1 % of the places. "
       "Then "
       "the first token of a document is no target. 12 bytes of memory a document. Use it with document_mask "
       "= "
       "true, else documents that share a sequence see each other.",
       at<&C::data, &D::packing>, one_of({"stream", "best-fit"})},
      {"data", "temperature", "sampling temperature T of the mixture: shares are sizes^(1/T); 0: off",
       "1 draws every channel in proportion to its tokens, larger values give small channels more, for "
       "example "
       "languages with little text. Replaces weight, epochs and tokens of the channels.",
       at<&C::data, &D::temperature>, at_least(0)},
      {"data", "shuffle_window", "sequences of a text without end that are shuffled together",
       "Of channels with follow or from standard input, whose order is a permutation within windows of so "
       "many sequences. The first step waits for a whole window; larger ones mix better.",
       at<&C::data, &D::shuffle_window>, at_least(1, 1 << 24)},
      {"data", "document_mask", "whether a token attends only within its own document",
       "false lets attention cross documents that share a sequence, as GPT-2 and LLaMA were trained; true is "
       "better where documents are short. It costs no time.",
       at<&C::data, &D::document_mask>, any()},
      {"data", "objective", "what is learned from a sequence; auto: what the model is for",
       "next-token is for decoders. masked (BERT, RoBERTa) is for encoders: tokens are taken out, and the "
       "model "
       "fills them in; then data.tokenizer needs a [MASK] or <mask>.",
       at<&C::data, &D::objective>, one_of({"auto", "next-token", "masked"})},
      {"data",
       "mask_rate",
       "masked: share of the tokens of a sequence that are to be filled in",
       "0.15 in BERT; 0.3 learns faster per step (ModernBERT). Compare losses at one rate only.",
       at<&C::data, &D::mask_rate>,
       {.range = {.low = 0, .high = 1, .low_open = true, .high_open = true}}},
      {"data", "mask_random_rate", "masked: share of those that become any token of the vocabulary",
       "With mask_keep_rate at most 1; the others become the mask.", at<&C::data, &D::mask_random_rate>,
       within(0, 1)},
      {"data", "mask_keep_rate", "masked: share of those that stay as they are",
       "It keeps the model from relying on the mask, which later uses have not.",
       at<&C::data, &D::mask_keep_rate>, within(0, 1)},
      {"data", "mask_whole_words", "masked: whether all tokens of a word are chosen together",
       "It makes the task harder and the model better where words have several tokens.",
       at<&C::data, &D::mask_whole_words>, any()},
      {"data", "mask_token", "masked: the token that stands for a missing one; empty: [MASK] or <mask>",
       "An id where the paths are token files without a tokenizer.", at<&C::data, &D::mask_token>, any()},
      {"train", "name", "name of the run: its folder is runs/<name>",
       "The same name resumes the run; a new one begins a new run.", at<&C::train, &T::name>, any()},
      {"train", "runs", "folder of all runs, relative to the working folder",
       "Put it on a disk with room for checkpoint.keep checkpoints.", at<&C::train, &T::runs>, any()},
      {"train", "init_from", "run, checkpoint or Hugging Face folder: weights, architecture, tokenizer",
       "Finetuning starts from it, with a fresh optimizer. Leave [model] out beside it.",
       at<&C::train, &T::init_from>, any()},
      {"train", "steps", "optimizer steps",
       "A run reads steps x global_batch_size x data.seq_len tokens. The learning rate falls over all of "
       "them.",
       at<&C::train, &T::steps>, at_least(1)},
      {"train", "global_batch_size",
       "sequences per optimizer step: micro_batch_size x data-parallel ranks x accumulation",
       "Accumulation (gradient accumulation steps) follows from the other three. Larger batches allow a "
       "larger optimizer.lr and need fewer steps; the time of a step grows in proportion.",
       at<&C::train, &T::global_batch_size>, at_least(1, 1 << 30)},
      {"train", "micro_batch_size", "sequences per forward and backward pass of a rank",
       "Activations grow in proportion. Raise it until a pass has a thousand tokens or the memory is used "
       "up; micro_batch_size x data-parallel ranks x accumulation = global_batch_size.",
       at<&C::train, &T::micro_batch_size>, at_least(1, 1 << 30)},
      {"train", "seed", "seed of every random number",
       "The same seed gives the same initial weights, samples and dropout on any number of ranks.",
       at<&C::train, &T::seed>, at_least(0, kMaxInt)},
      {"train", "eval_every", "steps between evaluations; 0: before the first step and after the last",
       "An evaluation costs forward passes over eval_tokens of each channel.", at<&C::train, &T::eval_every>,
       at_least(0)},
      {"train", "eval_tokens", "validation tokens per channel in an evaluation; 0: all",
       "More tokens make the validation loss less noisy and an evaluation longer.",
       at<&C::train, &T::eval_tokens>, at_least(0)},
      {"train", "initial_eval_tokens",
       "validation tokens per channel before step 1; 0: no evaluation; with init_from 4096",
       "It shows the loss of the initial weights; step 1 waits for it.",
       at<&C::train, &T::initial_eval_tokens>, at_least(0)},
      {"train", "device", "device of the tensors",
       "auto is the CPU; cuda needs the CUDA plug-in and a GPU for each rank of a host.",
       at<&C::train, &T::device>, one_of({"auto", "cpu", "cuda"})},
      {"train", "threads", "compute threads per rank; 0: its share of the usable CPUs",
       "Lower it to leave CPUs to other programs. No result depends on it.", at<&C::train, &T::threads>,
       at_least(0, 4096)},
      {"train", "pack_weights", "prepack weights once per step if 4 micro-batches use them",
       "Faster matrix products for 4 more bytes a parameter. false saves that memory.",
       at<&C::train, &T::pack_weights>, any()},
      {"train", "pin_threads", "pin each thread to a core when all cores are used",
       "false lets the operating system move threads, which is better on a machine that others use.",
       at<&C::train, &T::pin_threads>, any()},
      {"train", "isa", "highest instruction set of CPU kernels",
       "Lower it to get the bits of an older machine; 'athanor doctor' says what this one has.",
       at<&C::train, &T::isa>, one_of({"auto", "generic", "avx2", "avx512", "avx512_bf16", "amx"})},
      {"train", "trace", "write a timeline of each rank to trace/rank*.json (Chrome trace, Perfetto)",
       "For finding out where a step's time goes; long runs write large files.", at<&C::train, &T::trace>,
       any()},
      {"train", "log_every", "steps per console line", "metrics.jsonl has every step.",
       at<&C::train, &T::log_every>, at_least(1)},
      {"train", "sample_every", "steps between samples of generated text; 0: none",
       "A sample costs sample_tokens forward passes of one token.", at<&C::train, &T::sample_every>,
       at_least(0)},
      {"train", "sample_prompts", "texts that samples continue; none: a new document",
       "Each prompt gives one sample.", at<&C::train, &T::sample_prompts>, any()},
      {"train", "sample_tokens", "tokens per sample", "The time of a sample grows in proportion.",
       at<&C::train, &T::sample_tokens>, at_least(1, 1 << 20)},
      {"train", "sample_temperature", "temperature of samples; 0: greedy",
       "Lower is more probable text, higher more varied.", at<&C::train, &T::sample_temperature>,
       at_least(0)},
      {"optimizer", "name", "optimizer",
       "adamw keeps two moments a parameter (8 bytes, 2 with state = \"8bit\"); sgd keeps one, none with "
       "momentum = 0. lamb is adamw whose step on each matrix is as long as the matrix (trust ratio), for "
       "batches of thousands of sequences; it reads the state twice, and is for the CPU.",
       at<&C::optimizer, &O::name>, one_of({"adamw", "lamb", "sgd"})},
      {"optimizer", "lr", "peak learning rate",
       "The first setting to tune: 3e-4 to 1e-3 for small models with adamw, less for large ones and for "
       "finetuning. A loss that jumps asks for less.",
       at<&C::optimizer, &O::lr>, above(0)},
      {"optimizer", "betas", "adamw, lamb: decay rates of the first and second moment",
       "[0.9, 0.95] is usual for language models; [0.9, 0.999] averages longer, for small or noisy batches.",
       at<&C::optimizer, &O::betas>, below(0, 1)},
      {"optimizer", "eps", "adamw, lamb: added to the root of the second moment (Adam epsilon)",
       "Leave it, but where gradients are tiny.", at<&C::optimizer, &O::eps>, above(0)},
      {"optimizer", "bias_correction", "adamw, lamb: divide the moments by 1 - beta^step",
       "false is the Adam of BERT, whose first steps are smaller by that much; give it a warm-up.",
       at<&C::optimizer, &O::bias_correction>, any()},
      {"optimizer", "weight_decay", "decoupled weight decay, of matrices only",
       "0.1 is usual for pre-training, 0 to 0.1 for finetuning.", at<&C::optimizer, &O::weight_decay>,
       at_least(0)},
      {"optimizer", "momentum", "sgd: momentum", "0 saves 4 bytes a parameter.",
       at<&C::optimizer, &O::momentum>, below(0, 1)},
      {"optimizer", "max_grad_norm", "norm that gradients are clipped to; 0: no clipping",
       "1 guards against loss spikes. grad_norm in metrics.jsonl is the norm before clipping.",
       at<&C::optimizer, &O::max_grad_norm>, at_least(0)},
      {"optimizer", "state", "type of the optimizer's moments; 8bit: quantized in blocks",
       "8bit saves 6 of adamw's 8 bytes a parameter, for a little noise in the updates.",
       at<&C::optimizer, &O::state>, one_of({"f32", "8bit"})},
      {"optimizer", "group", "parameters with a learning rate and a decay of their own",
       "A parameter belongs to the first [[optimizer.group]] whose pattern its name matches; the others have "
       "ratio 1 and weight_decay.",
       at<&C::optimizer, &O::group>, any()},
      {"schedule", "decay", "shape of the learning rate after warm-up",
       "cosine for runs of a known length; wsd (warmup-stable-decay) for runs that may be prolonged; "
       "constant for trials. inverse_sqrt (Noam) falls with the root of the steps and has no end; linear and "
       "polynomial end a finetuning.",
       at<&C::schedule, &S::decay>,
       one_of({"cosine", "linear", "polynomial", "constant", "wsd", "inverse_sqrt"})},
      {"schedule", "warmup_steps", "steps of linear warm-up",
       "1 to 5 % of train.steps is usual; too few let a large optimizer.lr diverge. It may exceed "
       "train.steps.",
       at<&C::schedule, &S::warmup_steps>, at_least(0)},
      {"schedule", "warmup_init_ratio", "start of the warm-up as a fraction of optimizer.lr",
       "0 is usual; 1 makes inverse_sqrt the schedule of T5, which keeps the peak for warmup_steps.",
       at<&C::schedule, &S::warmup_init_ratio>, within(0, 1)},
      {"schedule", "min_lr_ratio", "final learning rate as a fraction of optimizer.lr",
       "0.1 is usual; 0 for wsd and for a last phase.", at<&C::schedule, &S::min_lr_ratio>, within(0, 1)},
      {"schedule", "wsd_decay_fraction", "wsd: fraction of all steps, at the end, over which the rate falls",
       "0.1 to 0.2 is usual; shorter ends at a higher loss.", at<&C::schedule, &S::wsd_decay_fraction>,
       within(0, 1)},
      {"schedule", "power", "polynomial: exponent of the share of steps that is left",
       "1 is a straight line; Longformer's continued training had 3, which falls early and ends slowly.",
       at<&C::schedule, &S::power>, above(0)},
      {"precision", "compute", "type of weights and activations; master weights stay f32",
       "bf16 halves activations and is fastest where the CPU or GPU has bf16 products; f32 is the reference; "
       "f16 needs loss scaling.",
       at<&C::precision, &P::compute>, one_of({"f32", "bf16", "f16"})},
      {"precision", "loss_scale", "f16: initial loss scale",
       "It adapts itself; a smaller one saves the first skipped steps.", at<&C::precision, &P::loss_scale>,
       above(0)},
      {"precision", "loss_scale_window", "f16: steps without overflow before the loss scale doubles",
       "Shorter windows follow the gradients faster and skip more steps.",
       at<&C::precision, &P::loss_scale_window>, at_least(1)},
  };
}

}  // namespace athanor::config
