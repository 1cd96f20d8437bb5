#include "athanor/corpus/dedup/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include <limits>
#include <string>

#include "athanor/corpus/dedup/key_methods.h"
#include "athanor/corpus/dedup/simplify.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::dedup {
namespace {

bool is_opening_mark(uint32_t c) {
  if (c > 0x10FFFF) return false;
  const int8_t type = u_charType(static_cast<UChar32>(c));
  return type == U_START_PUNCTUATION || type == U_INITIAL_PUNCTUATION;
}

// How many bytes of opening quotes and brackets end the range: UAX #29 counts them to the sentence before them where
// no space parts the two, as in Chinese.
uint32_t opening_marks_at_end(std::string_view text, TextRange range) {
  uint32_t at = range.end;
  while (at > range.begin) {
    const text::CodePoint c = last_code_point(text, {range.begin, at});
    if (!is_opening_mark(c.value)) break;
    at -= c.size;
  }
  return range.end - at;
}

}  // namespace

struct SentenceSplitter::Rules {
  std::unique_ptr<icu::BreakIterator> iterator;  // copied for each text: it holds a position
};

SentenceSplitter::SentenceSplitter() : rules_(std::make_unique<Rules>()) {
  UErrorCode status = U_ZERO_ERROR;
  rules_->iterator.reset(icu::BreakIterator::createSentenceInstance(icu::Locale::getRoot(), status));
  base::check(U_SUCCESS(status) && rules_->iterator, "unicode: ICU has no rules for sentences: {}",
              u_errorName(status));
}
SentenceSplitter::~SentenceSplitter() = default;

std::vector<TextRange> SentenceSplitter::split(std::string_view text) const {
  base::check(text.size() <= std::numeric_limits<int32_t>::max(),
              "sentences: got a text of {} bytes, expected less than 2 GiB", text.size());
  std::vector<TextRange> sentences;
  if (text.empty()) return sentences;
  UErrorCode status = U_ZERO_ERROR;
  UText view = UTEXT_INITIALIZER;
  utext_openUTF8(&view, text.data(), static_cast<int64_t>(text.size()), &status);
  const std::unique_ptr<icu::BreakIterator> iterator(rules_->iterator->clone());
  if (U_SUCCESS(status)) iterator->setText(&view, status);
  if (U_SUCCESS(status)) {
    auto begin = static_cast<uint32_t>(iterator->first());
    for (int32_t next = iterator->next(); next != icu::BreakIterator::DONE; next = iterator->next()) {
      auto end = static_cast<uint32_t>(next);
      if (end < text.size()) end -= opening_marks_at_end(text, {begin, end});
      if (trimmed(text, {begin, end}).size() > 0)
        sentences.push_back({begin, end});
      else if (!sentences.empty())
        sentences.back().end = end;
      begin = end;
    }
  }
  utext_close(&view);
  base::check(U_SUCCESS(status), "unicode: sentences: {}", u_errorName(status));
  return sentences;
}

namespace {

class SentenceKeys final : public KeyMethod {
 public:
  explicit SentenceKeys(const DedupOptions& options) : sentences_(static_cast<size_t>(options.sentences)) {}
  bool cuts_spans() const override { return true; }
  void keys(const Document& document, std::vector<SpanKey>& out) const override {
    checked_size(document.text);
    out.clear();
    const std::vector<TextRange> ranges = splitter_.split(document.text);
    if (ranges.size() < sentences_) return;
    std::string simple;  // of all sentences, a space behind each
    std::vector<size_t> begins;
    for (const TextRange& range : ranges) {
      begins.push_back(simple.size());
      simple += simplifier_.simplify(range.of(document.text));
      simple += ' ';
    }
    begins.push_back(simple.size());
    for (size_t i = 0; i + sentences_ <= ranges.size(); ++i) {
      const size_t end = begins[i + sentences_] - 1;
      const std::string_view joined = std::string_view(simple).substr(begins[i], end - begins[i]);
      if (joined.find_first_not_of(' ') != std::string_view::npos)
        out.push_back({hash_key(joined), ranges[i].begin, ranges[i + sentences_ - 1].end});
    }
  }

 private:
  Simplifier simplifier_;
  SentenceSplitter splitter_;
  size_t sentences_;
};

}  // namespace

std::unique_ptr<KeyMethod> make_sentence_keys(const DedupOptions& options) {
  return std::make_unique<SentenceKeys>(options);
}

}  // namespace athanor::corpus::dedup
