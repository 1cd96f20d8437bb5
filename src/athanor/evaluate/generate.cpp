#include "athanor/evaluate/generate.h"

#include <algorithm>

#include "athanor/base/philox.h"

namespace athanor::evaluate {
namespace {

// Feeds ids to the model and returns the logits after the last one.
std::vector<float> feed(const Model& model, Arena& arena, std::span<const int32_t> ids,
                        std::vector<KvCache>& caches) {
  Tensor input = empty(arena, {1, static_cast<int64_t>(ids.size())}, Dtype::i32, Category::activations);
  copy_from_host(input, ids.data(), ids.size_bytes());
  Tape tape(PassContext{});
  const Tensor logits = model.next_logits(tape, input, caches);
  std::vector<float> values(static_cast<size_t>(logits.numel()));
  copy_to_host(values.data(), logits, logits.size_bytes());
  return values;
}

}  // namespace

std::vector<int32_t> generate(const Model& model, Arena& arena, std::span<const int32_t> prompt,
                              const GenerateOptions& options, const std::function<bool(int32_t)>& on_token) {
  const ModelConfig& config = model.config();
  check(!prompt.empty(), "generate: the prompt is empty, expected at least one token");
  for (const int32_t id : prompt)
    check(id >= 0 && id < config.vocab_size, "generate: the prompt holds id {}, expected below vocab_size {}",
          id, config.vocab_size);
  const auto capacity =
      static_cast<size_t>(options.context > 0 ? std::min(options.context, config.max_position_embeddings)
                                              : config.max_position_embeddings);
  const auto newest = [](const std::vector<int32_t>& ids, size_t count) {
    return std::vector<int32_t>(ids.end() - static_cast<std::ptrdiff_t>(std::min(count, ids.size())),
                                ids.end());
  };
  std::vector<int32_t> all(prompt.begin(), prompt.end()), made;
  std::vector<KvCache> caches = model.make_caches(static_cast<int64_t>(capacity));
  // What the model has not read yet; a prompt longer than the context loses its beginning.
  std::vector<int32_t> unread = newest(all, capacity);
  size_t in_cache = 0;
  const RandomStream stream(options.seed, options.stream);
  const int64_t classes =
      options.vocab_size > 0 ? std::min(options.vocab_size, config.vocab_size) : config.vocab_size;
  while (static_cast<int64_t>(made.size()) < options.max_tokens) {
    if (in_cache + unread.size() > capacity) {
      unread = newest(all, std::max<size_t>(1, capacity / 2));
      for (KvCache& cache : caches) cache.length = 0;
      in_cache = 0;
      if (options.on_shift) options.on_shift(made.size(), unread.size());
    }
    std::vector<float> logits = feed(model, arena, unread, caches);
    in_cache += unread.size();
    logits.resize(static_cast<size_t>(classes));
    const int32_t id = sample_token(logits, options.sampling,
                                    static_cast<double>(stream.uniform(made.size(), options.step)));
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) break;
    made.push_back(id);
    all.push_back(id);
    unread = {id};
    if (!on_token(id)) break;
  }
  return made;
}

}  // namespace athanor::evaluate
