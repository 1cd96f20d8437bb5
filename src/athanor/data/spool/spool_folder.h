// The folder in which a text without end becomes training data: RUN/spool/CHANNEL.
//
//   window-000000.bin .idx .text_bytes [.loss_mask]   token files (indexed_dataset.h): a window of the channel's sequences each
//   window-000000.json                                written last: the window is whole, and where the next one begins
//   end.json                                          the text has ended: windows and sequences in all
//   input-000000000000                                what was read from standard input (captured_input.h)
//   files.json                                        the files of a folder in the order in which they were taken (followed_folder.h)
//   spool.json                                        what windows are made of; shape.lock is held while it is opened
//   lock                                              held by the process that writes here (spool.h)
//
// The text is one long stream of tokens, as token files of documents are. Window w holds the sequences [w W, (w + 1) W), that is
// the tokens [w W T, (w + 1) W T]: W = data.shuffle_window sequences of T = data.seq_len tokens, and one more, which the next
// window has again as its first. The last window may have fewer sequences. Which bytes a window has depends on the documents
// alone, not on when they came or how often the writer was killed.
//
// Thread rule: plain data, pure functions. Errors: Error naming the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/base/file.h"

namespace athanor::data::spool {

// Where a document begins in its source, and a token in the document.
struct SpoolPosition {
  int64_t source = 0;  // standard input: the byte where a piece of it begins; a folder: the number of a file
  int64_t record = 0;  // of that piece or file, from 0
  int64_t token = 0;   // of that record
  bool operator==(const SpoolPosition&) const = default;
};

struct SpoolWindow {
  int64_t sequences = 0;
  SpoolPosition next = {};  // of the token that the next window begins with
  bool operator==(const SpoolWindow&) const = default;
};

struct SpoolEnd {
  int64_t windows = 0, sequences = 0;
  bool operator==(const SpoolEnd&) const = default;
};

// What windows are made of; a spool of another shape is refused.
struct SpoolShape {
  int64_t window = 1024, seq_len = 256;
  std::string tokenizer_hash = {},
              source = {};  // of the tokenizer; "-" or the folder, and how its records are read
  int64_t tokens() const { return window * seq_len; }
  bool operator==(const SpoolShape&) const = default;
};

std::string window_prefix(const std::string& folder, int64_t window);
std::optional<int64_t> window_of(const std::string& file_name);  // "window-000003.bin" is of window 3
std::optional<SpoolWindow> read_window(Env& env, const std::string& folder,
                                       int64_t window);  // none: not whole
void write_window(Env& env, const std::string& folder, int64_t window, const SpoolWindow& written);
std::optional<SpoolEnd> read_end(Env& env, const std::string& folder);
void write_end(Env& env, const std::string& folder, const SpoolEnd& end);

// Makes the folder, or holds the shape of the one that is there against `shape`: ConfigError naming what differs.
void open_spool_folder(Env& env, const std::string& folder, const SpoolShape& shape);

}  // namespace athanor::data::spool
