// The rules of gopher and fineweb against a straightforward version of them: strings, maps, no view and no hashes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "corpus/heuristics_probe.h"

namespace athanor::tests::heuristics_reference_test {
namespace {

using heuristics_probe::probe;
using heuristics_probe::Probe;
using Chars = std::u32string;

std::string utf8(const Chars& chars) {
  std::string text;
  for (const char32_t c : chars) {
    if (c < 0x80) {
      text += static_cast<char>(c);
      continue;
    }
    if (c >= 0x800) text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(c >= 0x800 ? 0x80 | (c >> 6 & 0x3F) : 0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
  return text;
}

// Of the characters that random_text() makes.
bool is_blank(char32_t c) {
  return Chars(U" \n\u3000").find(c) != Chars::npos;
}
bool is_mark(char32_t c) {
  return Chars(U".,#-!\u3002\u2026").find(c) != Chars::npos;
}
bool is_end(char32_t c) {
  return Chars(U".!\u3002").find(c) != Chars::npos;
}
bool is_letter(char32_t c) {
  return !is_blank(c) && !is_mark(c) && c != U'7';
}

Chars random_text() {
  const Chars alphabet = U"aaabbcd7.,#-!\u3002\u2026\u00e9\u4e2d          \n\n\u3000";
  const std::vector<Chars> phrases = {U"the cat", U"a b c d e f g h", U"...", U"\n\n", U"- ", U"of that\n"};
  Chars text;
  for (int64_t left = *rc::gen::inRange<int64_t>(0, 150); left > 0; --left)
    text += *rc::gen::inRange(0, 8) == 0 ? phrases[*rc::gen::inRange<size_t>(0, phrases.size())]
                                         : Chars(1, alphabet[*rc::gen::inRange<size_t>(0, alphabet.size())]);
  return text;
}

// The words of a text: at every character, what it joins.
std::vector<Chars> words_of(const Chars& text) {
  std::vector<Chars> words;
  for (size_t begin = 0; begin < text.size();) {
    if (is_blank(text[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < text.size() && !is_blank(text[end])) ++end;
    size_t first = begin, last = end;
    while (first < end && is_mark(text[first])) ++first;
    while (last > first && is_mark(text[last - 1])) --last;
    for (size_t at = begin; at < end;) {
      size_t stop = last;
      if (at < first || at >= last) {
        const size_t limit = at < first ? first : end;
        stop = at;
        while (stop < limit && text[stop] == text[at]) ++stop;
      }
      words.push_back(text.substr(at, stop - at));
      at = stop;
    }
    begin = end;
  }
  return words;
}

std::vector<Chars> split(const Chars& text, size_t least_newlines) {
  std::vector<Chars> parts(1);
  for (size_t at = 0; at < text.size();) {
    size_t run = 0;
    while (at + run < text.size() && text[at + run] == U'\n') ++run;
    if (run >= least_newlines) {
      parts.emplace_back();
      at += run;
    } else {
      parts.back() += text[at++];
    }
  }
  return parts;
}

Chars stripped(Chars text) {
  while (!text.empty() && is_blank(text.back())) text.pop_back();
  while (!text.empty() && is_blank(text.front())) text.erase(0, 1);
  return text;
}

std::pair<double, double> repeated(const std::vector<Chars>& parts) {
  std::set<Chars> seen;
  std::pair<double, double> sums;
  for (const Chars& part : parts)
    if (!seen.insert(part).second) {
      sums.first += 1;
      sums.second += static_cast<double>(part.size());
    }
  return sums;
}

Chars gram(const std::vector<Chars>& words, size_t at, size_t n, const Chars& between) {
  Chars all;
  for (size_t i = 0; i < n; ++i) all += (i > 0 ? between : Chars()) + words[at + i];
  return all;
}

double top_chars(const std::vector<Chars>& words, size_t n) {
  std::map<Chars, size_t> counts;
  for (size_t i = 0; i + n <= words.size(); ++i) ++counts[gram(words, i, n, U" ")];
  size_t best = 0, chars = 0;
  for (size_t i = 0; i + n <= words.size(); ++i) {
    const Chars one = gram(words, i, n, U" ");
    if (counts[one] <= best) continue;
    best = counts[one];
    chars = one.size();
  }
  return static_cast<double>(best * chars);
}

double repeated_chars(const std::vector<Chars>& words, size_t n) {
  std::set<Chars> seen;
  size_t chars = 0;
  for (size_t i = 0; i + n <= words.size();) {
    const Chars one = gram(words, i, n, U"");
    const bool fresh = seen.insert(one).second;
    if (!fresh) chars += one.size();
    i += fresh ? 1 : n;
  }
  return static_cast<double>(chars);
}

RC_GTEST_PROP(HeuristicsReference, GopherRepetition, ()) {
  const Chars text = random_text();
  const Probe got = probe("gopher-repetition", utf8(text));
  RC_PRE(!text.empty());
  const auto chars = static_cast<double>(text.size());
  const std::vector<Chars> paragraphs = split(stripped(text), 2), lines = split(text, 1),
                           words = words_of(text);
  const auto count = [](const std::vector<Chars>& parts) { return static_cast<double>(parts.size()); };
  RC_ASSERT(got.value("gopher.duplicate_paragraphs") == repeated(paragraphs).first / count(paragraphs));
  RC_ASSERT(got.value("gopher.duplicate_paragraph_chars") == repeated(paragraphs).second / chars);
  RC_ASSERT(got.value("gopher.duplicate_lines") == repeated(lines).first / count(lines));
  RC_ASSERT(got.value("gopher.duplicate_line_chars") == repeated(lines).second / chars);
  for (size_t n = 2; n <= 4; ++n)
    RC_ASSERT(got.value("gopher.top_" + std::to_string(n) + "_gram") == top_chars(words, n) / chars);
  for (size_t n = 5; n <= 10; ++n)
    RC_ASSERT(got.value("gopher.duplicate_" + std::to_string(n) + "_grams") ==
              repeated_chars(words, n) / chars);
}

RC_GTEST_PROP(HeuristicsReference, GopherQuality, ()) {
  const Chars text = random_text();
  const std::vector<Chars> words = words_of(text);
  RC_PRE(!words.empty());
  const Probe got = probe("gopher-quality", utf8(text));
  double plain = 0, chars = 0, with_letter = 0;
  for (const Chars& word : words) {
    with_letter += std::any_of(word.begin(), word.end(), is_letter);
    if (std::all_of(word.begin(), word.end(), is_mark)) continue;
    plain += 1;
    chars += static_cast<double>(word.size());
  }
  RC_ASSERT(got.value("gopher.words") == plain);
  if (plain > 0) RC_ASSERT(got.value("gopher.mean_word_length") == chars / plain);
  const auto all = static_cast<double>(words.size());
  RC_ASSERT(got.value("gopher.words_with_letter") == with_letter / all);
  RC_ASSERT(got.value("gopher.hashes_per_word") ==
            static_cast<double>(std::count(text.begin(), text.end(), U'#')) / all);
}

RC_GTEST_PROP(HeuristicsReference, Fineweb, ()) {
  const Chars text = random_text();
  const std::vector<Chars> words = words_of(text);
  RC_PRE(!words.empty());
  std::vector<Chars> lines;
  for (const Chars& line : split(text, 1))
    if (!stripped(line).empty()) lines.push_back(line);
  double ends = 0, brief = 0;
  for (const Chars& line : lines) {
    ends += is_end(line.back());
    brief += line.size() <= 30;
  }
  const auto newlines = static_cast<double>(std::count(text.begin(), text.end(), U'\n'));
  const auto count = static_cast<double>(lines.size());
  const Probe got = probe("fineweb", utf8(text));
  RC_ASSERT(got.value("fineweb.terminal_lines") == ends / count);
  RC_ASSERT(got.value("fineweb.short_lines") == brief / count);
  RC_ASSERT(got.value("fineweb.duplicate_line_chars") ==
            repeated(lines).second / (static_cast<double>(text.size()) - newlines));
  RC_ASSERT(got.value("fineweb.newlines_per_word") == newlines / static_cast<double>(words.size()));
}

}  // namespace
}  // namespace athanor::tests::heuristics_reference_test
