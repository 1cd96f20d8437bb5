#include "athanor/config/fields.h"

#include <fmt/core.h>

#include <cmath>

namespace athanor {
namespace {

template <auto Section, auto Member>
Slot at(Config& config) {
  return &((config.*Section).*Member);
}

template <auto Member>
Slot of(ChannelConfig& channel) {
  return &(channel.*Member);
}

// No product of a few settings may leave 64 bits; these limits are far above any machine.
constexpr long double kMany = 1LL << 40;
constexpr long double kMaxInt = std::numeric_limits<int64_t>::max();

Traits at_least(long double low, long double high = kMany) {
  return {.range = {low, high}};
}
Traits above(long double low) {
  return {.range = {.low = low, .low_open = true}};
}
Traits within(long double low, long double high) {
  return {.range = {low, high}};
}
Traits below(long double low, long double high) {
  return {.range = {low, high, false, true}};
}
Traits one_of(std::vector<std::string> names) {
  return {.choices = std::move(names)};
}
Traits any() {
  return {};
}
Traits path() {
  return {.is_path = true};
}

}  // namespace

const std::vector<Field<Config>>& config_fields() {
  using C = Config;
  using M = ModelConfig;
  using D = DataConfig;
  using T = TrainConfig;
  using O = OptimizerConfig;
  using S = ScheduleConfig;
  using P = PrecisionConfig;
  using L = ParallelConfig;
  using F = OffloadConfig;
  using K = CheckpointConfig;
  using A = LaunchConfig;
  static const std::vector<Field<Config>> fields = {
      {"model", "preset", "named sizes, which other keys of [model] override; empty: the family's",
       at<&C::model, &M::preset>, any()},
      {"model", "family", "architecture", at<&C::model, &M::family>, one_of({"llama", "gpt2", "moe"})},
      {"model", "layers", "transformer blocks", at<&C::model, &M::layers>, at_least(0, 10000)},
      {"model", "width", "hidden size (d_model)", at<&C::model, &M::width>, at_least(0, 1 << 20)},
      {"model", "heads", "attention heads", at<&C::model, &M::heads>, at_least(0, 1 << 16)},
      {"model", "kv_heads", "key and value heads (grouped-query attention)", at<&C::model, &M::kv_heads>,
       at_least(0, 1 << 16)},
      {"model", "head_dim", "size of a head", at<&C::model, &M::head_dim>, at_least(0, 1 << 14)},
      {"model", "ffn_width", "MLP hidden size", at<&C::model, &M::ffn_width>, at_least(0, 1 << 22)},
      {"model", "vocab_size", "ids; 0: the tokenizer's", at<&C::model, &M::vocab_size>, at_least(0, 1 << 28)},
      {"model", "max_seq_len", "tokens: the longest context", at<&C::model, &M::max_seq_len>,
       at_least(0, 1 << 30)},
      {"model", "tie_embeddings", "one matrix for input and output embeddings",
       at<&C::model, &M::tie_embeddings>, any()},
      {"model", "bias", "biases in linear layers", at<&C::model, &M::bias>, any()},
      {"model", "dropout", "probability, of residuals and embeddings, in training",
       at<&C::model, &M::dropout>, below(0, 1)},
      {"model", "rope_base", "RoPE theta", at<&C::model, &M::rope_base>, above(0)},
      {"model", "norm_eps", "epsilon of RMSNorm or LayerNorm", at<&C::model, &M::norm_eps>, above(0)},
      {"model", "init_std", "standard deviation of initial weights", at<&C::model, &M::init_std>, above(0)},
      {"model", "experts", "moe: routed experts of a layer", at<&C::model, &M::experts>, at_least(0, 4096)},
      {"model", "experts_per_token", "moe: top-k", at<&C::model, &M::experts_per_token>, at_least(0, 4096)},
      {"model", "expert_width", "moe: hidden size of an expert", at<&C::model, &M::expert_width>,
       at_least(0, 1 << 22)},
      {"model", "shared_experts", "moe: experts that see every token", at<&C::model, &M::shared_experts>,
       at_least(0, 4096)},
      {"model", "dense_layers", "moe: first blocks without experts", at<&C::model, &M::dense_layers>,
       at_least(0, 10000)},
      {"model", "router", "moe: scoring function", at<&C::model, &M::router>, one_of({"softmax", "sigmoid"})},
      {"model", "router_renormalize", "moe: normalize the top-k weights",
       at<&C::model, &M::router_renormalize>, any()},
      {"model", "router_scale", "moe: factor on the expert weights", at<&C::model, &M::router_scale>,
       above(0)},
      {"model", "router_aux_loss", "moe: coefficient of the load-balancing loss",
       at<&C::model, &M::router_aux_loss>, at_least(0)},
      {"model", "router_z_loss", "moe: coefficient of the router z-loss", at<&C::model, &M::router_z_loss>,
       at_least(0)},
      {"model", "router_bias_rate", "moe: step of the load-balancing bias; 0: none",
       at<&C::model, &M::router_bias_rate>, at_least(0)},
      {"model", "capacity_factor", "moe: capacity of an expert over the mean load; 0: no token is dropped",
       at<&C::model, &M::capacity_factor>, at_least(0)},

      {"data", "channels", "the data mixture: name, path, relative weight of each source; valid_path",
       at<&C::data, &D::channels>, any()},
      {"data", "tokenizer", "a tokenizer.json", at<&C::data, &D::tokenizer>, path()},
      {"data", "seq_len", "tokens of a training sequence", at<&C::data, &D::seq_len>, at_least(1, 1 << 30)},
      {"data", "valid_fraction", "fraction of each channel without valid_path, its end, kept for validation",
       at<&C::data, &D::valid_fraction>, below(0, 1)},
      {"data", "cache", "folder of token files; empty: .cache in train.runs", at<&C::data, &D::cache>,
       path()},
      {"data", "text_key", "field of a JSONL line that holds the text", at<&C::data, &D::text_key>, any()},
      {"data", "attend_across_documents", "false: tokens see their own document only",
       at<&C::data, &D::attend_across_documents>, any()},

      {"train", "name", "the run is runs/<name>", at<&C::train, &T::name>, any()},
      {"train", "runs", "folder of all runs", at<&C::train, &T::runs>, any()},
      {"train", "init_from", "run, checkpoint or Hugging Face folder: weights, architecture, tokenizer",
       at<&C::train, &T::init_from>, any()},
      {"train", "steps", "optimizer steps", at<&C::train, &T::steps>, at_least(1)},
      {"train", "global_batch",
       "sequences per optimizer step; accumulation = global_batch / (micro_batch x dp)",
       at<&C::train, &T::global_batch>, at_least(1, 1 << 30)},
      {"train", "micro_batch", "sequences per forward and backward pass", at<&C::train, &T::micro_batch>,
       at_least(1, 1 << 30)},
      {"train", "seed", "of every random number", at<&C::train, &T::seed>, at_least(0, kMaxInt)},
      {"train", "eval_every", "steps between evaluations; 0: first and last only",
       at<&C::train, &T::eval_every>, at_least(0)},
      {"train", "eval_tokens", "validation tokens per channel; 0: all", at<&C::train, &T::eval_tokens>,
       at_least(0)},
      {"train", "first_eval_tokens", "validation tokens per channel before step 1; 0: none",
       at<&C::train, &T::first_eval_tokens>, at_least(0)},
      {"train", "device", "where tensors are", at<&C::train, &T::device>, one_of({"auto", "cpu", "cuda"})},
      {"train", "threads", "compute threads per rank; 0: its share of the CPUs", at<&C::train, &T::threads>,
       at_least(0, 4096)},
      {"train", "pack_weights",
       "prepack weights once per step if 4 micro-batches use them; +4 bytes/parameter",
       at<&C::train, &T::pack_weights>, any()},
      {"train", "pin_threads", "pin each thread to a core when all cores are used",
       at<&C::train, &T::pin_threads>, any()},
      {"train", "isa", "highest instruction set to use", at<&C::train, &T::isa>,
       one_of({"auto", "generic", "avx2", "avx512", "avx512_bf16", "amx"})},
      {"train", "trace", "writes trace/rank*.json", at<&C::train, &T::trace>, any()},
      {"train", "log_every", "steps per console line", at<&C::train, &T::log_every>, at_least(1)},
      {"train", "sample_every", "steps between samples of text; 0: none", at<&C::train, &T::sample_every>,
       at_least(0)},
      {"train", "sample_prompts", "texts to continue; none: a new document",
       at<&C::train, &T::sample_prompts>, any()},
      {"train", "sample_tokens", "tokens per sample", at<&C::train, &T::sample_tokens>, at_least(1, 1 << 20)},
      {"train", "sample_temperature", "of samples; 0: greedy", at<&C::train, &T::sample_temperature>,
       at_least(0)},

      {"optimizer", "name", "algorithm", at<&C::optimizer, &O::name>, one_of({"adamw", "sgd"})},
      {"optimizer", "lr", "learning rate at its peak", at<&C::optimizer, &O::lr>, above(0)},
      {"optimizer", "betas", "adamw: decay of the two moments", at<&C::optimizer, &O::betas>, below(0, 1)},
      {"optimizer", "eps", "adamw: Adam epsilon", at<&C::optimizer, &O::eps>, above(0)},
      {"optimizer", "weight_decay", "on matrices only", at<&C::optimizer, &O::weight_decay>, at_least(0)},
      {"optimizer", "momentum", "sgd: momentum", at<&C::optimizer, &O::momentum>, below(0, 1)},
      {"optimizer", "clip_norm", "max gradient norm; 0: no clipping", at<&C::optimizer, &O::clip_norm>,
       at_least(0)},
      {"optimizer", "state", "of the moments; 8bit: a byte a value, in blocks", at<&C::optimizer, &O::state>,
       one_of({"f32", "8bit"})},

      {"schedule", "decay", "shape of the learning rate", at<&C::schedule, &S::decay>,
       one_of({"cosine", "linear", "constant", "wsd"})},
      {"schedule", "warmup_steps", "steps of linear warm-up", at<&C::schedule, &S::warmup_steps>,
       at_least(0)},
      {"schedule", "min_lr_ratio", "final lr as a fraction of lr", at<&C::schedule, &S::min_lr_ratio>,
       within(0, 1)},
      {"schedule", "wsd_decay_fraction", "wsd: the fraction of steps, at the end, that decays",
       at<&C::schedule, &S::wsd_decay_fraction>, within(0, 1)},

      {"precision", "compute", "type of weights and activations; masters stay f32",
       at<&C::precision, &P::compute>, one_of({"f32", "bf16", "f16"})},
      {"precision", "loss_scale", "f16: initial loss scale", at<&C::precision, &P::loss_scale>, above(0)},
      {"precision", "loss_scale_window", "f16: good steps before it doubles",
       at<&C::precision, &P::loss_scale_window>, at_least(1)},

      {"parallel",
       "dp",
       "ranks, data parallel",
       at<&C::parallel, &L::dp>,
       {.range = {1, 1 << 20}, .auto_is_zero = true}},
      {"parallel", "tp", "ranks, tensor parallel", at<&C::parallel, &L::tp>, at_least(1, 1 << 20)},
      {"parallel", "pp", "ranks, pipeline parallel", at<&C::parallel, &L::pp>, at_least(1, 1 << 20)},
      {"parallel", "cp", "ranks, context parallel", at<&C::parallel, &L::cp>, at_least(1, 1 << 20)},
      {"parallel", "cp_kind", "attention over cp", at<&C::parallel, &L::cp_kind>,
       one_of({"ring", "ulysses"})},
      {"parallel", "ep", "ranks, expert parallel", at<&C::parallel, &L::ep>, at_least(1, 1 << 20)},
      {"parallel", "sp", "sequence parallel within tp", at<&C::parallel, &L::sp>, any()},
      {"parallel", "zero", "ZeRO stage", at<&C::parallel, &L::zero>, within(0, 3)},
      {"parallel", "zero_shard", "ranks that share one set of shards (HSDP); 0: all of dp",
       at<&C::parallel, &L::zero_shard>, at_least(0, 1 << 20)},
      {"parallel", "balance", "micro-batches of each rank: evenly, or by its measured speed",
       at<&C::parallel, &L::balance>, one_of({"even", "speed"})},
      {"parallel", "balance_every", "steps between two rebalances", at<&C::parallel, &L::balance_every>,
       at_least(1)},
      {"parallel", "schedule", "pipeline: a name or a CSV file", at<&C::parallel, &L::schedule>, any()},
      {"parallel",
       "virtual_stages",
       "pipeline stages per rank; auto: the schedule's",
       at<&C::parallel, &L::virtual_stages>,
       {.range = {1, 10000}, .auto_is_zero = true}},
      {"parallel", "stage_layers", "blocks of each pipeline stage; empty: evenly",
       at<&C::parallel, &L::stage_layers>, at_least(0, 10000)},
      {"parallel", "recompute",
       "activation checkpointing: none, selective, full, group:K or a list: full*4,selective",
       at<&C::parallel, &L::recompute>, any()},
      {"parallel",
       "recompute_budget",
       "bytes or \"2GiB\": picks recompute to fit; 0: none",
       at<&C::parallel, &L::recompute_budget>,
       {.range = {0, 1LL << 60}, .is_bytes = true}},
      {"parallel", "reduce", "order of gradient sums; tree: bit-identical on any number of ranks",
       at<&C::parallel, &L::reduce>, one_of({"fast", "tree"})},
      {"parallel", "transport",
       "between ranks: auto is what the environment offers, nccl is that and NCCL between devices",
       at<&C::parallel, &L::transport>, one_of({"auto", "shm", "gloo", "mpi", "nccl"})},
      {"parallel", "bucket_bytes", "bytes of a gradient bucket", at<&C::parallel, &L::bucket_bytes>,
       at_least(4)},
      {"parallel", "compression", "of gradients between ranks", at<&C::parallel, &L::compression>,
       one_of({"none", "bf16", "int8", "topk", "powersgd", "onebit-adam"})},
      {"parallel",
       "compression_ratio",
       "topk: fraction of elements sent",
       at<&C::parallel, &L::compression_ratio>,
       {.range = {0, 1, true}}},
      {"parallel", "compression_rank", "powersgd: rank", at<&C::parallel, &L::compression_rank>,
       at_least(1, 1024)},
      {"parallel", "compression_warmup",
       "steps without compression; default of topk: half of all, of onebit-adam: a third",
       at<&C::parallel, &L::compression_warmup>, at_least(0)},
      {"parallel", "error_feedback", "carry the compression error into the next step",
       at<&C::parallel, &L::error_feedback>, any()},
      {"parallel", "sync_every", "local steps between synchronizations (local SGD, DiLoCo); 0: every step",
       at<&C::parallel, &L::sync_every>, at_least(0)},
      {"parallel",
       "sync_group",
       "local SGD: ranks of dp that sum gradients every step; auto: those of a host",
       at<&C::parallel, &L::sync_group>,
       {.range = {1, 1 << 20}, .auto_is_zero = true}},
      {"parallel", "outer_lr", "local SGD: outer learning rate (DiLoCo)", at<&C::parallel, &L::outer_lr>,
       above(0)},
      {"parallel", "outer_momentum", "local SGD: outer Nesterov momentum",
       at<&C::parallel, &L::outer_momentum>, below(0, 1)},
      {"parallel", "outer_compression", "local SGD: of the outer gradient between ranks",
       at<&C::parallel, &L::outer_compression>, one_of({"none", "bf16", "int8"})},
      {"parallel", "servers", "ranks that are parameter servers; 0: none", at<&C::parallel, &L::servers>,
       at_least(0, 1 << 20)},
      {"parallel", "consistency", "servers: an update is of all workers (sync) or of one",
       at<&C::parallel, &L::consistency>, one_of({"sync", "bounded", "async"})},
      {"parallel", "staleness", "bounded: steps ahead of the slowest worker", at<&C::parallel, &L::staleness>,
       at_least(0)},
      {"parallel", "replay", "bounded, async: folder of schedules to follow", at<&C::parallel, &L::replay>,
       any()},

      {"offload", "optimizer",
       "where optimizer state is while training; host: the CPU's memory beside a device",
       at<&C::offload, &F::optimizer>, one_of({"memory", "host", "disk"})},
      {"offload", "gradients", "where gradient sums are", at<&C::offload, &F::gradients>,
       one_of({"memory", "disk"})},
      {"offload", "parameters", "where the shards of parallel.zero = 3 are", at<&C::offload, &F::parameters>,
       one_of({"memory", "disk"})},
      {"offload", "activations", "where activations of blocks are until backward; host: as above",
       at<&C::offload, &F::activations>, one_of({"memory", "host", "disk"})},
      {"offload", "path", "folder on a disk; empty: the run's", at<&C::offload, &F::path>, any()},

      {"checkpoint", "every_steps", "steps between checkpoints; 0: only the final one",
       at<&C::checkpoint, &K::every_steps>, at_least(0)},
      {"checkpoint", "keep", "newest checkpoints kept; 0: all", at<&C::checkpoint, &K::keep>, at_least(0)},
      {"checkpoint", "flash_every_steps", "not there yet", at<&C::checkpoint, &K::flash_every_steps>,
       at_least(0)},

      {"launch", "min_ranks", "not there yet", at<&C::launch, &A::min_ranks>, at_least(1, 1 << 20)},
      {"launch", "max_ranks", "not there yet", at<&C::launch, &A::max_ranks>, at_least(0, 1 << 20)},
      {"launch", "max_restarts", "not there yet", at<&C::launch, &A::max_restarts>, at_least(0)},
      {"launch", "timeout_ms", "ms until a late collective fails", at<&C::launch, &A::timeout_ms>,
       at_least(1)},
  };
  return fields;
}

const std::vector<Field<ChannelConfig>>& channel_fields() {
  static const std::vector<Field<ChannelConfig>> fields = {
      {"data.channels", "name", "", of<&ChannelConfig::name>, {.required = true}},
      {"data.channels",
       "path",
       "text, JSONL, folder or .bin/.idx prefix",
       of<&ChannelConfig::path>,
       {.is_path = true, .required = true}},
      {"data.channels", "weight", "share, relative to the others", of<&ChannelConfig::weight>, above(0)},
      {"data.channels", "valid_path", "held out instead of the last part of path; like path",
       of<&ChannelConfig::valid_path>, path()},
  };
  return fields;
}

bool Range::contains(long double value) const {
  // A NaN is in no range; infinities are in none either, since every limit of a setting is finite or open.
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high) &&
         value < std::numeric_limits<long double>::infinity();
}

std::string Range::expected(long double got) const {
  const auto number = [](long double value) {
    return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
  };
  if (high < kMany && high - low < 1e4L)
    return fmt::format("a value in {}{}, {}{}", low_open ? '(' : '[', number(low), number(high),
                       high_open ? ')' : ']');
  if (got > high && high < std::numeric_limits<long double>::infinity())
    return fmt::format("at most {}", number(high));
  return fmt::format("{} {}", low_open ? "a finite value above" : "at least", number(low));
}

const Field<Config>* find_field(std::string_view section, std::string_view name) {
  for (const auto& field : config_fields())
    if (field.section == section && field.name == name) return &field;
  return nullptr;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& field : config_fields())
    if (names.empty() || names.back() != field.section) names.emplace_back(field.section);
  return names;
}

std::vector<std::string> key_names(std::string_view section) {
  std::vector<std::string> names;
  for (const auto& field : config_fields())
    if (field.section == section) names.emplace_back(field.name);
  return names;
}

}  // namespace athanor
