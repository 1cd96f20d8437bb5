#include "athanor/corpus/filters/url.h"

#include <fmt/format.h>
#include <libpsl.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "athanor/base/check.h"
#include "athanor/corpus/filters/word_list.h"

namespace athanor::corpus::filters {

namespace url_local {

using Set = std::unordered_set<std::string>;

bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string without(const std::string& text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

// "https://User@WWW.A.org:80/x/#f" is "a.org:80/x".
std::string plain_address(const std::string& url) {
  std::string text = lower_ascii(url);
  if (const size_t scheme = text.find("://");
      scheme != std::string::npos && scheme < text.find_first_of("/?#"))
    text.erase(0, scheme + 3);
  text.erase(std::min(text.find('#'), text.size()));
  const size_t authority = std::min(text.find_first_of("/?"), text.size());
  if (const size_t user = text.substr(0, authority).rfind('@'); user != std::string::npos)
    text.erase(0, user + 1);
  text = without(text, "www.");
  while (!text.empty() && text.back() == '/') text.pop_back();
  return text;
}

std::string host_of(const std::string& plain) {
  std::string host = plain.substr(0, plain.find_first_of("/?"));
  if (!host.starts_with('[')) host.erase(std::min(host.find(':'), host.size()));
  while (!host.empty() && host.back() == '.') host.pop_back();
  return host;
}

Set make_set(const std::vector<std::string>& entries, const std::string& path,
             const std::function<std::string(const std::string&)>& form) {
  Set out;
  for (const std::string& entry : read_list(entries, path)) out.insert(form(entry));
  return out;
}

class Url final : public Stage {
 public:
  explicit Url(const UrlOptions& o)
      : key_(o.key),
        domains_(make_set(o.domains, o.domains_file, lower_ascii)),
        hosts_(
            make_set(o.hosts, o.hosts_file, [](const std::string& e) { return host_of(plain_address(e)); })),
        urls_(make_set(o.urls, o.urls_file, plain_address)),
        banned_(make_set(o.banned_words, o.banned_words_file, lower_ascii)),
        soft_(make_set(o.soft_words, o.soft_words_file, lower_ascii)),
        allow_(make_set(o.allow, o.allow_file, lower_ascii)),
        suffixes_(psl_builtin()) {
    check(suffixes_ != nullptr, "url: libpsl has no public suffix list built in, expected one");
    for (const std::string& entry : read_list(o.banned_substrings, o.banned_substrings_file))
      substrings_.push_back(squeezed(lower_ascii(entry)));
    std::erase(substrings_, "");
    scores_ = {{"url.domain", "1 if the registered domain is in the list"},
               {"url.host", "1 if the host is in the list"},
               {"url.url", "1 if the address is in the list"},
               {"url.banned", "banned words among the words of the address"},
               {"url.soft", "different soft words among the words of the address"},
               {"url.substring", "banned substrings in the letters and digits of the address"}};
    for (size_t i = 0; i < scores_.size(); ++i)
      rules_.push_back(
          {.name = scores_[i].name, .score = i, .most = i == 4 ? static_cast<double>(o.soft_most) : 0.0});
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    std::fill(values.begin(), values.end(), NAN);
    const std::string url = address(document.metadata);
    if (url.empty()) return;
    std::fill(values.begin(), values.end(), 0.0);
    const std::string plain = plain_address(url), host = host_of(plain);
    const char* registered = psl_registrable_domain(suffixes_, host.c_str());
    const std::string domain = registered == nullptr ? host : registered;
    if (allow_.contains(host) || allow_.contains(domain)) return;
    values[0] = domains_.contains(domain) ? 1 : 0;
    values[1] = hosts_.contains(host) ? 1 : 0;
    values[2] = urls_.contains(plain) ? 1 : 0;
    Set seen_soft;
    for (size_t at = 0; at < plain.size();) {
      size_t end = at;
      while (end < plain.size() && letter_or_digit(plain[end])) ++end;
      const std::string word = plain.substr(at, end - at);
      values[3] += banned_.contains(word) ? 1 : 0;
      if (soft_.contains(word)) seen_soft.insert(word);
      at = end + 1;
    }
    values[4] = static_cast<double>(seen_soft.size());
    const std::string letters = squeezed(plain);
    for (const std::string& piece : substrings_)
      values[5] += letters.find(piece) != std::string::npos ? 1 : 0;
  }

 private:
  static std::string squeezed(std::string text) {
    std::erase_if(text, [](char c) { return !letter_or_digit(c); });
    return text;
  }

  std::string address(const std::string& metadata) const {
    // Most metadata has none: its parse is saved.
    if (metadata.find(key_) == std::string::npos) return "";
    const nlohmann::json parsed = nlohmann::json::parse(metadata, nullptr, false);
    if (!parsed.is_object()) return "";
    const auto found = parsed.find(key_);
    return found == parsed.end() || !found->is_string() ? "" : found->get<std::string>();
  }

  std::string key_;
  Set domains_, hosts_, urls_, banned_, soft_, allow_;
  std::vector<std::string> substrings_;
  const psl_ctx_t* suffixes_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
};

}  // namespace url_local

const std::vector<Field<UrlOptions>>& url_fields() {
  using O = UrlOptions;
  static const std::vector<Field<O>> fields = {
      {"url",
       "key",
       "key of the metadata that holds the address",
       "Where a corpus calls it otherwise.",
       config::slot_of<&O::key>,
       {}},
      {"url",
       "domains",
       "registered domains to drop",
       "For a few; a file holds many.",
       config::slot_of<&O::domains>,
       {}},
      {"url", "hosts", "hosts to drop", "For a part of a domain.", config::slot_of<&O::hosts>, {}},
      {"url", "urls", "addresses to drop", "For single pages.", config::slot_of<&O::urls>, {}},
      {"url",
       "banned_words",
       "words that drop a document if its address has one",
       "Words with one meaning only.",
       config::slot_of<&O::banned_words>,
       {}},
      {"url",
       "soft_words",
       "words of which an address may have soft_most",
       "Words that are harmless alone.",
       config::slot_of<&O::soft_words>,
       {}},
      {"url",
       "banned_substrings",
       "letters and digits that an address may not hold anywhere",
       "Long ones: a short one is part of harmless words.",
       config::slot_of<&O::banned_substrings>,
       {}},
      {"url",
       "allow",
       "domains and hosts that are never dropped",
       "Against errors of long lists.",
       config::slot_of<&O::allow>,
       {}},
      {"url",
       "domains_file",
       "file of domains, one a line",
       "",
       config::slot_of<&O::domains_file>,
       {.is_path = true}},
      {"url",
       "hosts_file",
       "file of hosts, one a line",
       "",
       config::slot_of<&O::hosts_file>,
       {.is_path = true}},
      {"url",
       "urls_file",
       "file of addresses, one a line",
       "",
       config::slot_of<&O::urls_file>,
       {.is_path = true}},
      {"url",
       "banned_words_file",
       "file of banned words, one a line",
       "",
       config::slot_of<&O::banned_words_file>,
       {.is_path = true}},
      {"url",
       "soft_words_file",
       "file of soft words, one a line",
       "",
       config::slot_of<&O::soft_words_file>,
       {.is_path = true}},
      {"url",
       "banned_substrings_file",
       "file of banned substrings, one a line",
       "",
       config::slot_of<&O::banned_substrings_file>,
       {.is_path = true}},
      {"url",
       "allow_file",
       "file of domains and hosts that are never dropped, one a line",
       "",
       config::slot_of<&O::allow_file>,
       {.is_path = true}},
      {"url",
       "soft_most",
       "soft words that an address may have",
       "1: two or more drop a document.",
       config::slot_of<&O::soft_most>,
       {.range = {.low = 0}}},
  };
  return fields;
}

std::unique_ptr<Stage> make_url(const UrlOptions& options) {
  return std::make_unique<url_local::Url>(options);
}

}  // namespace athanor::corpus::filters
