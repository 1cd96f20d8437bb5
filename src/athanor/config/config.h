// The whole of a run's settings: one tree of plain structs, read once from strict TOML, checked, then const.
//
//   Config config = load_config(env, "first.toml", sets);   // config/load.h
//
// Every field has a default that makes sense. An unknown key, a wrong type or an illegal value is a
// ConfigError naming the key, got, expected and the nearest known name. Names in TOML are the names of the
// fields here; config/fields.cpp lists them with their units and limits. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace athanor {

// [model]: a preset, any field of which may be overridden. Zero: the preset's, else the family's default.
struct ModelConfig {
  std::string preset = {};       // "gpt2-124m", "llama-tiny", ... ; empty: the family's defaults
  std::string family = "llama";  // "llama", "gpt2" or "moe"
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;     // grouped-query attention; default: heads
  int64_t head_dim = 0;     // default: width / heads
  int64_t ffn_width = 0;    // default: 4 * width (gpt2); 8/3 * width rounded up to a multiple of 64 (llama)
  int64_t vocab_size = 0;   // may exceed the tokenizer's; default: that, rounded up to a multiple of 64
  int64_t max_seq_len = 0;  // default: the preset's, else data.seq_len
  bool tie_embeddings = false;
  bool bias = false;
  double dropout = 0.0;
  double rope_base = 10000.0;
  double norm_eps = 1e-5;
  double init_std = 0.02;
  // Family moe (nn/moe.h): all blocks but the first `dense_layers` have experts in place of the MLP.
  int64_t experts = 0;            // routed ones, in each of those blocks
  int64_t experts_per_token = 0;  // default: 2
  int64_t expert_width = 0;       // channels of an expert; default: ffn_width
  int64_t shared_experts = 0;     // of expert_width each, as one MLP that sees every token
  int64_t dense_layers = 0;
  std::string router = "softmax";  // softmax (Mixtral) or sigmoid (DeepSeek-V3) scores
  bool router_renormalize = true;  // the weights of a token sum to router_scale
  double router_scale = 1.0;
  double router_aux_loss = 0.0;   // coefficient of the load-balancing loss
  double router_z_loss = 0.0;     // coefficient of the squared log-sum-exp of the logits
  double router_bias_rate = 0.0;  // step of the balancing bias; 0: none
  double capacity_factor = 0.0;   // of an expert, in training: times the mean load; 0: nothing is dropped
  bool operator==(const ModelConfig&) const = default;
};

struct ChannelConfig {
  std::string name = {};
  std::string path =
      {};  // a .bin/.idx prefix, or a text/JSONL file or folder (each file optionally compressed)
  double weight = 1.0;  // share of the sequences, relative to the other channels
  std::string valid_path =
      {};  // like path: what is held out instead of the last part of path; empty: that part
  bool operator==(const ChannelConfig&) const = default;
};

struct DataConfig {
  std::vector<ChannelConfig> channels = {};
  std::string tokenizer = {};  // a tokenizer.json
  int64_t seq_len = 256;
  double valid_fraction = 0.01;   // the last part of the token stream of each channel without valid_path
  std::string cache = {};         // folder for token files made on first use; default: ".cache" in train.runs
  std::string text_key = "text";  // the JSONL field that holds the document
  // Sequences are cut from the stream of all documents. false: a token sees those of its own document only, in training
  // and in evaluation; its position stays that in the sequence.
  bool attend_across_documents = true;
};

struct TrainConfig {
  std::string name = "run";    // -> runs/<name>
  std::string runs = "runs";   // folder of all runs, relative to the working folder
  std::string init_from = {};  // a checkpoint or a Hugging Face folder: weights only, fresh optimizer
  int64_t steps = 1000;
  int64_t global_batch = 32;  // sequences per step
  int64_t micro_batch = 4;    // sequences per grain
  uint64_t seed = 1;
  int64_t eval_every = 100;      // steps; 0: only before the first and after the last
  int64_t eval_tokens = 131072;  // held-out tokens per channel in an evaluation; 0: all of them
  // The same before the first step, which waits for it; 0: none. With init_from the default is 4096.
  int64_t first_eval_tokens = 1024;
  std::string device = "auto";  // auto, cpu, cuda
  int64_t threads = 0;          // compute threads of each rank; 0: usable processors / ranks of this machine
  bool pack_weights = true;     // once a step, where several grains use them: kernels/packed_weights.h
  bool pin_threads = true;      // binds them to cores, where they leave none free: base/topology.h
  std::string isa = "auto";  // highest instruction set to use: auto, generic, avx2, avx512, avx512_bf16, amx
  bool trace = false;        // write trace/rank*.json
  int64_t log_every = 1;     // console lines (metrics.jsonl has every step)
  // Text that the model writes while it trains (train/samples.h); drawn by address, it changes no bit of the training.
  int64_t sample_every = 0;                      // steps; 0: never
  std::vector<std::string> sample_prompts = {};  // each is continued; none: a document is begun
  int64_t sample_tokens = 64;                    // of each sample
  double sample_temperature = 0.8;               // 0: greedy
};

struct OptimizerConfig {
  std::string name = "adamw";  // adamw, sgd
  double lr = 3e-4;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;  // on matrices only (two or more dimensions)
  double momentum = 0.9;      // sgd
  double clip_norm = 1.0;     // 0: none
  std::string state = "f32";  // f32, 8bit: of momenta and averages, in blocks (kernels/quantize.h)
};

