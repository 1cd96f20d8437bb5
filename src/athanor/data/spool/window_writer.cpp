#include "athanor/data/spool/window_writer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data::spool {

WindowWriter::WindowWriter(Env& env, std::string folder, const SpoolShape& shape, int64_t vocab_size,
                           std::function<void(int64_t window)> next_window)
    : env_(env),
      folder_(std::move(folder)),
      shape_(shape),
      vocab_size_(vocab_size),
      next_window_(std::move(next_window)) {
  while (const auto window = read_window(env_, folder_, num_windows_)) {
    position_ = committed_ = window->next;
    ++num_windows_;
  }
  has_ended_ = read_end(env_, folder_).has_value();
}

void WindowWriter::begin_window() {
  next_window_(num_windows_);
  writer_ = std::make_unique<IndexedWriter>(env_, window_prefix(folder_, num_windows_), vocab_size_);
  tokens_ = 0;
}

// Tokens [first, last) of a document, as a document of the window. The bytes of its text are those of the part by its share.
void WindowWriter::put(const MaskedIds& document, int64_t first, int64_t last) {
  const auto size = std::ssize(document.ids);
  const auto of = [&](const auto& all) {
    return all.empty()
               ? std::span(all)
               : std::span(all).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
  };
  const int64_t bytes = document.text_bytes * last / size - document.text_bytes * first / size;
  writer_->add_document(of(document.ids), bytes, of(document.loss_mask));
  tokens_ += last - first;
}

void WindowWriter::add(const MaskedIds& document, SpoolPosition at) {
  check(!has_ended_, "'{}': the text has ended, expected no more documents", folder_);
  const auto place = [](const SpoolPosition& of) { return std::pair(of.source, of.record); };
  if (place(at) < place(position_)) return;
  const auto size = std::ssize(document.ids);
  int64_t token = place(at) == place(position_) ? position_.token : 0;
  check(token <= size, "'{}': record {} of {} has {} tokens, but had more before", folder_, at.record,
        at.source, size);
  while (token < size) {
    if (writer_ == nullptr) begin_window();
    const int64_t last = std::min(size, token + room());
    put(document, token, last);
    // The last token of a window is the first of the next one.
    position_ = {at.source, at.record, room() == 0 ? last - 1 : last};
    if (room() == 0) finish_window(shape_.window);
    token = position_.token;
  }
}

void WindowWriter::finish_window(int64_t sequences) {
  writer_->finish();
  writer_.reset();
  write_window(env_, folder_, num_windows_, {.sequences = sequences, .next = position_});
  ++num_windows_;
  committed_ = position_;
}

void WindowWriter::end() {
  if (has_ended_) return;
  const int64_t whole = num_windows_;
  const int64_t rest = writer_ == nullptr ? 0 : std::max<int64_t>(tokens_ - 1, 0) / shape_.seq_len;
  if (whole == 0 && rest == 0)
    throw Error(
        fmt::format("'{}': the text has ended after {} tokens, expected at least {} (data.seq_len + 1)",
                    folder_, writer_ == nullptr ? 0 : tokens_, shape_.seq_len + 1));
  if (rest > 0) finish_window(rest);
  writer_.reset();
  write_end(env_, folder_, {.windows = num_windows_, .sequences = whole * shape_.window + rest});
  has_ended_ = true;
}

}  // namespace athanor::data::spool
