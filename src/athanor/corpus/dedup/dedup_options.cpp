#include "athanor/corpus/dedup/dedup_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "athanor/config/field_lists.h"

namespace athanor::corpus::dedup {
namespace {

void check_choice(const config::Field<DedupOptions>& field, const std::string& value) {
  const std::vector<std::string>& choices = field.traits.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  const std::string nearest = base::nearest_name(value, choices);
  throw base::ConfigError(
      fmt::format("{}: got \"{}\", expected one of {}", field.key(), value, fmt::join(choices, ", ")),
      nearest.empty() ? "" : fmt::format("did you mean \"{}\"?", nearest));
}

void check_range(const config::Field<DedupOptions>& field, int64_t value) {
  const auto number = static_cast<long double>(value);
  if (!field.traits.range.contains(number))
    throw base::ConfigError(
        fmt::format("{}: got {}, expected {}", field.key(), value, field.traits.range.expected(number)));
}

}  // namespace

const std::vector<config::Field<DedupOptions>>& dedup_fields() {
  using O = DedupOptions;
  constexpr long double kMost = 1000;
  static const std::vector<config::Field<O>> fields = {
      {"dedup", "method", "what is compared: exact, minhash, paragraph, sentence, substring",
       "exact finds equal documents, minhash similar ones. paragraph and sentence cut what occurred before "
       "out of "
       "documents that stay; so does substring, whose texts have to fit into memory.",
       config::slot_of<&O::method>,
       config::one_of({"exact", "minhash", "paragraph", "sentence", "substring"})},
      {"dedup", "of", "of exact: whether the text or the key \"url\" of a document is compared",
       "url keeps one capture of each page; a document without a URL is always kept.",
       config::slot_of<&O::of>, config::one_of({"text", "url"})},
      {"dedup", "buckets", "of minhash: signatures of a document, one of which has to be equal",
       "More buckets find less similar documents, at 32 bytes of scratch space each for every document.",
       config::slot_of<&O::buckets>, config::within(1, kMost)},
      {"dedup", "hashes_per_bucket", "of minhash: hashes in a signature",
       "More hashes ask for more similar documents: of those with similarity s, 1 - (1 - s^hashes)^buckets "
       "are "
       "found. The time grows with hashes x buckets.",
       config::slot_of<&O::hashes_per_bucket>, config::within(1, kMost)},
      {"dedup", "ngram", "of minhash: words in a row that are compared as one",
       "Fewer words make documents of one subject look alike.", config::slot_of<&O::ngram>,
       config::within(1, kMost)},
      {"dedup", "seed", "of minhash: seed of the hash functions",
       "Keep it: documents are only comparable under the same seed.", config::slot_of<&O::seed>,
       config::within(0, 4294967295.0L)},
      {"dedup", "hash", "of minhash: hash of an n-gram: xxh64, sha1",
       "sha1 gives the signatures of datatrove's runs with SHA-1, such as FineWeb, at several times the "
       "time.",
       config::slot_of<&O::hash>, config::one_of({"xxh64", "sha1"})},
      {"dedup", "sentences", "of sentence: sentences in a row that are compared as one",
       "1 also cuts phrases that documents share by chance.", config::slot_of<&O::sentences>,
       config::within(1, kMost)},
      {"dedup", "min_length",
       "bytes of a paragraph, or of a repeated substring, from which on it is cut; 0: 32 for paragraph, 200 "
       "for "
       "substring",
       "Short lines are often the same by chance.", config::slot_of<&O::min_length>, config::at_least(0)},
      {"dedup",
       "against",
       "files and folders of an earlier corpus, shards or any text: what it has, too, is a copy",
       "Not for substring. All of it is read and hashed again for each build that other settings make new.",
       config::slot_of<&O::against>,
       {.is_path = true}},
      {"dedup", "min_words", "words that a document must have left to stay, if a part of it was cut",
       "0 keeps what is left, however short.", config::slot_of<&O::min_words>, config::at_least(0)},
      {"dedup", "min_sentences", "sentences that a document must have left to stay, if a part of it was cut",
       "0 keeps what is left, however short.", config::slot_of<&O::min_sentences>, config::at_least(0)},
  };
  return fields;
}

void check_options(const DedupOptions& options) {
  DedupOptions copy = options;
  for (const config::Field<DedupOptions>& field : dedup_fields()) {
    const config::Slot slot = field.slot(copy);
    if (auto* const* text = std::get_if<std::string*>(&slot)) check_choice(field, **text);
    if (auto* const* number = std::get_if<int64_t*>(&slot)) check_range(field, **number);
  }
}

}  // namespace athanor::corpus::dedup