struct ScheduleConfig {
  std::string decay = "cosine";  // cosine, linear, constant, wsd
  int64_t warmup_steps = 100;    // may exceed steps
  double min_lr_ratio = 0.1;
  double wsd_decay_fraction = 0.2;  // wsd: the share of steps, at the end, over which the rate falls
};

struct PrecisionConfig {
  std::string compute = "bf16";      // f32, bf16, f16
  double loss_scale = 256.0;         // f16: the first dynamic loss scale
  int64_t loss_scale_window = 1000;  // f16: good steps before it doubles
};

struct ParallelConfig {
  int64_t dp = 0;  // "auto" (0): the ranks that the other axes leave
  int64_t tp = 1, pp = 1, cp = 1, ep = 1;
  std::string cp_kind = "ring";  // ring, ulysses: how attention sees the tokens of other ranks of cp
  bool sp = false;
  int64_t zero = 0;
  int64_t zero_shard = 0;         // hybrid: ranks of dp that share one set of shards; 0: all of them
  std::string balance = "even";   // who takes how many grains: even, or by measured speed
  int64_t balance_every = 50;     // steps between two measurements
  std::string schedule = "1f1b";  // of the pipeline: a known name or a CSV file
  std::string schedule_csv = {};  // what is in that file, for all ranks alike; load_config reads it
  int64_t virtual_stages = 0;     // pipeline stages per rank; "auto" (0): as many as the schedule has
  std::vector<int64_t> stage_layers = {};  // blocks of each pipeline stage; empty: evenly
  std::string recompute = "none";          // none, selective, full, group:K or a list: config/recompute.h
  int64_t recompute_budget =
      0;  // bytes a rank may need; the cheapest recompute that fits is taken; 0: as above
  std::string reduce = "fast";      // fast, tree
  std::string transport = "auto";   // auto (what the environment offers), shm, gloo, mpi
  int64_t bucket_bytes = 16 << 20;  // gradient bucket
  // Gradients on the wire, docs/compression.md: none, bf16, int8, topk, powersgd, onebit-adam.
  std::string compression = "none";
  double compression_ratio = 0.1;  // topk: the share of elements that is sent
  int64_t compression_rank = 4;    // powersgd
  // Steps that are sent whole, for onebit-adam of plain Adam; where it is not set, what the kind wants of train.steps.
  int64_t compression_warmup = 0;
  bool error_feedback = true;  // what a code leaves out is added to the next step's gradient
  // Two-speed synchronisation: gradients are summed in groups of ranks of dp, whose weights meet every k steps.
  int64_t sync_every = 0;  // k; 0: all ranks sum every step
  int64_t sync_group = 0;  // ranks of a group; "auto" (0): those of a host
  double outer_lr = 0.7;   // of SGD with Nesterov momentum on the mean difference of weights
  double outer_momentum = 0.9;
  std::string outer_compression = "none";  // none, bf16, int8: of that difference on the wire
  // Parameter servers: so many of the ranks, the last ones, keep parameters and optimizer state; the others train.
  int64_t servers = 0;               // 0: none, ranks sum gradients among themselves
  std::string consistency = "sync";  // sync, bounded, async: what an update of theirs is made of
  int64_t staleness = 1;             // bounded: steps that a worker may be ahead of the slowest one
  std::string replay = {};           // bounded, async: the recorded schedules that this run follows
};

// What is kept on disk while training, in files without a name that are gone with the process.
struct OffloadConfig {
  std::string optimizer =
      "memory";  // memory, host, disk: momenta, averages and, where T is not f32, f32 masters
  std::string gradients = "memory";    // memory, disk: their sums over grains
  std::string parameters = "memory";   // memory, disk: those of parallel.zero = 3, between their uses
  std::string activations = "memory";  // memory, host, disk: those of blocks, between forward and backward
  std::string path = {};               // a folder on a disk; empty: the run's
};

struct CheckpointConfig {
  int64_t every_steps = 100;  // 0: only the final one
  int64_t keep = 3;           // newest ones kept; 0: all
  int64_t flash_every_steps = 0;
};

struct LaunchConfig {
  int64_t min_ranks = 1;
  int64_t max_ranks = 0;
  int64_t max_restarts = 0;
  int64_t timeout_ms = 600000;  // a collective that is later than this fails
};

// Where a value came from. A key without one has the program's default.
struct Origin {
  enum class Kind {
    file,          // text is "first.toml:12"
    command_line,  // "--set train.steps=10"
    preset,        // "preset llama-tiny"
    derived,       // "width / heads"
    source,        // "init_from runs/base": the settings of the weights that the run starts from
  };
  Kind kind = Kind::file;
  std::string text = {};
  bool by_user() const { return kind == Kind::file || kind == Kind::command_line; }
};

struct Config {
  ModelConfig model = {};
  DataConfig data = {};
  TrainConfig train = {};
  OptimizerConfig optimizer = {};
  ScheduleConfig schedule = {};
  PrecisionConfig precision = {};
  ParallelConfig parallel = {};
  OffloadConfig offload = {};
  CheckpointConfig checkpoint = {};
  LaunchConfig launch = {};
  std::string folder = {};  // of the config file; load_config has already made relative data paths start here
  std::map<std::string, Origin, std::less<>> origins = {};  // "train.steps" -> where it was set
  std::vector<std::string> warnings =
      {};  // what is legal and doubtful, a sentence each; training says them first
};

}  // namespace athanor
