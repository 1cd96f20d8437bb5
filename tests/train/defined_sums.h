// Compressed sums of gradients by their definition (support/compression_definition.h): the gradients of virtual ranks
// in one process, one after the other, each matrix or part of one that a rank has summed on its own.
#pragma once

#include <map>

#include "athanor/engine/compression_state.h"
#include "athanor/kernels/table.h"
#include "support/compression_definition.h"
#include "train/role_of.h"
#include "train/virtual_ranks.h"

namespace athanor::tests {

inline Config one_rank_of(Config config) {
  config.compression.method = "none";
  config.parallel.dp = config.parallel.ep = config.parallel.tp = 1;
  config.parallel.shard_degree = 0;
  config.local_sgd.sync_interval = config.local_sgd.group_size = 0;
  config.parallel.sp = false;
  return config;
}

// Which micro-batches each rank sums before it sends them: all of a step, or (ZeRO 2 and 3) one of a round, the last ones none.
using Round = std::vector<LeafRange>;
inline std::vector<Round> rounds_of(const Config& config, int64_t num_micro_batches, int ranks) {
  std::vector<Round> rounds;
  if (config.parallel.zero_stage < 2 || config.parallel.shard_degree > 0) {
    Round& all = rounds.emplace_back();
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(micro_batches_of_rank(num_micro_batches, ranks, rank));
    return rounds;
  }
  for (int64_t first = 0; first < num_micro_batches; first += ranks) {
    Round& round = rounds.emplace_back();
    for (int64_t micro_batch = first; micro_batch < first + ranks; ++micro_batch)
      round.emplace_back(std::min(micro_batch, num_micro_batches),
                         std::min(micro_batch + 1, num_micro_batches));
  }
  return rounds;
}

struct DefinedStep {
  Accumulated losses;
  std::map<const Param*, Tensor> grads;
  double grad_norm = 0.0;
  bool is_finite = true;  // else nothing was summed
  double clip(const Config& config) const {
    return config.optimizer.max_grad_norm > 0.0
               ? std::min(1.0, config.optimizer.max_grad_norm / (grad_norm + 1e-6))
               : 1.0;
  }
};

class DefinedSums {
 public:
  explicit DefinedSums(const Config& config)
      : config_(config),
        definition_(config.compression.method == "onebit-adam" ? "onebit" : config.compression.method,
                    config.compression.error_feedback, config.compression.ratio, config.compression.rank,
                    config.train.seed) {}

  // Of ranks with these micro-batches of a step; `training` is one_rank_of(config). The sums are those of the loss, whatever
  // scale (a power of two) keeps f16 in its range: no code sees one.
  DefinedStep step(Training& training, int64_t step, const std::vector<Round>& rounds,
                   double loss_scale = 1.0) {
    DefinedStep done;
    std::map<const Weight*, std::vector<std::vector<Floats>>> of_round;
    for (const Round& round : rounds) {
      for (Weight* weight : training.model->weights()) of_round[weight].emplace_back();
      for (const LeafRange& of : round) add_rank(training, step, of, loss_scale, done, of_round);
    }
    if (!done.is_finite) definition_.forget();
    double squares = 0.0;
    for (const auto& param : training.model->params()) {
      if (!done.is_finite) break;
      Floats sum;
      for (const auto& use : param->uses()) {
        Floats of_use;
        for (const std::vector<Floats>& of_rank : of_round.at(use.get())) {
          const Floats next = sum_of(*param, use->use(), of_rank);
          if (of_use.empty()) of_use.assign(next.size(), 0.0f);
          for (size_t i = 0; i < next.size(); ++i) of_use[i] += next[i];
        }
        if (sum.empty()) sum.resize(of_use.size(), 0.0f);
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] = use == param->uses().front() ? of_use[i] : sum[i] + of_use[i];
      }
      if (sum.empty()) continue;  // a state
      Tensor grad = empty(training.arena, param->shape(), Dtype::f32, Category::gradients);
      copy_from_host(grad, sum.data(), grad.size_bytes());
      done.grads[param.get()] = grad;
      double of_param = 0;
      kernels_of(grad).elementwise.sum_squares(training.arena.queue(), {&grad, 1}, {&of_param, 1});
      squares += of_param;
    }
    done.grad_norm = std::sqrt(squares) / done.losses.tokens;
    return done;
  }

 private:
  void add_rank(Training& training, int64_t step, const LeafRange& micro_batches, double loss_scale,
                DefinedStep& done, std::map<const Weight*, std::vector<std::vector<Floats>>>& of_round) {
    const bool has_micro_batches = micro_batches.first < micro_batches.second;
    const Accumulated sums =
        has_micro_batches ? accumulate(training, config_, step, micro_batches, loss_scale) : Accumulated{};
    done.losses.loss += sums.loss;
    done.losses.tokens += sums.tokens;
    for (Weight* weight : training.model->weights()) {
      Floats grad = has_micro_batches ? to_floats(weight->grad())
                                      : Floats(static_cast<size_t>(weight->param().numel()), 0.0f);
      for (float& value : grad) {
        value /= static_cast<float>(loss_scale);
        done.is_finite = done.is_finite && std::isfinite(value);
      }
      of_round.at(weight).back().push_back(std::move(grad));
    }
  }

