// Cuts the stream of tokens of a spool into windows (spool_folder.h).
//
//   WindowWriter writer(env, folder, shape, tokenizer.vocab_size());
//   read_from(writer.position());                      // where a writer before this one stopped
//   writer.add(document, {.source = 0, .record = 17});  // in order, whole; the tokens before position() are passed over
//   writer.end();                                      // the text has ended
//
// A window is whole on disk, and kept in a power cut, before add() returns from its last token. A writer that dies leaves an
// unfinished one, which the next writer writes again with the same bytes. Documents of no token are passed over. Thread rule:
// one thread, and one writer of a folder. Errors: those of IndexedWriter; Error for text that ends before its first sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "athanor/data/indexed_dataset.h"
#include "athanor/data/instructions/masked_ids.h"
#include "athanor/data/spool/spool_folder.h"

namespace athanor::data::spool {

class WindowWriter {
 public:
  // `next_window` is asked before a window is begun, and returns when it may be: readers are not that far behind any more.
  WindowWriter(
      Env& env, std::string folder, const SpoolShape& shape, int64_t vocab_size,
      std::function<void(int64_t window)> next_window = [](int64_t) {});

  const SpoolPosition& position() const { return position_; }    // of the next token
  const SpoolPosition& committed() const { return committed_; }  // of the first that is in no whole window
  int64_t num_windows() const { return num_windows_; }           // whole ones
  bool has_ended() const { return has_ended_; }

  void add(const MaskedIds& document, SpoolPosition at);
  void end();

 private:
  int64_t room() const { return shape_.tokens() + 1 - tokens_; }  // of the window that is written
  void begin_window();
  void put(const MaskedIds& document, int64_t first, int64_t last);
  void finish_window(int64_t sequences);

  Env& env_;
  const std::string folder_;
  const SpoolShape shape_;
  const int64_t vocab_size_;
  const std::function<void(int64_t)> next_window_;
  int64_t num_windows_ = 0, tokens_ = 0;  // of the window that is written
  SpoolPosition position_, committed_;
  std::unique_ptr<IndexedWriter> writer_;  // null: no window is begun
  bool has_ended_ = false;
};

}  // namespace athanor::data::spool
