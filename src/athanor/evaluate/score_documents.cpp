#include "athanor/evaluate/score_documents.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::evaluate {

double DocumentScore::loss() const {
  return tokens > 0 ? loss_sum / static_cast<double>(tokens) : 0.0;
}

double DocumentScore::perplexity() const {
  return std::exp(loss());
}

std::optional<double> DocumentScore::bits_per_byte() const {
  if (bytes == 0) return std::nullopt;
  return loss_sum / static_cast<double>(bytes) / std::log(2.0);
}

void DocumentScore::add(const DocumentScore& other) {
  bytes += other.bytes;
  tokens += other.tokens;
  loss_sum += other.loss_sum;
}

DocumentScorer::DocumentScorer(const Model& model, Arena& arena, DocumentScorerOptions options,
                               std::function<void(const DocumentScore&)> done)
    : model_(model), arena_(arena), options_(std::move(options)), done_(std::move(done)) {
  check_predicts_next(model);
  const int64_t longest = model.config().max_position_embeddings;
  check(options_.context >= 1 && options_.context <= longest,
        "context: got {} tokens, expected 1 to the model's max_position_embeddings {}", options_.context,
        longest);
  if (options_.stride == 0) options_.stride = options_.context;
  check(options_.stride >= 1 && options_.stride <= options_.context,
        "stride: got {} tokens, expected 1 to the context {}", options_.stride, options_.context);
  check(options_.batch >= 1, "evaluate: got a batch of {}, expected at least 1", options_.batch);
}

void DocumentScorer::add(DocumentScore place, std::span<const int32_t> ids) {
  std::vector<int32_t> sequence = options_.before;
  sequence.insert(sequence.end(), ids.begin(), ids.end());
  for (const int32_t id : sequence)
    check(id >= 0 && id < model_.config().vocab_size, "'{}' line {}: id {}, expected below vocab_size {}",
          place.file, place.line, id, model_.config().vocab_size);
  const size_t number = handed_out_ + documents_.size();
  documents_.push_back({std::move(place), 0});

  const auto last = static_cast<int64_t>(sequence.size()) - 1;  // the last target
  int64_t next =
      std::max<int64_t>(1, static_cast<int64_t>(options_.before.size()));  // the first not predicted
  for (int64_t end = std::min(last, options_.context); next <= last;
       end = std::min(last, end + options_.stride)) {
    if (end < next) continue;  // `before` alone is longer than the window
    const int64_t begin = std::max<int64_t>(0, end - options_.context);
    ++documents_.back().windows;
    windows_.push_back({number, {sequence.begin() + begin, sequence.begin() + end + 1}, end - next + 1});
    next = end + 1;
    if (static_cast<int64_t>(windows_.size()) == options_.batch) run_windows();
  }
  hand_out();
}

void DocumentScorer::finish() {
  if (!windows_.empty()) run_windows();
  hand_out();
}

void DocumentScorer::run_windows() {
  size_t length = 0;
  for (const Window& window : windows_) length = std::max(length, window.ids.size() - 1);
  const auto rows = static_cast<int64_t>(windows_.size()), width = static_cast<int64_t>(length);
  Tensor inputs = empty(arena_, {rows, width}, Dtype::i32, Category::activations);
  Tensor targets = empty(arena_, {rows, width}, Dtype::i32, Category::activations);
  std::vector<int32_t> in(windows_.size() * length, 0), out(in);
  for (size_t w = 0; w < windows_.size(); ++w) {
    const std::vector<int32_t>& ids = windows_[w].ids;
    std::copy(ids.begin(), ids.end() - 1, in.begin() + static_cast<std::ptrdiff_t>(w * length));
    std::copy(ids.begin() + 1, ids.end(), out.begin() + static_cast<std::ptrdiff_t>(w * length));
  }
  copy_from_host(inputs, in.data(), inputs.size_bytes());
  copy_from_host(targets, out.data(), targets.size_bytes());
  Tape tape({.num_sequences = rows, .seq_len = width, .document_starts = {}});
  const Tensor losses = model_.loss(tape, {.ids = inputs, .targets = targets}, {}).value;
  std::vector<float> of_token(static_cast<size_t>(losses.numel()));
  copy_to_host(of_token.data(), losses, losses.size_bytes());

  for (size_t w = 0; w < windows_.size(); ++w) {
    const Window& window = windows_[w];
    Waiting& document = documents_[window.document - handed_out_];
    const size_t end = w * length + window.ids.size() - 1;
    for (size_t t = end - static_cast<size_t>(window.counted); t < end; ++t)
      document.score.loss_sum += static_cast<double>(of_token[t]);
    document.score.tokens += window.counted;
    --document.windows;
  }
  windows_.clear();
}

void DocumentScorer::hand_out() {
  // The one that is being added may have more windows to come, but hand_out() is not called before they are there.
  for (; !documents_.empty() && documents_.front().windows == 0; ++handed_out_) {
    done_(documents_.front().score);
    documents_.pop_front();
  }
}

}  // namespace athanor::evaluate