  struct Piece {  // of a matrix, or of a stack of them as one: what is compressed on its own
    std::string suffix;
    int64_t first_row, last_row, first_col, last_col;
  };

  // Of a stack of experts each matrix (PowerSGD), or what one of `ep` ranks has; else what one of `tp` ranks has.
  std::vector<Piece> pieces_of(const Param& param) const {
    const auto [count, rows, cols] = matrices_of(param);
    const ParallelConfig& p = config_.parallel;
    const bool by_rows = param.name().find("attn.o.") == std::string::npos &&
                         param.name().find("mlp.down.") == std::string::npos;
    const int64_t parts = count > 1 ? (config_.compression.method == "powersgd" ? count : p.ep) : p.tp;
    const int64_t of_part = ((by_rows ? count * rows : cols) + parts - 1) / parts;
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < parts; ++i) {
      std::string suffix;
      if (parts > 1) suffix = " " + std::to_string(i);
      if (parts > 1 && count == 1) suffix = ", part " + std::to_string(i) + " of " + std::to_string(parts);
      const int64_t first = i * of_part, last = (i + 1) * of_part;
      pieces.push_back(by_rows ? Piece{suffix, first, std::min(last, count * rows), 0, cols}
                               : Piece{suffix, 0, count * rows, first, std::min(last, cols)});
    }
    return pieces;
  }

  Floats sum_of(const Param& param, const std::string& use, const std::vector<Floats>& of_rank) {
    const auto [count, rows, cols] = matrices_of(param);
    const ParallelConfig& p = config_.parallel;
    // With hybrid sharding what is exchanged are sums of sets of ranks, which are neighbours.
    const int64_t experts = count > 1 ? p.ep : 1, set = std::max<int64_t>(1, p.shard_degree / experts);
    const auto x = of_copies(of_copies(of_rank, experts), set);
    Floats sum(x[0].size(), 0.0f);
    const CompressionOptions options = compression_of(config_);
    if (!is_compressed(param, options)) {
      for (const Floats& of : x)
        for (size_t i = 0; i < of.size(); ++i) sum[i] += of[i];
      return sum;
    }
    for (const Piece& piece : pieces_of(param)) {
      const auto for_elements = [&, all = cols](const auto& body) {
        for (int64_t row = piece.first_row; row < piece.last_row; ++row)
          for (int64_t col = piece.first_col; col < piece.last_col; ++col)
            body(static_cast<size_t>(row * all + col));
      };
      std::vector<Floats> parts(x.size());
      for (size_t rank = 0; rank < x.size(); ++rank)
        for_elements([&](size_t at) { parts[rank].push_back(x[rank][at]); });
      const Floats done = definition_.sum(param.name() + " " + use + piece.suffix, parts,
                                          static_cast<size_t>(piece.last_col - piece.first_col),
                                          /*both_ways=*/p.zero_stage == 0 || p.shard_degree > 0);
      size_t next = 0;
      for_elements([&](size_t at) { sum[at] = done[next++]; });
    }
    return sum;
  }

  Config config_;
  CompressionDefinition definition_;
};

// A training in one process: the gradients of each virtual rank one after the other, summed by the definition.
inline DefinedRun define_run(const Config& config, int ranks) {
  Engine engine;
  const auto world = make_single_world();
  TrainingRank rank(one_rank_of(config), *world, engine.arena);
  Training& training = rank.training;
  training.allocate();
  training.model->initialize(config.train.seed);
  DefinedSums sums(config);
  DefinedRun run;
  LossScale scale = first_state(config).loss_scale;
  int64_t updates = 0;
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    run.loss_scales.push_back(scale.scale);
    const DefinedStep done =
        sums.step(training, step, rounds_of(config, training.num_micro_batches, ranks), scale.scale);
    run.losses.push_back(done.losses.loss / done.losses.tokens);
    run.grad_norms.push_back(done.is_finite ? done.grad_norm : std::numeric_limits<double>::quiet_NaN());
    if (!scale.update(done.is_finite)) continue;
    role_of(training).optimizer().step([&](Param& param) -> const Tensor& { return done.grads.at(&param); },
                                       {.update = ++updates,
                                        .lr = schedule_of(config).at(step),
                                        .grad_scale = done.clip(config) / done.losses.tokens});
  }
  run.weights = weights_of(*training.model);
  return run;
}

}  // namespace athanor::tests
