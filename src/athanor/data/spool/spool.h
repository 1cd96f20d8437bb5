// The spool of a channel whose text has no end yet: what comes in is made into windows of sequences (spool_folder.h) while ranks
// train on those that are there.
//
//   Spool spool(env, tokenizer, {.folder = "runs/a/spool/live", .path = "-", .shape = {.window = 1024, .seq_len = 256}});
//   if (spool.has(3)) read(*spool.window(3));              // whole, and it is known how many sequences it has
//
// Any number of processes may have a Spool of one folder. The one that holds its lock writes, in a thread of its own; where that
// process dies, another goes on. A writer is at most kWindowsAhead windows ahead of what has() was asked for. Thread rule: any
// thread. Errors: what the writing thread failed with is thrown by has() and end(), in its process; ConfigError for a spool of
// another shape.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "athanor/base/file.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/data/instructions/instruction_encoder.h"
#include "athanor/data/spool/spool_folder.h"
#include "athanor/data/spool/spool_source.h"
#include "athanor/text/tokenizer.h"

namespace athanor::data::spool {

constexpr int64_t kWindowsAhead = 2;

struct SpoolOptions {
  std::string folder;
  std::string path;        // "-": standard input; else a folder
  int standard_input = 0;  // its descriptor
  std::string text_key = "text";
  std::shared_ptr<const InstructionEncoder> instructions =
      {};                 // records are conversations; null: texts under text_key
  SpoolShape shape = {};  // the Spool sets its tokenizer and source
  int64_t vocab_size = 0;
  bool writes = true;  // false: it only shows what others have written
};

class Spool {
 public:
  Spool(Env& env, std::shared_ptr<const Tokenizer> tokenizer, SpoolOptions options);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const SpoolShape& shape() const { return options_.shape; }
  // Whether what window `window` is made of is known: it is whole, or the text has ended before it.
  bool has(int64_t window) const;
  std::optional<SpoolEnd> end() const;  // none: more may come
  // Of a window that has() said is there. Null: the text has ended before it.
  std::shared_ptr<const IndexedDataset> window(int64_t window) const;

 private:
  void write();
  void write_until_end();
  std::unique_ptr<SpoolSource> open_source(int64_t first) const;
  void wait_for_readers(int64_t window);
  void rethrow() const;

  Env& env_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  SpoolOptions options_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int64_t num_there_ = 0, wanted_ = 0;  // windows
  mutable std::optional<SpoolEnd> end_;
  mutable std::map<int64_t, std::shared_ptr<const IndexedDataset>> open_;  // the last few
  std::exception_ptr error_;
  std::atomic<int> stop_ = 0;
  std::thread thread_;  // the last member: it starts when all others are initialized
};

}  // namespace athanor::data::spool

namespace athanor {
using athanor::data::spool::Spool;
using athanor::data::spool::SpoolOptions;
}  // namespace athanor
