// Settings of deduplication: which documents or parts of documents count as copies of each other.
//
//   DedupOptions options{.method = "sentence", .sentences = 3};
//   check_options(options);
//
// dedup_options.cpp says of each setting what it does and what it costs. The defaults of minhash and of sentence are
// those of datatrove, which FineWeb was made with. Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/config/fields.h"

namespace athanor::corpus::dedup {

struct DedupOptions {
  std::string method = "minhash";  // exact, minhash, paragraph, sentence, substring
  std::string of = "text";         // of exact: text, url
  int64_t buckets = 14;            // of minhash, as are the next four
  int64_t hashes_per_bucket = 8;
  int64_t ngram = 5;           // words
  int64_t seed = 1;            // below 2^32, as NumPy's RandomState has it
  std::string hash = "xxh64";  // sha1
  int64_t sentences = 3;       // of sentence
  int64_t min_length = 0;      // bytes, of paragraph and substring; 0: kMinParagraphBytes, kMinSubstringBytes
  int64_t min_words = 50;      // of a document that lost a part
  int64_t min_sentences = 3;   // the same
  std::vector<std::string> against = {};  // files and folders of an earlier corpus, whose documents all stay
};

constexpr int64_t kMinParagraphBytes = 32;
constexpr int64_t kMinSubstringBytes = 200;

const std::vector<config::Field<DedupOptions>>& dedup_fields();

// ConfigError that names the first setting with a value that dedup_fields() does not allow.
void check_options(const DedupOptions& options);

}  // namespace athanor::corpus::dedup
