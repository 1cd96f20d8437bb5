// A method of deduplication: it turns a document into keys, and whoever shares a key with an earlier one is a copy.
//
//   const std::unique_ptr<KeyMethod> method = make_key_method({.method = "minhash"});
//   std::vector<SpanKey> keys;
//   method->keys(document, keys);
//
//   exact      one key, of the text or of the URL in the metadata; a document without a URL has none
//   minhash    a key for each bucket (minhash.h)
//   paragraph  a key for each line that is long enough (paragraphs.h)
//   sentence   a key for each n sentences in a row (sentences.h)
//
// What comes after: RecordSorter (record_sorter.h) brings equal keys together, DuplicatePairs (duplicate_pairs.h)
// takes pairs out of them. Methods of whole documents join the pairs to Components (components.h) and keep the first
// document of each; methods that cut parts cut the later one of each pair (cut.h). The method "substring" has no keys
// (substrings.h). Thread rule: a method does not change after it was made; keys() may run in many threads.
#pragma once

#include <memory>
#include <vector>

#include "athanor/corpus/dedup/dedup_options.h"
#include "athanor/corpus/dedup/key.h"
#include "athanor/corpus/document.h"

namespace athanor::corpus::dedup {

// The key of the bytes [begin, end) of a text; methods of whole documents say 0 and the text's size.
struct SpanKey {
  Key key;
  uint32_t begin = 0, end = 0;
  bool operator==(const SpanKey&) const = default;
};

class KeyMethod {
 public:
  virtual ~KeyMethod() = default;
  virtual bool cuts_spans() const = 0;  // later copies are cut out of their documents, which stay
  // Replaces what `out` held. Error for a text of 4 GiB or more, and for metadata that is no JSON object (exact of
  // URLs).
  virtual void keys(const Document& document, std::vector<SpanKey>& out) const = 0;
};

// ConfigError for options that dedup_fields() does not allow, and for a method without keys.
std::unique_ptr<KeyMethod> make_key_method(const DedupOptions& options);

}  // namespace athanor::corpus::dedup
