// exact: one key of the text, or of the URL.
#include <simdjson.h>

#include <string>

#include "athanor/corpus/dedup/key_methods.h"
#include "athanor/documents/json_syntax.h"

namespace athanor::corpus::dedup {
namespace {

class ExactTextKeys final : public KeyMethod {
 public:
  bool cuts_spans() const override { return false; }
  void keys(const Document& document, std::vector<SpanKey>& out) const override {
    out.assign(1, {hash_key(document.text), 0, checked_size(document.text)});
  }
};

class ExactUrlKeys final : public KeyMethod {
 public:
  bool cuts_spans() const override { return false; }
  void keys(const Document& document, std::vector<SpanKey>& out) const override {
    out.clear();
    std::string json = document.metadata;
    documents::blank_json_numbers(json.data(), json.size());  // the parser refuses those beyond 64 bits
    simdjson::dom::parser parser;
    simdjson::dom::object object;
    base::check(parser.parse(json).get(object) == simdjson::SUCCESS,
                "document '{}': metadata: got '{:.60}', expected a JSON object", document.id,
                document.metadata);
    std::string_view url;
    if (object["url"].get(url) == simdjson::SUCCESS && !url.empty())
      out.push_back({hash_key(url), 0, checked_size(document.text)});
  }
};

}  // namespace

std::unique_ptr<KeyMethod> make_exact_keys(const DedupOptions& options) {
  if (options.of == "url") return std::make_unique<ExactUrlKeys>();
  return std::make_unique<ExactTextKeys>();
}

}  // namespace athanor::corpus::dedup
