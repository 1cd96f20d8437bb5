// Text that a model writes while it trains (train.sample_every), so that a person sees what a loss means.
//
//   const SampleWriter samples(config, data.tokenizer);
//   if (samples.due(step)) for (const TextSample& sample : samples.write(model, arena, step)) show(sample);
//
// Random choices have an address of their own, (seed, "sample" and the prompt's number, step, token): training draws
// nothing else because of them, and a resumed run writes the same text. All ranks write the same sample, each for itself:
// where a pass is a collective (parameters that are gathered, experts of other ranks) they meet in it, since a sample always
// has all of its tokens; what follows the end of a document is not shown. Layouts in which no rank has the whole model are
// refused with the config (config/validate_samples.cpp). Thread rule: one thread per model. Errors: ConfigError without a
// tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/models/model.h"
#include "athanor/observe/sample_log.h"
#include "athanor/text/tokenizer.h"

namespace athanor {

class SampleWriter {
 public:
  SampleWriter(const Config& config, std::shared_ptr<const Tokenizer> tokenizer);

  bool due(int64_t step) const;  // after this step, and after the last
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

}  // namespace athanor
