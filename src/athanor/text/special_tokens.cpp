#include "athanor/text/special_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "athanor/text/post_processor.h"

namespace athanor::text {
namespace {

// Names that published tokenizers give their tokens, for a tokenizer.json with nothing beside it.
constexpr std::array<std::string_view, 9> kUsualEnds = {
    "<|endoftext|>", "<|end_of_text|>", "</s>",  "<eos>", "<｜end▁of▁sentence｜>",
    "<|eot_id|>",    "<|im_end|>",      "[EOS]", "[SEP]"};
constexpr std::array<std::string_view, 7> kUsualBegins = {
    "<|begin_of_text|>", "<s>", "<bos>", "<｜begin▁of▁sentence｜>", "[BOS]", "[CLS]", "<|endoftext|>"};

struct Named {
  int32_t id;
  std::string where;
};

class Finder {
 public:
  Finder(const JsonNode& tokenizer, const FilesBeside& files, const std::vector<AddedToken>& added,
         const TokenLookup& id_of)
      : files_(files), added_(added), id_of_(id_of) {
    if (const auto node = tokenizer.find("post_processor")) around_ = parse_post_processor(*node).around();
  }

  SpecialTokens find() const {
    SpecialTokens found;
    const auto begin = token("bos", around_.before, kUsualBegins),
               end = token("eos", around_.behind, kUsualEnds);
    if (begin) found.begin = begin->id;
    if (end) {
      found.end = end->id;
      found.end_from = end->where;
    }
    found.before = before(found.begin);
    found.stops = ids("generation_config.json", "eos_token_id");
    if (found.stops.empty()) found.stops = ids(kTokenIdsFile, "eos_token_id");
    if (found.end && std::ranges::find(found.stops, *found.end) == found.stops.end())
      found.stops.push_back(*found.end);
    return found;
  }

 private:
  std::optional<JsonNode> value(const char* file, const std::string& key) const {
    const JsonFile* const found = files_.find(file);
    return found ? found->root().find(key) : std::nullopt;
  }

  // One id or a list of them; some files say -1 for none.
  std::vector<int32_t> ids(const char* file, const std::string& key) const {
    const auto node = value(file, key);
    if (!node) return {};
    std::vector<int32_t> found;
    for (const JsonNode& item : node->value().is_array() ? node->items() : std::vector{*node})
      if (const int64_t id = item.integer(); id >= 0 && id <= INT32_MAX)
        found.push_back(static_cast<int32_t>(id));
    return found;
  }

  template <size_t N>
  std::optional<Named> token(const std::string& kind, const std::vector<int32_t>& around,
                             const std::array<std::string_view, N>& usual) const {
    const std::string name = kind + "_token";
    for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
      const auto node = value(file, name);
      if (!node || node->value().is_boolean()) continue;
      const std::string content = node->value().is_object() ? node->at("content").text() : node->text();
      if (content.empty()) continue;
      const auto id = id_of_(content);
      if (!id) node->fail(fmt::format("got '{}', which is no token of tokenizer.json", content));
      return Named{*id, fmt::format("{}: {}", file, name)};
    }
    // Configs are often written with their family's default ids, whatever the tokenizer: an ordinary token is no end.
    for (const char* file : {kTokenIdsFile, "generation_config.json"})
      for (const int32_t id : ids(file, name + "_id"))
        if (std::ranges::any_of(added_, [&](const AddedToken& token) { return token.id == id; }))
          return Named{id, fmt::format("{}: {}_id", file == kTokenIdsFile ? "config.json" : file, name)};
    if (!around.empty())
      return Named{kind == "bos" ? around.front() : around.back(), "tokenizer.json: post_processor"};
    for (const std::string_view wanted : usual)
      for (const AddedToken& token : added_)
        if (token.special && token.content == wanted) return Named{token.id, "tokenizer.json: by its name"};
    // Some files do not call theirs special; </s> may be a tag of HTML there, <|endoftext|> is nothing else.
    for (const std::string_view wanted : usual)
      if (wanted.starts_with("<|") || wanted.starts_with("<｜"))
        if (const auto id = id_of_(wanted)) return Named{*id, "tokenizer.json: by its name"};
    return std::nullopt;
  }

  std::vector<int32_t> before(const std::optional<int32_t>& begin) const {
    std::vector<int32_t> before = around_.before;
    const auto node = value("tokenizer_config.json", "add_bos_token");
    if (!node || !begin) return before;
    const bool has = !before.empty() && before.front() == *begin;
    if (node->boolean() && !has) before.insert(before.begin(), *begin);
    if (!node->boolean() && has) before.erase(before.begin());
    return before;
  }

