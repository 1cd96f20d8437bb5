#include "athanor/evaluate/perplexity.h"

#include <algorithm>
#include <cmath>

#include "athanor/engine/micro_batch.h"

namespace athanor::evaluate {
namespace {

// What windows of one length are made of; `starts` may be empty.
struct Windows {
  std::vector<int32_t> inputs, targets, starts, ends = {};  // [batch,length]
};

HeldOutBatch to_batch(Arena& arena, const Windows& windows, int64_t batch, int64_t length) {
  const auto tensor = [&](const std::vector<int32_t>& values) {
    return values.empty() ? Tensor{} : to_tensor(arena, values, batch, length);
  };
  return {.inputs = {.ids = tensor(windows.inputs), .targets = tensor(windows.targets)},
          .document_starts = tensor(windows.starts),
          .document_ends = tensor(windows.ends)};
}

double sum_losses(const Model& model, const HeldOutBatch& batch) {
  Tape tape({.num_sequences = batch.inputs.ids.dim(0),
             .seq_len = batch.inputs.ids.dim(1),
             .document_starts = batch.document_starts,
             .document_ends = batch.document_ends});
  return sum_of_tokens(model.loss(tape, batch.inputs, {}).value);
}

struct Unit {  // consecutive windows of one length
  int64_t first_window, num_windows, targets;
};

std::vector<Unit> cut(const Channel& channel, const EvaluateOptions& options) {
  std::vector<Unit> units;
  int64_t tokens = 0;
  for (int64_t w = 0; w < channel.num_valid_windows(); ++w) {
    int64_t targets = channel.valid_window(w).targets;
    if (options.max_tokens > 0) targets = std::min(targets, options.max_tokens - tokens);
    if (targets == 0) break;
    tokens += targets;
    if (units.empty() || units.back().targets != targets || units.back().num_windows == options.batch)
      units.push_back({w, 0, targets});
    ++units.back().num_windows;
  }
  return units;
}

}  // namespace

double ChannelScore::perplexity() const {
  return std::exp(loss);
}

std::optional<double> ChannelScore::bits_per_byte() const {
  if (!bytes || *bytes == 0) return std::nullopt;
  return loss * static_cast<double>(tokens) / static_cast<double>(*bytes) / std::log(2.0);
}

std::optional<int64_t> Evaluation::bytes() const {
  int64_t total = 0;
  for (const ChannelScore& score : channels) {
    if (!score.bytes) return std::nullopt;
    total += *score.bytes;
  }
  return total;
}

std::optional<double> Evaluation::bits_per_byte() const {
  return ChannelScore{.name = "all", .tokens = tokens, .loss = loss, .bytes = bytes()}.bits_per_byte();
}

HeldOutPasses held_out_passes(const Model& model) {
  return {.sum_losses = [&model](std::span<const HeldOutBatch> batches) {
    return std::vector<double>{sum_losses(model, batches.front())};
  }};
}

Evaluation evaluate_channels(const HeldOutPasses& passes, Arena& arena, std::span<const Channel> channels,
                             Group& group, const EvaluateOptions& options) {
  check(options.batch >= 1, "evaluate: got a batch of {}, expected at least 1", options.batch);
  Evaluation evaluation;
  double total = 0.0;
  for (const Channel& channel : channels) {
    const std::vector<Unit> units = cut(channel, options);
    // Batches of other ranks are zero here. Adding zeros is exact, so the all-reduce works as a gather.
    std::vector<double> sums(units.size(), 0.0);
    ChannelScore score{.name = channel.name(), .tokens = 0, .loss = 0.0, .bytes = int64_t{0}};
    const auto windows_of = [&](const Unit& unit) {
      const auto length = static_cast<size_t>(unit.targets);
      std::vector<int32_t> ids(length + 1);
      Windows windows;
      windows.starts.resize(channel.tells_documents_apart() ? static_cast<size_t>(unit.num_windows) * length
                                                            : 0);
      for (int64_t w = 0; w < unit.num_windows; ++w) {
        const int64_t first = channel.valid_window(unit.first_window + w).first;
        const size_t row = static_cast<size_t>(w) * length;
        channel.read_valid(first, ids);
        windows.inputs.insert(windows.inputs.end(), ids.begin(), ids.end() - 1);
        windows.targets.insert(windows.targets.end(), ids.begin() + 1, ids.end());
        channel.mask_valid_targets(first, std::span(windows.targets).subspan(row, length));
        if (!windows.starts.empty())
          channel.valid_document_starts(first, std::span(windows.starts).subspan(row, length));
        if (const Objective* objective = channel.objective())
          objective->apply({channel.name(), SequencePlace::kHeldOut, unit.first_window + w},
                           {std::span(windows.inputs).subspan(row, length),
                            std::span(windows.targets).subspan(row, length), unit.targets});
      }
      if (channel.objective() != nullptr && !windows.starts.empty())
        windows.ends = document_ends_of(windows.starts, unit.targets);
      return windows;
    };
    std::vector<size_t> mine;
    for (size_t u = 0; u < units.size(); ++u)
      if (static_cast<int64_t>(u) % group.size() == group.rank()) mine.push_back(u);
    if (channel.objective() !=
        nullptr) {  // what it asks for is known once it was asked, and stands for no text
      score.bytes = std::nullopt;
      for (const Unit& unit : units)
        score.tokens += std::ranges::count_if(windows_of(unit).targets, [](int32_t id) { return id >= 0; });
    } else if (!units.empty()) {  // windows follow one another without a gap
      const int64_t first = channel.valid_window(0).first + 1;
      const Unit& end = units.back();
      const int64_t last =
          channel.valid_window(end.first_window + end.num_windows - 1).first + 1 + end.targets;
      score.tokens = channel.count_valid(first, last);
      score.bytes = channel.valid_bytes_of(first, last);
    }
    const size_t counted = mine.size();
    const auto last_round = static_cast<int64_t>(units.size()) % group.size();
    if (options.equal_passes && last_round != 0 && group.rank() >= last_round)
      mine.push_back(units.size() - 1);
    const auto most = static_cast<size_t>(passes.at_a_time);
    const size_t of_any_rank =
        (units.size() + static_cast<size_t>(group.size()) - 1) / static_cast<size_t>(group.size());
    for (size_t first = 0; first < of_any_rank; first += most) {
      if (options.give_up && options.give_up()) {
        evaluation.given_up = true;
        return evaluation;
      }
      if (first >= mine.size()) continue;
      std::vector<HeldOutBatch> batches;
      for (size_t i = first; i < std::min(first + most, mine.size()); ++i)
        batches.push_back(
            to_batch(arena, windows_of(units[mine[i]]), units[mine[i]].num_windows, units[mine[i]].targets));
      const std::vector<double> found = passes.sum_losses(batches);
      for (size_t i = 0; i < found.size() && first + i < counted; ++i) sums[mine[first + i]] = found[i];
    }
    (passes.sums == nullptr ? group : *passes.sums)
        .all_reduce(sums.data(), static_cast<int64_t>(sums.size()), Dtype::f64,
                    "validation " + channel.name())
        .wait();
    double sum = 0.0;
    for (const double value : sums) sum += value;
    if (score.tokens > 0) score.loss = sum / static_cast<double>(score.tokens);
    total += sum;
    evaluation.tokens += score.tokens;
    evaluation.channels.push_back(std::move(score));
  }
  if (evaluation.tokens > 0) evaluation.loss = total / static_cast<double>(evaluation.tokens);
  return evaluation;
}

void check_predicts_next(const Model& model) {
  if (model.config().is_encoder())
    throw Error(fmt::format("evaluate: got a {}, expected a decoder: an encoder predicts no next token",
                            model.config().model_type),
                "its masked loss is that of held-out text: evaluate RUN --config FILE.toml");
}

IdsScore score_ids(const Model& model, Arena& arena, const std::vector<std::vector<int32_t>>& sequences) {
  check_predicts_next(model);
  IdsScore score;
  double total = 0.0;
  const ModelConfig& config = model.config();
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto& ids = sequences[s];
    const auto length = static_cast<int64_t>(ids.size()) - 1;
    check(length <= config.max_position_embeddings,
          "ids: sequence {} has {} ids, expected at most {} (max_position_embeddings + 1)", s, ids.size(),
          config.max_position_embeddings + 1);
    for (size_t i = 0; i < ids.size(); ++i)
      check(ids[i] >= 0 && ids[i] < config.vocab_size,
            "ids: sequence {} holds id {} at {}, expected below vocab_size {}", s, ids[i], i,
            config.vocab_size);
    if (length < 1) continue;
    const Windows window = {{ids.begin(), ids.end() - 1}, {ids.begin() + 1, ids.end()}, {}};
    total += sum_losses(model, to_batch(arena, window, 1, length));
    score.tokens += length;
  }
  check(score.tokens > 0, "ids: got {} sequences with nothing to predict, expected one of two or more ids",
        sequences.size());
  score.loss = total / static_cast<double>(score.tokens);
  return score;
}

}  // namespace athanor::evaluate
