// The stage "privacy": finds personal data and secrets and replaces them, or drops documents that hold many.
//
//   const std::unique_ptr<Stage> stage = make_privacy({.kinds = {"email", "phone"}, .action = "replace"});
//   Document document{.text = "Mail a.b@example.org"};
//   std::vector<double> scores(stage->scores().size());
//   stage->annotate(document, scores);  // document.text is "Mail <EMAIL>"
//
// What counts as an item stands in find_items.h. Actions:
//   replace   an item becomes the tag of its kind
//   hash      an item becomes its tag with 16 hexadecimal digits: "<EMAIL:1f0c...>". They are the first of
//             SHA-256(salt + item), so that equal items stay equal and none can be looked up without the salt
//   drop      the text stays as it is; a document with more than `most` items goes
// All else of the text stays, byte by byte.
//
// Scores: privacy.items, and privacy.KIND for each kind: items of the text as it came. Rule, of "drop" alone:
// privacy.items <= most. Errors: ConfigError for an unknown kind or action, or a tag not written "kind=TAG".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/config/fields.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus::privacy {

struct PrivacyOptions {
  std::vector<std::string> kinds = {"secret",    "email", "iban", "id_card",
                                    "bank_card", "phone", "ipv4", "ipv6"};
  std::string action = "replace";
  std::vector<std::string> tags = {};  // "email=<MAIL>"; others keep "<" + the kind in upper case + ">"
  std::string salt = {};
  int64_t most = 0;
  bool private_addresses = false;
};

const std::vector<Field<PrivacyOptions>>& privacy_fields();
std::unique_ptr<Stage> make_privacy(const PrivacyOptions& options);

}  // namespace athanor::corpus::privacy
