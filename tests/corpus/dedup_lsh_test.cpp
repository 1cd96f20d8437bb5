// Pairs of texts with a known similarity: how many of them minhash finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "athanor/corpus/dedup/components.h"
#include "athanor/corpus/dedup/key_method.h"
#include "athanor/corpus/dedup/minhash.h"

namespace athanor::tests::dedup_lsh_test {
namespace {

// Words that no other text has, so that a text's n-grams are its own.
class TextMaker {
 public:
  std::vector<std::string> words(size_t count) {
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) {
      std::string word;
      for (uint64_t rest = next_++ * 2654435761U % (1U << 31); word.empty() || rest > 0; rest /= 20)
        word += static_cast<char>('a' + rest % 20);
      out.push_back(word);
    }
    return out;
  }

 private:
  uint64_t next_ = 1;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

double jaccard(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  const auto grams = [](const std::vector<std::string>& words) {
    std::set<std::vector<std::string>> set;
    for (size_t i = 0; i + 5 <= words.size(); ++i) set.insert({words.begin() + i, words.begin() + i + 5});
    return set;
  };
  const auto a = grams(left), b = grams(right);
  size_t both = 0;
  for (const auto& gram : a) both += b.count(gram);
  return static_cast<double>(both) / static_cast<double>(a.size() + b.size() - both);
}

struct Pair {
  std::vector<std::string> left, right;
};

// The right text has another end: m of its n-grams are new, so the similarity is (n - m) / (n + m) for n n-grams
// each.
Pair pair_with(TextMaker& maker, double similarity, size_t num_words) {
  const auto n = static_cast<double>(num_words - 4);
  const auto changed = static_cast<size_t>(std::lround(n * (1 - similarity) / (1 + similarity)));
  Pair pair;
  pair.left = pair.right = maker.words(num_words);
  const std::vector<std::string> fresh = maker.words(changed);
  std::copy(fresh.begin(), fresh.end(), pair.right.end() - static_cast<std::ptrdiff_t>(changed));
  return pair;
}

bool share_a_key(const std::vector<SpanKey>& left, const std::vector<SpanKey>& right) {
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i].key == right[i].key) return true;
  return false;
}

TEST(LshTest, RecallFollowsTheCurve) {
  constexpr int kPairs = 3000;
  const auto method = make_key_method({});
  TextMaker maker;
  std::vector<SpanKey> left, right;
  for (const double wanted : {0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95}) {
    int found = 0;
    double similarity = 0;
    for (int i = 0; i < kPairs; ++i) {
      const Pair pair = pair_with(maker, wanted, 104);
      if (i == 0) {
        similarity = jaccard(pair.left, pair.right);
        ASSERT_NEAR(similarity, wanted, 0.01);
      }
      method->keys({.text = joined(pair.left)}, left);
      method->keys({.text = joined(pair.right)}, right);
      found += share_a_key(left, right);
    }
    const double curve = 1 - std::pow(1 - std::pow(similarity, 8), 14);
    EXPECT_NEAR(static_cast<double>(found) / kPairs, curve, 0.02) << "similarity " << similarity;
  }
}

// Half of the documents have a copy of similarity 0.8, the others one of 0.2 or none: what shares a component is a
// copy.
TEST(LshTest, WhatIsFoundIsACopy) {
  constexpr size_t kPairs = 3000;
  const auto method = make_key_method({});
  TextMaker maker;
  std::vector<std::string> texts;
  for (size_t i = 0; i < kPairs; ++i) {
    const Pair pair = pair_with(maker, i % 2 == 0 ? 0.8 : 0.2, 104);
    texts.push_back(joined(pair.left));
    texts.push_back(joined(pair.right));
  }
  std::vector<std::pair<Key, uint32_t>> keys;
  std::vector<SpanKey> of_one;
  for (uint32_t i = 0; i < texts.size(); ++i) {
    method->keys({.text = texts[i]}, of_one);
    for (const SpanKey& key : of_one) keys.emplace_back(key.key, i);
  }
  std::sort(keys.begin(), keys.end());
  Components components(texts.size());
  for (size_t i = 1; i < keys.size(); ++i)
    if (keys[i].first == keys[i - 1].first) components.join(keys[i].second, keys[i - 1].second);
  size_t right = 0, wrong = 0;
  for (uint32_t i = 0; i < texts.size(); ++i) {
    if (components.is_kept(i)) continue;
    const bool planted = i % 4 == 1 && components.kept_of(i) == i - 1;
    (planted ? right : wrong) += 1;
  }
  EXPECT_GE(static_cast<double>(right), 0.98 * static_cast<double>(right + wrong));
  EXPECT_NEAR(2.0 * static_cast<double>(right) / kPairs, 0.924, 0.02);
}

}  // namespace
}  // namespace athanor::tests::dedup_lsh_test
