#include "athanor/corpus/privacy/privacy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/privacy/find_items.h"

namespace athanor::corpus::privacy {

namespace stage_local {

ItemKind kind_named(const std::string& key, const std::string& name) {
  std::vector<std::string> names;
  for (const ItemKind kind : all_item_kinds()) {
    if (name == item_kind_name(kind)) return kind;
    names.emplace_back(item_kind_name(kind));
  }
  throw ConfigError(
      fmt::format("privacy.{}: got \"{}\", expected one of {}", key, name, fmt::join(names, ", ")));
}

std::string default_tag(ItemKind kind) {
  std::string tag = "<";
  for (const char c : std::string_view(item_kind_name(kind)))
    tag.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return tag + ">";
}

std::vector<ItemKind> kinds_named(const std::vector<std::string>& names) {
  std::vector<ItemKind> kinds;
  for (const std::string& name : names) kinds.push_back(kind_named("kinds", name));
  return kinds;
}

class Privacy final : public Stage {
 public:
  explicit Privacy(const PrivacyOptions& options)
      : finder_({.kinds = kinds_named(options.kinds), .private_addresses = options.private_addresses}),
        action_(options.action),
        salt_(options.salt) {
    if (action_ != "replace" && action_ != "hash" && action_ != "drop")
      throw ConfigError(
          fmt::format("privacy.action: got \"{}\", expected one of replace, hash, drop", options.action));
    if (options.most < 0)
      throw ConfigError(fmt::format("privacy.most: got {}, expected at least 0", options.most));
    for (const ItemKind kind : all_item_kinds()) tags_[static_cast<size_t>(kind)] = default_tag(kind);
    for (const std::string& tag : options.tags) {
      const size_t equals = tag.find('=');
      if (equals == std::string::npos)
        throw ConfigError(fmt::format("privacy.tags: got \"{}\", expected \"kind=TAG\"", tag));
      tags_[static_cast<size_t>(kind_named("tags", tag.substr(0, equals)))] = tag.substr(equals + 1);
    }
    scores_.push_back({"privacy.items", "items of all kinds in the text"});
    for (const ItemKind kind : all_item_kinds())
      scores_.push_back({fmt::format("privacy.{}", item_kind_name(kind)), "items of this kind in the text"});
    if (action_ == "drop")
      rules_.push_back({.name = "privacy.items", .score = 0, .most = static_cast<double>(options.most)});
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    std::vector<Item> items;
    finder_.find(document.text, items);
    std::fill(values.begin(), values.end(), 0.0);
    values[0] = static_cast<double>(items.size());
    for (const Item& item : items) values[1 + static_cast<size_t>(item.kind)] += 1.0;
    if (action_ != "drop" && !items.empty()) document.text = edited(document.text, items);
  }

 private:
  std::string edited(const std::string& text, const std::vector<Item>& items) const {
    std::string out;
    out.reserve(text.size() + items.size() * 8);
    size_t done = 0;
    for (const Item& item : items) {
      out.append(text, done, item.begin - done);
      const std::string& tag = tags_[static_cast<size_t>(item.kind)];
      out += action_ == "hash" ? hashed(tag, text.substr(item.begin, item.end - item.begin)) : tag;
      done = item.end;
    }
    out.append(text, done);
    return out;
  }

  std::string hashed(const std::string& tag, const std::string& item) const {
    Sha256 hash;
    hash.update(salt_ + item);
    const std::string digits = hash.hex().substr(0, 16);
    const bool bracket = !tag.empty() && tag.back() == '>';
    return bracket ? fmt::format("{}:{}>", tag.substr(0, tag.size() - 1), digits) : tag + ":" + digits;
  }

  ItemFinder finder_;
  std::string action_;
  std::string salt_;
  std::array<std::string, kItemKinds> tags_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
};

}  // namespace stage_local

const std::vector<Field<PrivacyOptions>>& privacy_fields() {
  using O = PrivacyOptions;
  static const std::vector<Field<O>> fields = {
      {"privacy",
       "kinds",
       "what is looked for: secret, email, iban, id_card, bank_card, phone, ipv4, ipv6",
       "Fewer kinds where a text needs them, such as addresses in logs.",
       config::slot_of<&O::kinds>,
       {}},
      {"privacy",
       "action",
       "what happens: replace by a tag, hash (a tag with a hash) or drop the document",
       "hash keeps apart what is different, for texts in which names recur; set salt with it.",
       config::slot_of<&O::action>,
       {.choices = {"replace", "hash", "drop"}}},
      {"privacy",
       "tags",
       "tags in place of items, each as \"kind=TAG\"; empty: <EMAIL> and so on",
       "Where a tokenizer has special tokens for them.",
       config::slot_of<&O::tags>,
       {}},
      {"privacy",
       "salt",
       "text in front of each item that is hashed",
       "A secret one: phone numbers are few enough to try them all.",
       config::slot_of<&O::salt>,
       {}},
      {"privacy",
       "most",
       "items that a document may have under action = \"drop\"",
       "Above 0 where a signature is no reason to drop a document.",
       config::slot_of<&O::most>,
       {.range = {.low = 0}}},
      {"privacy",
       "private_addresses",
       "whether IP addresses of private networks count, too",
       "Off: they say nothing of a person.",
       config::slot_of<&O::private_addresses>,
       {}},
  };
  return fields;
}

std::unique_ptr<Stage> make_privacy(const PrivacyOptions& options) {
  return std::make_unique<stage_local::Privacy>(options);
}

}  // namespace athanor::corpus::privacy
