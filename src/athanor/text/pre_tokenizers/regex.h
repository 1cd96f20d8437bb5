// Regular expressions as Hugging Face tokenizers understand them (the Oniguruma engine, UTF-8).
//
//   const Regex digits(R"(\p{N}+)");
//   digits.for_each_match(text, [&](size_t begin, size_t end) { ... });
//
// A byte that is not UTF-8 matches like U+FFFD, one character each. Error for a pattern that does not compile, or that
// exceeds the limit of steps on a text (catastrophic backtracking). Thread rule: const methods from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::pre_tokenizers {

class Regex {
 public:
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Matches from left to right, not overlapping; an empty match directly after another match is skipped.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& match) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::text::pre_tokenizers
