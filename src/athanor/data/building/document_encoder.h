// Encodes documents by many threads, in batches, and hands them on in their order.
//
//   DocumentEncoder encoder(tokenizer, options);
//   encoder.write_to(writer);                        // an IndexedWriter
//   encoder.add(text, place);                        // true where a batch was encoded and written
//   encoder.finish_batch();                          // what still waits
//
// Memory: a batch is about 8 MiB of text and the ids of it; a larger document is a batch of its own. Thread rule: one
// thread, which also encodes. Errors: Interrupted where the options' `stop` is set; those of encoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/thread_pool.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/data/instructions/masked_ids.h"
#include "athanor/data/tokenize.h"

namespace athanor::data::building {

void refuse_if_stopped(const TokenizeOptions& options);

class DocumentEncoder {
 public:
  DocumentEncoder(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options), pool_(options.threads) {}

  void write_to(IndexedWriter& writer) { writer_ = &writer; }
  bool add(std::string_view text, const DocumentPlace& place);
  void finish_batch();

 private:
  MaskedIds encode(size_t document) const;

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  ThreadPool pool_;
  IndexedWriter* writer_ = nullptr;
  std::vector<std::string> texts_;
  std::vector<DocumentSource> places_;
  size_t waiting_bytes_ = 0;
};

}  // namespace athanor::data::building

namespace athanor {
using athanor::data::building::DocumentEncoder;
}  // namespace athanor
