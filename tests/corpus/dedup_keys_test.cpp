#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/dedup/key_method.h"

namespace athanor::tests::dedup_keys_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<SpanKey> keys_of(const DedupOptions& options, const Document& document) {
  std::vector<SpanKey> keys(2);
  make_key_method(options)->keys(document, keys);
  return keys;
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return std::string(failure.what()) + "; " + failure.hint();
  }
  return "";
}

TEST(DedupKeysTest, AKeyIsXxh3Of128Bits) {
  Hash128 hash;
  hash.update("some text");
  const Key key = hash_key("some text");
  EXPECT_EQ(fmt::format("{:016x}{:016x}", key.high, key.low), hash.hex());
  EXPECT_NE(hash_key("some text", 1), key);
  EXPECT_EQ(hash_key(""), hash_key(""));
}

TEST(DedupKeysTest, ExactIsTheTextByteForByte) {
  const DedupOptions options{.method = "exact"};
  const std::vector<SpanKey> keys =
      keys_of(options, {.id = "1", .text = "a text", .metadata = R"({"url": "x"})"});
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0], (SpanKey{hash_key("a text"), 0, 6}));
  EXPECT_NE(keys_of(options, {.text = "a text "})[0].key, keys[0].key);
  EXPECT_NE(keys_of(options, {.text = "A text"})[0].key, keys[0].key);
  EXPECT_EQ(keys_of(options, {.text = ""})[0], (SpanKey{hash_key(""), 0, 0}));
  EXPECT_NE(keys_of(options, {.text = std::string("\0", 1)})[0].key, keys_of(options, {.text = ""})[0].key);
  EXPECT_FALSE(make_key_method(options)->cuts_spans());
}

TEST(DedupKeysTest, UrlOfTheMetadata) {
  const DedupOptions options{.method = "exact", .of = "url"};
  const auto of = [&](const std::string& metadata) {
    return keys_of(options, {.text = "abc", .metadata = metadata});
  };
  ASSERT_EQ(of(R"({"url":"http://a.b/c"})").size(), 1U);
  EXPECT_EQ(of(R"({"url":"http://a.b/c"})")[0], (SpanKey{hash_key("http://a.b/c"), 0, 3}));
  EXPECT_EQ(of(R"({"n": 123456789012345678901234567890, "url": "http:\/\/a.b\/c"})")[0].key,
            hash_key("http://a.b/c"));
  for (const char* none : {"{}", R"({"url":""})", R"({"url":null})", R"({"url":3})", R"({"a":{"url":"x"}})"})
    EXPECT_TRUE(of(none).empty()) << none;
  for (const char* bad : {"", "[]", "{", "3", R"({"url":"x")"})
    EXPECT_THAT(failure_of([&] { of(bad); }), HasSubstr("expected a JSON object")) << bad;
}

TEST(DedupKeysTest, OptionsOutOfRangeAreNamed) {
  const auto message = [](const DedupOptions& options) {
    return failure_of([&] { make_key_method(options); });
  };
  EXPECT_EQ(message({}), "");
  EXPECT_THAT(message({.method = "minhsh"}),
              AllOf(HasSubstr("dedup.method: got \"minhsh\", expected one of exact, minhash"),
                    HasSubstr("\"minhash\"?")));
  EXPECT_THAT(message({.of = "title"}), HasSubstr("dedup.of: got \"title\", expected one of text, url"));
  EXPECT_THAT(message({.hash = "md5"}), HasSubstr("dedup.hash"));
  EXPECT_THAT(message({.buckets = 0}), HasSubstr("dedup.buckets: got 0, expected a value in [1, 1000]"));
  EXPECT_THAT(message({.hashes_per_bucket = 1001}), HasSubstr("dedup.hashes_per_bucket: got 1001"));
  EXPECT_THAT(message({.ngram = 0}), HasSubstr("dedup.ngram"));
  EXPECT_THAT(message({.seed = -1}), HasSubstr("dedup.seed"));
  EXPECT_THAT(message({.seed = int64_t{1} << 32}), HasSubstr("dedup.seed"));
  EXPECT_EQ(message({.seed = (int64_t{1} << 32) - 1}), "");
  EXPECT_THAT(message({.method = "sentence", .sentences = 0}), HasSubstr("dedup.sentences"));
  EXPECT_THAT(message({.min_length = -1}), HasSubstr("dedup.min_length: got -1, expected at least 0"));
  EXPECT_THAT(message({.method = "substring"}), HasSubstr("expected a method with keys"));
}

TEST(DedupKeysTest, FieldsCoverTheOptions) {
  DedupOptions options;
  for (const Field<DedupOptions>& field : dedup_fields()) {
    EXPECT_STREQ(field.section, "dedup");
    const Slot slot = field.slot(options);
    if (auto* const* text = std::get_if<std::string*>(&slot)) **text = "changed";
    if (auto* const* number = std::get_if<int64_t*>(&slot)) **number = 77;
    if (auto* const* paths = std::get_if<std::vector<std::string>*>(&slot)) **paths = {"changed"};
  }
  EXPECT_EQ(options.method, "changed");
  EXPECT_EQ(options.of, "changed");
  EXPECT_EQ(options.hash, "changed");
  for (const int64_t number :
       {options.buckets, options.hashes_per_bucket, options.ngram, options.seed, options.sentences,
        options.min_length, options.min_words, options.min_sentences})
    EXPECT_EQ(number, 77);
  EXPECT_EQ(options.against, std::vector<std::string>{"changed"});
  EXPECT_EQ(dedup_fields().size(), 12U);
}

// One method in several threads gives what it gives in one.
TEST(DedupKeysTest, ThreadsShareAMethod) {
  for (const char* name : {"exact", "minhash", "paragraph", "sentence"}) {
    const auto method = make_key_method({.method = name, .min_length = 1});
    const auto document = [](int i) {
      return Document{.text = "The text of number " + std::string(static_cast<size_t>(i), 'x') +
                              " goes on. And on. \xCE\xA3 And ends.\nSo."};
    };
    std::vector<std::vector<SpanKey>> alone(8), together(8);
    for (int i = 0; i < 8; ++i) method->keys(document(i), alone[static_cast<size_t>(i)]);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] { method->keys(document(i), together[static_cast<size_t>(i)]); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(alone, together) << name;
  }
}

}  // namespace
}  // namespace athanor::tests::dedup_keys_test
