// How well a model predicts held-out text.
//
//   const Evaluation e = evaluate_channels(model, arena, dataset.channels, group, {.batch = 4});
//   e.channels[0].loss, .perplexity(), .bits_per_byte()
//
// Loss is the mean natural-log loss over all predicted tokens. Every held-out token of a channel is predicted
// once, from at most seq_len tokens before it (data/channel.h). The windows are shared out over the ranks in
// units of `batch` windows and their sums are added in the order of the windows, so any number of ranks gets
// the same bits. Thread rule: one thread per model. Errors: those of the data, the model and the group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/data/channel.h"
#include "athanor/models/model.h"

namespace athanor {

struct ChannelScore {
  std::string name;
  int64_t tokens = 0;            // predicted
  double loss = 0.0;             // nats per token
  std::optional<int64_t> bytes;  // of the text those tokens stand for; none without a tokenizer
  double perplexity() const;
  std::optional<double> bits_per_byte() const;
};

struct Evaluation {
  std::vector<ChannelScore> channels;
  int64_t tokens = 0;
  double loss = 0.0;                     // over all tokens of all channels
  bool given_up = false;                 // what there is of it is not to be used
  std::optional<int64_t> bytes() const;  // of all channels; none where one has none
  std::optional<double> bits_per_byte() const;
};

// Windows of one length, as a forward pass takes them.
struct HeldOutBatch {
  Tensor inputs, targets;       // [b,T] i32
  Tensor document_starts = {};  // [b,T] i32, where documents are told apart
};

// Who computes the losses where it is not one model on this rank: the stages of a pipeline.
struct HeldOutPasses {
  std::function<std::vector<double>(std::span<const HeldOutBatch>)> sum_losses;  // of each; elsewhere zeros
  int at_a_time = 1;
  Group* sums = nullptr;  // adds up what all ranks have
};

struct EvaluateOptions {
  int64_t batch = 4;       // windows in one forward pass
  int64_t max_tokens = 0;  // per channel; 0: all held-out tokens
  // The ranks make equally many passes, a rank that has run out repeats one for nothing: needed where a pass
  // gathers parameters (ZeRO 3), which all ranks must do together.
  bool equal_passes = false;
  const HeldOutPasses* passes = nullptr;  // null: the model's own
  // Asked before each pass, by all ranks equally often: true, on all of them, gives the evaluation up.
  std::function<bool()> give_up = {};
};

// Of the losses [n] f32 of a pass.
double sum_of_tokens(const Tensor& losses);

Evaluation evaluate_channels(const Model& model, Arena& arena, std::span<const Channel> channels,
                             Group& group, const EvaluateOptions& options);

struct IdsScore {
  int64_t tokens = 0;  // predicted: one less than the ids of each sequence
  double loss = 0.0;   // mean over them
};
// Sequences of ids, each from its own start. Error naming sequence and limit for ids outside the vocabulary,
// for a sequence longer than max_position_embeddings + 1 and where nothing is left to predict.
IdsScore score_ids(const Model& model, Arena& arena, const std::vector<std::vector<int32_t>>& sequences);

}  // namespace athanor
