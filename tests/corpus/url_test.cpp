// Documents are dropped by their address.
#include "athanor/corpus/filters/url.h"

#include <gtest/gtest.h>

#include <cmath>

namespace athanor::tests::url_test {
namespace {

using corpus::Document;
using corpus::filters::make_url;
using corpus::filters::UrlOptions;

// The rule that an address breaks; "" if it is kept.
std::string broken(const UrlOptions& options, const std::string& url) {
  const auto stage = make_url(options);
  std::vector<double> values(stage->scores().size());
  Document document{.metadata = "{\"n\": 1, \"url\": \"" + url + "\"}"};
  stage->annotate(document, values);
  const corpus::Rule* rule = corpus::first_broken(stage->rules(), values);
  return rule == nullptr ? "" : rule->name;
}

TEST(UrlFilter, ADomainIsTheRegisteredOne) {
  const UrlOptions options{.domains = {"Spam.co.uk"}};
  EXPECT_EQ(broken(options, "https://a.b.spam.co.uk/x"), "url.domain");
  EXPECT_EQ(broken(options, "HTTP://user@WWW.SPAM.CO.UK:8080"), "url.domain");
  EXPECT_EQ(broken(options, "https://notspam.co.uk/"), "");
  EXPECT_EQ(broken(options, "https://spam.co.uk.example.org/"), "");
  EXPECT_EQ(broken({.domains = {"co.uk"}}, "https://spam.co.uk/"), "");
}

TEST(UrlFilter, HostsAndAddresses) {
  EXPECT_EQ(broken({.hosts = {"a.example.org"}}, "https://a.example.org/x"), "url.host");
  EXPECT_EQ(broken({.hosts = {"a.example.org"}}, "https://b.example.org/x"), "");
  EXPECT_EQ(broken({.urls = {"https://example.org/a/"}}, "http://www.example.org/a#part"), "url.url");
  EXPECT_EQ(broken({.urls = {"https://example.org/a/"}}, "http://example.org/b"), "");
}

TEST(UrlFilter, WordsAndSubstrings) {
  EXPECT_EQ(broken({.banned_words = {"casino"}}, "https://e.org/best-Casino-now"), "url.banned");
  EXPECT_EQ(broken({.banned_words = {"casino"}}, "https://e.org/casinos"), "");
  const UrlOptions soft{.soft_words = {"hot", "free", "win"}};
  EXPECT_EQ(broken(soft, "https://e.org/hot"), "");
  EXPECT_EQ(broken(soft, "https://e.org/hot/hot"), "");
  EXPECT_EQ(broken(soft, "https://e.org/hot_free"), "url.soft");
  EXPECT_EQ(broken({.banned_substrings = {"freecasino"}}, "https://x-free.ca-sino.org/"), "url.substring");
  EXPECT_EQ(broken({.banned_substrings = {"freecasino"}}, "https://casino-free.org/"), "");
}

TEST(UrlFilter, AllowedOnesStay) {
  EXPECT_EQ(broken({.banned_words = {"casino"}, .allow = {"e.org"}}, "https://a.e.org/casino"), "");
}

TEST(UrlFilter, NoAddressIsKeptWithoutAScore) {
  const auto stage = make_url({.domains = {"a.org"}});
  for (const std::string metadata :
       {"{}", "", "{\"url\": 3}", "{\"url\": \"", "[\"url\"]", "{\"url\": null}"}) {
    std::vector<double> values(stage->scores().size());
    Document document{.metadata = metadata};
    stage->annotate(document, values);
    for (const double value : values) EXPECT_TRUE(std::isnan(value)) << metadata;
    EXPECT_EQ(corpus::first_broken(stage->rules(), values), nullptr);
  }
}

TEST(UrlFilter, OddAddressesDoNotCrash) {
  for (const std::string url :
       {"/", "://", "https://", "http://[::1]:80/", "a", "....", "https://@/", "中文.cn/路径"})
    EXPECT_EQ(broken({.domains = {"x.org"}}, url), "");
}

}  // namespace
}  // namespace athanor::tests::url_test
