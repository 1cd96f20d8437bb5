// Generates text: continues a prompt token by token with a key/value cache.
//
//   generate(model, arena, prompt_ids, options, [&](int32_t id) { show(id); return true; });
//
// Random numbers are a function of (seed, stream, number of the token, step), so the same prompt and options give the
// same text. When the context is full, its newer half is kept and fed to the model again, so text may grow past
// max_seq_len. Thread rule: one thread per model. Errors: Error for an empty prompt or ids outside the vocabulary.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/evaluate/sampling.h"
#include "athanor/models/model.h"

namespace athanor::evaluate {

struct GenerateOptions {
  int64_t max_tokens = 200;
  uint64_t seed = 1;
  SamplingOptions sampling;
  std::vector<int32_t> stop_ids;  // the text ends before any of these
  int64_t vocab_size = 0;         // only ids below it are drawn (the tokenizer's size); 0: the model's
  int64_t context = 0;            // the most positions in the key/value cache; 0: max_seq_len
  // Name and step of the random stream (base/philox.h).
  std::string stream = "generate";
  uint64_t step = 0;
  // Called when the context is full, before `kept` ids are fed again; `made` ids have been generated so far.
  std::function<void(size_t made, size_t kept)> on_shift;
};

// Calls on_token with each new id; on_token returns false to stop. Returns the new ids.
std::vector<int32_t> generate(const Model& model, Arena& arena, std::span<const int32_t> prompt,
                              const GenerateOptions& options, const std::function<bool(int32_t)>& on_token);

}  // namespace athanor::evaluate
