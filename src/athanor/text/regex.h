// Regular expressions as Hugging Face tokenizers understand them (the Oniguruma engine, UTF-8).
//
//   const Regex digits(R"(\p{N}+)");
//   digits.for_each_match(text, [&](size_t begin, size_t end) { ... });
//
// Bytes that are not UTF-8 match as U+FFFD would, one character each. A pattern that does not compile, or
// that needs more steps than any sane pattern on its text, is an Error. Thread rule: const methods from any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace athanor::text {

class Regex {
 public:
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Matches from left to right, not overlapping; an empty match right behind another one is left out.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& match) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::text