  const FilesBeside& files_;
  const std::vector<AddedToken>& added_;
  const TokenLookup& id_of_;
  SurroundingTokens around_;
};

// Adds the tokens that a file calls special: "eos_token", "pad_token", ..., "additional_special_tokens".
void add_named_special(const JsonFile* file, std::unordered_set<std::string>& names) {
  if (!file) return;
  const auto add = [&](const nlohmann::json& value) {
    const auto content = value.is_object() ? value.find("content") : value.end();
    if (value.is_string()) names.insert(value.get<std::string>());
    if (value.is_object() && content != value.end() && content->is_string())
      names.insert(content->get<std::string>());
  };
  const JsonNode root = file->root();
  if (!root.value().is_object()) root.fail_type("object");
  for (const auto& [key, value] : root.value().items()) {
    if (key.ends_with("_token")) add(value);
    if (key == "additional_special_tokens" && value.is_array()) std::ranges::for_each(value, add);
  }
}

// The tokens of tokenizer.json and those beside it, by content and by id.
class AllTokens {
 public:
  AllTokens(const Vocabulary& vocabulary, std::vector<AddedToken>& added)
      : vocabulary_(vocabulary), added_(added) {
    for (const AddedToken& token : added) note(token);
  }

  void add(const JsonNode& node, AddedToken token) {
    if (token.content.empty()) return;
    const auto known = id_of_.find(token.content);
    const auto id = known != id_of_.end() ? known->second : vocabulary_.find(token.content);
    if (id && *id != token.id)
      node.fail(
          fmt::format("gives '{}' the id {}, which is {} in tokenizer.json", token.content, token.id, *id));
    if (known != id_of_.end()) return;
    const auto other = content_of_.find(token.id);
    const std::string* const occupant =
        other != content_of_.end() ? &other->second : vocabulary_.token(token.id);
    if (occupant && *occupant != token.content)
      node.fail(fmt::format("gives '{}' the id {}, which is '{}' in tokenizer.json", token.content, token.id,
                            *occupant));
    const int64_t limit = max_sane_id(added_.size() + static_cast<size_t>(vocabulary_.num_tokens()));
    if (token.id > limit)
      node.fail(fmt::format("gives '{}' the id {}, expected 0 to {}", token.content, token.id, limit));
    note(token);
    added_.push_back(std::move(token));
  }

 private:
  void note(const AddedToken& token) {
    id_of_[token.content] = token.id;
    content_of_[token.id] = token.content;
  }

  const Vocabulary& vocabulary_;
  std::vector<AddedToken>& added_;
  std::unordered_map<std::string, std::optional<int32_t>> id_of_;
  std::unordered_map<int32_t, std::string> content_of_;
};

int32_t to_id(const JsonNode& node, int64_t id) {
  if (id < 0 || id > INT32_MAX) node.fail(fmt::format("got {}, expected an id", id));
  return static_cast<int32_t>(id);
}

}  // namespace

FilesBeside::FilesBeside(const TokenizerFiles& files, const std::string& tokenizer_name) {
  const bool is_path = tokenizer_name.ends_with(kTokenizerFile);
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "generation_config.json", kTokenIdsFile})
    if (const auto found = files.find(name); found != files.end())
      json_.try_emplace(
          name, is_path ? join_path(parent_folder(tokenizer_name), name) : tokenizer_name + ": " + name,
          found->second);
}

const JsonFile* FilesBeside::find(const std::string& name) const {
  const auto found = json_.find(name);
  return found == json_.end() ? nullptr : &found->second;
}

SpecialTokens find_special_tokens(const JsonNode& tokenizer, const FilesBeside& files,
                                  const std::vector<AddedToken>& added, const TokenLookup& id_of) {
  return Finder(tokenizer, files, added, id_of).find();
}

void add_tokens_beside(const FilesBeside& files, const Vocabulary& vocabulary,
                       std::vector<AddedToken>& added) {
  AllTokens all(vocabulary, added);
  const JsonFile* const config = files.find("tokenizer_config.json");
  if (config)
    if (const auto decoder = config->root().find("added_tokens_decoder"))
      for (const auto& [key, value] : decoder->value().items()) {
        const JsonNode item = decoder->at(key);
        int64_t id = -1;
        if (std::from_chars(key.data(), key.data() + key.size(), id).ptr != key.data() + key.size())
          item.fail("expected an id as the key");
        AddedToken token{.content = item.at("content").text(), .id = to_id(item, id)};
        token.single_word = item.boolean("single_word", false);
        token.lstrip = item.boolean("lstrip", false);
        token.rstrip = item.boolean("rstrip", false);
        token.special = item.boolean("special", false);
        token.normalized = item.boolean("normalized", !token.special);
        all.add(item, std::move(token));
      }
  const JsonFile* const beside = files.find("added_tokens.json");
  if (!beside) return;
  if (!beside->root().value().is_object()) beside->root().fail_type("object");
  std::unordered_set<std::string> special;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    add_named_special(files.find(name), special);
  for (const auto& [content, value] : beside->root().value().items()) {
    const JsonNode item = beside->root().at(content);
    AddedToken token{.content = content, .id = to_id(item, item.integer())};
    token.special = special.contains(content);
    token.normalized = !token.special;
    all.add(item, std::move(token));
  }
}

}  // namespace athanor::text
