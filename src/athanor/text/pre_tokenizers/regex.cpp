#include "athanor/text/pre_tokenizers/regex.h"

#include <oniguruma.h>

#include <algorithm>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/text/pre_tokenizers/regex_classes.h"
#include "athanor/text/unicode.h"

namespace athanor::text::pre_tokenizers {
namespace {

// Patterns come from files of strangers: a longer one is not a tokenizer's.
constexpr size_t kMaxPatternBytes = 16384;
// Steps of backtracking: a few per byte are normal, since a long run of spaces may be walked back.
constexpr size_t kMinMaxSteps = 10'000'000;
constexpr size_t kMaxStepsPerByte = 8;

const OnigUChar* bytes(const char* text) {
  return reinterpret_cast<const OnigUChar*>(text);
}

std::string message_of(int code, OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = info ? onig_error_code_to_str(buffer, code, info) : onig_error_code_to_str(buffer, code);
  return {reinterpret_cast<const char*>(buffer), static_cast<size_t>(size)};
}

// Text whose invalid bytes stand as U+FFFD, and where each byte of it came from.
struct ValidCopy {
  std::string text;
  std::vector<size_t> origin;  // one more than text has bytes

  explicit ValidCopy(std::string_view source) {
    for (size_t at = 0; at < source.size();) {
      const CodePoint c = decode_utf8(source, at);
      const std::string_view shown = c.value == kInvalidByte ? "\uFFFD" : source.substr(at, c.size);
      text.append(shown);
      origin.insert(origin.end(), shown.size(), at);
      at += c.size;
    }
    origin.push_back(source.size());
  }
};

struct FreeRegion {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};
struct FreeParam {
  void operator()(OnigMatchParam* param) const { onig_free_match_param(param); }
};

}  // namespace

struct Regex::State {
  std::string pattern;
  regex_t* regex = nullptr;
  ~State() {
    if (regex) onig_free(regex);
  }

  void search(std::string_view text, const std::function<void(size_t, size_t)>& match) const {
    const std::unique_ptr<OnigRegion, FreeRegion> region(onig_region_new());
    const std::unique_ptr<OnigMatchParam, FreeParam> param(onig_new_match_param());
    onig_initialize_match_param(param.get());
    const size_t max_steps = std::max(kMinMaxSteps, text.size() * kMaxStepsPerByte);
    onig_set_retry_limit_in_match_of_match_param(param.get(), max_steps);
    onig_set_retry_limit_in_search_of_match_param(param.get(), max_steps);
    const OnigUChar* const begin = bytes(text.data());
    const OnigUChar* const end = begin + text.size();
    size_t from = 0, last_end = std::string_view::npos;
    while (from <= text.size()) {
      const int at = onig_search_with_param(regex, begin, end, begin + from, end, region.get(),
                                            ONIG_OPTION_NONE, param.get());
      if (at == ONIG_MISMATCH) return;
      check(at >= 0, "regex '{}': {} (in a text of {} bytes)", pattern, message_of(at, nullptr), text.size());
      const auto match_begin = static_cast<size_t>(region->beg[0]);
      const auto match_end = static_cast<size_t>(region->end[0]);
      if (match_begin == match_end) {
        if (match_end != last_end) match(match_begin, match_end);
        from = match_end < text.size() ? match_end + decode_utf8(text, match_end).size : match_end + 1;
      } else {
        match(match_begin, match_end);
        from = match_end;
      }
      last_end = match_end;
    }
  }
};

Regex::Regex(const std::string& pattern) : state_(std::make_unique<State>()) {
  check(pattern.size() <= kMaxPatternBytes, "regex of {} bytes, expected at most {}", pattern.size(),
        kMaxPatternBytes);
  state_->pattern = pattern;
  const std::string spelled = spell_out_classes(pattern);
  OnigErrorInfo info;
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
  const int code = onig_new(&state_->regex, bytes(spelled.data()), bytes(spelled.data()) + spelled.size(),
                            ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  check(code == ONIG_NORMAL, "regex '{}': {}", pattern, message_of(code, &info));
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& match) const {
  if (find_invalid_utf8(text) == std::string_view::npos) return state_->search(text, match);
  const ValidCopy copy(text);
  state_->search(copy.text, [&](size_t begin, size_t end) { match(copy.origin[begin], copy.origin[end]); });
}

}  // namespace athanor::text::pre_tokenizers
