// The stage "url": drops documents by the address that they came from.
//
//   const std::unique_ptr<Stage> stage = make_url({.domains = {"spam.example"}, .banned_words = {"casino"}});
//   Document document{.text = "...", .metadata = R"({"url": "https://a.spam.example/x"})"};
//   std::vector<double> scores(stage->scores().size());
//   stage->annotate(document, scores);  // url.domain is 1
//
// The address is the string under `key` of the document's metadata. Lower case is compared; a host is taken without
// user, port and a leading "www.". Scores, 1 or 0 where no number is named:
//   url.domain     the registered domain (public suffix list) is in `domains`
//   url.host       the host is in `hosts`
//   url.url        the address, without scheme, "www.", fragment and a last "/", is in `urls`
//   url.banned     banned words among the words of the address (runs of letters and digits)
//   url.soft       soft words among them, each counted once
//   url.substring  banned substrings in the address without all that is not a letter or digit of ASCII
// Rules: each at most 0, url.soft at most soft_most (1). An address whose domain or host is in `allow` has 0 in all.
// A document without address, or with metadata that is no JSON object, has NaN in all and is kept.
//
// A list is given inline, or as a file with an entry a line ("#" begins a comment). The rules are those of datatrove's
// URL filter. Errors: IoError for a file that cannot be read; Error for no public suffix list.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::filters {

struct UrlOptions {
  std::string key = "url";
  std::vector<std::string> domains = {}, hosts = {}, urls = {};
  std::vector<std::string> banned_words = {}, soft_words = {}, banned_substrings = {};
  std::vector<std::string> allow = {};
  std::string domains_file = {}, hosts_file = {}, urls_file = {};
  std::string banned_words_file = {}, soft_words_file = {}, banned_substrings_file = {};
  std::string allow_file = {};
  int64_t soft_most = 1;
};

const std::vector<Field<UrlOptions>>& url_fields();
std::unique_ptr<Stage> make_url(const UrlOptions& options);

}  // namespace athanor::corpus::filters
