// Standard input, kept in a spool folder before anything is made of it, so that a process that is killed has lost none of it:
// the system itself moves bytes from a pipe into the file (splice), and those that are not there yet are still in the pipe for
// whoever goes on.
//
//   CapturedInput input(env, folder, STDIN_FILENO, {.text_key = "text"}, /*first_byte=*/position.source);
//
// JSON lines, or plain text in which a line that holds only a separator ends a document; the first byte that is no space says
// which. A record is read once its last line is there. A file as standard input is read from where the last process stopped. Of a
// terminal, what was read and not yet written is lost with the process. Files of about 64 MiB, removed once their text stands in
// windows. Thread rule: one thread, and one process at a time. Errors: ConfigError for compressed or other binary input and for a
// JSON array; Error for a record above 1 GiB, IoError for a disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/spool/spool_source.h"
#include "athanor/documents/document_reader.h"

namespace athanor::data::spool {

class CapturedInput final : public SpoolSource {
 public:
  CapturedInput(Env& env, std::string folder, int fd, ReadOptions how, int64_t first_byte);
  ~CapturedInput() override;
  CapturedInput(const CapturedInput&) = delete;
  CapturedInput& operator=(const CapturedInput&) = delete;

  Got read(const TakeRecord& take) override;
  void done_until(const SpoolPosition& position) override;

 private:
  void open_newest();
  bool capture();       // false: the input has ended
  int64_t move_some();  // bytes that came; 0: the end; -1: none are there now
  void begin_file();    // with what no record is made of yet
  size_t whole_records(std::string_view text);
  void find_out(std::string_view text);

  Env& env_;
  const std::string folder_;
  const int fd_;
  ReadOptions how_;
  std::vector<int64_t> files_;  // the first byte of each, in order
  int file_ = -1;               // the newest, open
  int64_t size_ = 0;            // bytes in it
  int64_t at_;                  // the first byte that is not read
  std::string
      unread_;  // from at_ on; no more of it are lines than what was searched, the last of which begins here:
  size_t searched_ = 0, line_ = 0;
  bool is_json_ = false, is_known_ = false, has_ended_ = false;
};

}  // namespace athanor::data::spool
