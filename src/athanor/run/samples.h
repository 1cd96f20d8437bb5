// Text samples that a model generates while it trains (train.sample_every), to show what a loss means.
//
//   const SampleWriter samples(config, data.tokenizer);
//   if (samples.due(step)) for (const TextSample& sample : samples.write(model, arena, step)) show(sample);
//
// Random choices have their own addresses (seed, "sample" and the prompt's number, step, token), so samples do not
// change the training, and a resumed run writes the same text. Every rank generates the same sample, and always all of
// its tokens, since a forward pass may be a collective (ZeRO-3's all-gather of parameters, expert parallelism). Text
// after the end of a document is generated but not shown. Layouts in which no rank has the whole model are refused with
// the config (config/validate_samples.cpp). Errors: ConfigError without a tokenizer. Thread rule: one thread per model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/models/model.h"
#include "athanor/observe/sample_log.h"
#include "athanor/text/tokenizer.h"

namespace athanor::run {

class SampleWriter {
 public:
  SampleWriter(const Config& config, std::shared_ptr<const Tokenizer> tokenizer);

  bool due(int64_t step) const;  // whether samples are written after `step`; true for the last step
  std::vector<TextSample> write(const Model& model, Arena& arena, int64_t step) const;

 private:
  struct Prompt {
    std::string text;
    std::vector<int32_t> ids;
  };

  const TrainConfig config_;
  int64_t context_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Prompt> prompts_;
};

}  // namespace athanor::run
