// [train], [optimizer], [schedule], [precision]: what a run computes, how long, and with which numbers.
//
//   config.train.global_batch_size = 32;   // sequences per optimizer step
//   config.train.micro_batch_size = 4;     // sequences per forward and backward pass of a rank
//
// micro_batch_size x data-parallel ranks x accumulation = global_batch_size: accumulation follows from the other three.
// config/fields_train.cpp says of each key what it does, its limits and its costs. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::config {

struct TrainConfig {
  std::string name = "run";    // -> runs/<name>
  std::string runs = "runs";   // folder of all runs, relative to the working folder
  std::string init_from = {};  // a checkpoint or a Hugging Face folder: weights only, fresh optimizer
  int64_t steps = 1000;
  int64_t global_batch_size = 32;
  int64_t micro_batch_size = 4;
  uint64_t seed = 1;
  int64_t eval_every = 100;      // steps; 0: only before the first and after the last
  int64_t eval_tokens = 131072;  // validation tokens per channel in an evaluation; 0: all of them
  int64_t initial_eval_tokens =
      1024;                     // the same before step 1, which waits for it; with init_from 4096 by default
  std::string device = "auto";  // auto, cpu, cuda
  int64_t threads = 0;          // compute threads of each rank; 0: usable processors / ranks of this machine
  bool pack_weights = true;     // once a step, where several micro-batches use them: kernels/packed_weights.h
  bool pin_threads = true;      // binds them to cores, where they leave none free: base/topology.h
  std::string isa = "auto";  // highest instruction set to use: auto, generic, avx2, avx512, avx512_bf16, amx
  bool trace = false;        // write trace/rank*.json
  int64_t log_every = 1;     // console lines (metrics.jsonl has every step)
  // Text that the model writes while it trains (run/samples.h); drawn by address, it changes no bit of the training.
  int64_t sample_every = 0;                      // steps; 0: never
  std::vector<std::string> sample_prompts = {};  // each is continued; none: a document is begun
  int64_t sample_tokens = 64;                    // of each sample
  double sample_temperature = 0.8;               // 0: greedy
};

// [[optimizer.group]]: parameters with a rate and a decay of their own.
struct OptimizerGroupConfig {
  std::string match = {};      // a pattern over parameter names: * any text, ? any character
  double lr_ratio = 1.0;       // of optimizer.lr
  double weight_decay = -1.0;  // of all that match, vectors too; below 0: as optimizer.weight_decay
  bool operator==(const OptimizerGroupConfig&) const = default;
};

struct OptimizerConfig {
  std::string name = "adamw";  // adamw, lamb, sgd
  double lr = 3e-4;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  bool bias_correction = true;  // adamw, lamb; false is BERT's Adam
  double weight_decay = 0.1;    // on matrices only (two or more dimensions)
  double momentum = 0.9;        // sgd
  double max_grad_norm = 1.0;   // 0: none
  std::string state = "f32";    // f32, 8bit: of momenta and averages, in blocks (kernels/quantize.h)
  std::vector<OptimizerGroupConfig> group = {};  // a parameter belongs to the first that it matches
};

struct ScheduleConfig {
  std::string decay = "cosine";    // cosine, linear, polynomial, constant, wsd, inverse_sqrt
  int64_t warmup_steps = 100;      // may exceed steps
  double warmup_init_ratio = 0.0;  // where the warm-up begins, as a fraction of the peak
  double min_lr_ratio = 0.1;
  double wsd_decay_fraction = 0.2;  // wsd: the share of steps, at the end, over which the rate falls
  double power = 1.0;               // polynomial
  // Where the schedule began and over how many steps it runs, which the phases of a run say: phases_of() fills them in.
  int64_t first_step = 1;
  int64_t steps = 0;  // 0: train.steps
};

struct PrecisionConfig {
  std::string compute = "bf16";      // f32, bf16, f16
  double loss_scale = 256.0;         // f16: the first dynamic loss scale
  int64_t loss_scale_window = 1000;  // f16: good steps before it doubles
};

}  // namespace athanor::config
