#include "athanor/text/unicode/normal_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "athanor/text/unicode.h"
#include "athanor/text/unicode/decompositions.h"
#include "athanor/text/unicode/properties.h"
#include "athanor/text/unicode/tables.h"

namespace athanor::text::unicode {
namespace {

constexpr uint32_t kHangulBase = 0xAC00, kNumHangul = 11172, kNumAfterL = 588, kNumAfterV = 28;

// A character of the new text and what it does to the old one (Rewriter::put).
struct Change {
  uint32_t c;
  int change;
  uint32_t combining_class;
};

uint32_t combining_class(uint32_t c) {
  return c < 0x300 ? 0 : value_in(kMarks, kMarksSize, c) & 0xFF;
}

class Normalization {
 public:
  explicit Normalization(NormalForm form)
      : composes_(form == NormalForm::nfc || form == NormalForm::nfkc),
        compatible_(form == NormalForm::nfkc || form == NormalForm::nfkd),
        first_to_change_(!composes_ ? 0xC0 : 0x300) {
    if (compatible_) first_to_change_ = 0xA0;
  }

  // The bytes at the front of the text that no normalization changes and that nothing behind them changes.
  size_t unchanged(std::string_view text) const {
    size_t end = 0, last = 0;
    while (end < text.size()) {
      const CodePoint c = decode_utf8(text, end);
      if (c.value >= first_to_change_ && c.value != kInvalidByte) break;
      last = end;
      end += c.size;
    }
    return end == text.size() ? end : last;  // the last one may have marks behind it
  }

  // The stretch of characters at the front that are normalized together: up to the next one that begins anew.
  size_t stretch(std::string_view text) {
    changes_.clear();
    size_t at = 0;
    while (at < text.size()) {
      const CodePoint c = decode_utf8(text, at);
      if (c.value == kInvalidByte) break;
      const bool begins_anew = at > 0 && c.value < first_to_change_;
      if (begins_anew) break;
      decompose(c.value);
      at += c.size;
    }
    sort();
    if (composes_) compose();
    return at;
  }

  const std::vector<Change>& changes() const { return changes_; }

 private:
  void add(uint32_t c, int change) { changes_.push_back({c, change, combining_class(c)}); }

  void decompose(uint32_t c) {
    if (c >= kHangulBase && c < kHangulBase + kNumHangul) {
      const uint32_t s = c - kHangulBase;
      add(0x1100 + s / kNumAfterL, 0);
      add(0x1161 + s % kNumAfterL / kNumAfterV, 1);
      if (s % kNumAfterV != 0) add(0x11A7 + s % kNumAfterV, 1);
      return;
    }
    const auto targets = compatible_ ? decompositions().compatibility(c) : decompositions().canonical(c);
    if (targets.empty()) return add(c, 0);
    for (size_t i = 0; i < targets.size(); ++i) add(targets[i], i == 0 ? 0 : 1);
  }

  void sort() {
    for (auto from = changes_.begin(); from != changes_.end();) {
      if (from->combining_class == 0) {
        ++from;
        continue;
      }
      const auto to =
          std::find_if(from, changes_.end(), [](const Change& c) { return c.combining_class == 0; });
      std::stable_sort(
          from, to, [](const Change& a, const Change& b) { return a.combining_class < b.combining_class; });
      from = to;
    }
  }

  // A character joins the last starter unless one of its class or a higher one stands between.
  void compose() {
    size_t starter = changes_.size(), out = 0;
    uint32_t last_class = 0;
    for (size_t i = 0; i < changes_.size(); ++i) {
      const Change next = changes_[i];
      const bool follows = starter < out && starter + 1 == out;
      const bool blocked = !follows && (last_class == 0 || last_class >= next.combining_class);
      const uint32_t joined =
          starter < out && !blocked ? decompositions().compose(changes_[starter].c, next.c) : 0;
      if (joined != 0) {
        changes_[starter].c = joined;
        changes_[starter].change += next.change - 1;
        continue;
      }
      if (next.combining_class == 0) starter = out;
      last_class = next.combining_class;
      changes_[out++] = next;
    }
    changes_.resize(out);
  }

  bool composes_, compatible_;
  uint32_t first_to_change_;
  std::vector<Change> changes_;
};

}  // namespace

bool is_mark_in_9(uint32_t c) {
  return c >= 0x300 && c <= 0x10FFFF && (value_in(kMarks, kMarksSize, c) & 0x100) != 0;
}

void to_normal_form(NormalForm form, NormalizedText& text) {
  Normalization normalization(form);
  if (normalization.unchanged(text.text()) == text.text().size()) return;
  Rewriter rewriter(text);
  std::string character;
  while (!rewriter.done()) {
    rewriter.keep(normalization.unchanged(rewriter.rest()));
    if (rewriter.done()) break;
    if (normalization.stretch(rewriter.rest()) == 0) {  // a byte that is not UTF-8
      rewriter.keep(1);
      continue;
    }
    for (const Change& change : normalization.changes()) {
      character.clear();
      append_utf8(character, change.c);
      rewriter.put(character, change.change);
    }
  }
  rewriter.finish();
}

}  // namespace athanor::text::unicode
