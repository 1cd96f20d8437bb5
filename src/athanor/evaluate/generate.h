// Writes text: continues a prompt token by token with a key/value cache.
//
//   generate(model, arena, prompt_ids, options, [&](int32_t id) { show(id); return true; });
//
// Random choices are drawn by address (seed, number of the token): the same prompt, options and seed give the
// same text. When the context is full, the newer half of it is kept and read again, so text may grow past
// max_position_embeddings. Thread rule: one thread per model. Errors: an empty prompt, or ids outside the vocabulary.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/evaluate/sampling.h"
#include "athanor/models/model.h"

namespace athanor {

struct GenerateOptions {
  int64_t max_tokens = 200;
  uint64_t seed = 1;
  SamplingOptions sampling;
  std::vector<int32_t> stop_ids;  // the text ends before any of these
  int64_t vocab_size = 0;         // only ids below are drawn (the tokenizer's); 0: the model's
  int64_t context = 0;            // positions that are kept, at most; 0: max_position_embeddings
  // The address of the random choices: (seed, stream, number of the token, step).
  std::string stream = "generate";
  uint64_t step = 0;
  // Called before the context is full and its newer half is read again; `made` ids are there, `kept` are read.
  std::function<void(size_t made, size_t kept)> on_shift;
};

// Calls on_token with each new id as soon as it is known; it returns false to stop. Returns the new ids.
std::vector<int32_t> generate(const Model& model, Arena& arena, std::span<const int32_t> prompt,
                              const GenerateOptions& options, const std::function<bool(int32_t)>& on_token);

}  // namespace athanor
