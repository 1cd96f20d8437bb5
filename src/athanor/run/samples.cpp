#include "athanor/run/samples.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/config/refuse.h"
#include "athanor/evaluate/generate.h"

namespace athanor::run {

SampleWriter::SampleWriter(const Config& config, std::shared_ptr<const Tokenizer> tokenizer)
    : config_(config.train), context_(config.data.seq_len), tokenizer_(std::move(tokenizer)) {
  if (config_.sample_every == 0) return;
  if (tokenizer_ == nullptr)
    refuse(config, "train.sample_every", "set data.tokenizer",
           "got {} without data.tokenizer, expected 0: ids alone are no text", config_.sample_every);
  std::vector<std::string> texts = config_.sample_prompts;
  if (texts.empty()) texts.emplace_back();
  for (const std::string& text : texts) {
    std::vector<int32_t> ids = tokenizer_->encode(text);
    const auto end = tokenizer_->end_of_text();
    if (ids.empty()) ids.push_back(end.value_or(0));  // the start of a document
    require(static_cast<int64_t>(ids.size()) <= context_, config, "train.sample_prompts",
            "got a prompt of {} tokens, expected at most data.seq_len = {}", ids.size(), context_);
    prompts_.push_back({text, std::move(ids)});
  }
}

bool SampleWriter::due(int64_t step) const {
  return config_.sample_every > 0 && (step % config_.sample_every == 0 || step == config_.steps);
}

std::vector<TextSample> SampleWriter::write(const Model& model, Arena& arena, int64_t step) const {
  std::vector<TextSample> samples;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    GenerateOptions options;
    options.max_tokens = config_.sample_tokens;
    options.seed = config_.seed;
    options.sampling.temperature = config_.sample_temperature;
    options.vocab_size = tokenizer_->vocab_size();
    options.context = context_;
    options.stream = fmt::format("sample {}", i);
    options.step = static_cast<uint64_t>(step);
    std::vector<int32_t> ids = generate(model, arena, prompts_[i].ids, options, [](int32_t) { return true; });
    if (const auto end = tokenizer_->end_of_text())
      ids.erase(std::find(ids.begin(), ids.end(), *end), ids.end());
    samples.push_back({.step = step, .prompt = prompts_[i].text, .text = tokenizer_->decode(ids)});
  }
  return samples;
}

}  // namespace athanor::run
