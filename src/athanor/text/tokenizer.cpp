#include "athanor/text/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

#include "athanor/base/error.h"
#include "athanor/text/formats/sentencepiece.h"
#include "athanor/text/formats/tiktoken.h"
#include "athanor/text/models/bpe_tables.h"
#include "athanor/text/pipeline.h"

namespace athanor::text {
namespace {

// The largest published tokenizer.json are around 35 MB.
constexpr uint64_t kMaxTokenizerFileBytes = uint64_t{256} << 20;

// GPT-2's vocab.json (token -> id) is half of what a tokenizer is.
void refuse_vocabulary(const text::JsonNode& root, const std::string& name) {
  const nlohmann::json& json = root.value();
  if (!json.is_object() || json.empty() ||
      !std::all_of(json.begin(), json.end(), [](const auto& id) { return id.is_number_integer(); }))
    return;
  throw Error(name + ": got a vocabulary alone, expected a tokenizer.json",
              "make one: athanor tokenizer import --vocab vocab.json --merges merges.txt --output "
              "tokenizer.json");
}

// A template names its tokens by id.
void check_tokens(const SpecialTokens& special, const text::PipelineParts& parts,
                  const text::JsonNode& root) {
  std::vector<int32_t> around = special.before;
  if (special.end) around.push_back(*special.end);
  for (const int32_t id : around)
    if (!parts.model->vocabulary().token(id) &&
        std::ranges::none_of(parts.added_tokens,
                             [&](const text::AddedToken& token) { return token.id == id; }))
      root.at("post_processor").fail(fmt::format("has the id {}, which is no token", id));
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(Env& env, const std::string& path) {
  const std::string text = env.read_text(path, kMaxTokenizerFileBytes);
  if (is_sentencepiece(text)) return parse(sentencepiece_json(text, path), path);
  if (is_tiktoken(text))
    throw Error(
        path +
            ": got a file of ranks, which does not say how text is cut into words, expected a tokenizer.json",
        "make one: athanor tokenizer import --ranks FILE --pattern cl100k --output tokenizer.json");
  if (text.starts_with("[PAD]\n") || text.starts_with("[PAD]\r\n"))
    throw Error(path + ": got a vocabulary alone, expected a tokenizer.json",
                "make one: athanor tokenizer import --vocab vocab.txt --output tokenizer.json");
  const bool may_have_company = path.substr(path.rfind('/') + 1) == kTokenizerFile;
  return parse(text, path,
               may_have_company ? read_tokenizer_files(env, parent_folder(path)) : TokenizerFiles{});
}

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name,
                                                  TokenizerFiles files) {
  auto tables = text::read_bpe_tables(json);
  const text::JsonFile file(name, json, tables ? tables->places : std::vector<ByteSpan>{});
  const text::JsonNode root = file.root();
  refuse_vocabulary(root, name);
  if (const auto version = root.find("version"); version && version->text() != "1.0")
    version->fail("got '" + version->text() + "', expected '1.0'");
  text::PipelineParts parts;
  parts.name = name;
  if (const auto node = root.find("normalizer")) parts.normalizer = text::parse_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) parts.pre_tokenizer = text::parse_pre_tokenizer(*node);
  parts.model = text::parse_model(root.at("model"), std::move(tables));
  if (const auto node = root.find("decoder")) parts.decoder = text::parse_decoder(*node);
  if (const auto node = root.find("post_processor")) parts.post_processor = text::parse_post_processor(*node);
  if (const auto node = root.find("added_tokens"))
    parts.added_tokens = text::parse_added_tokens(*node, parts.model->vocabulary());
  const text::FilesBeside beside(files, name);
  const size_t in_json = parts.added_tokens.size();
  text::add_tokens_beside(beside, parts.model->vocabulary(), parts.added_tokens);
  std::unordered_map<std::string_view, int32_t> added;
  for (const text::AddedToken& token : parts.added_tokens) added.emplace(token.content, token.id);
  const auto find = [&](const text::FilesBeside& company) {
    return text::find_special_tokens(root, company, parts.added_tokens, [&](std::string_view token) {
      const auto found = added.find(token);
      return found != added.end() ? std::optional(found->second) : parts.model->vocabulary().find(token);
    });
  };
  SpecialTokens& special = parts.special_tokens = find(beside);
  check_tokens(special, parts, root);
  for (const text::AddedToken& token : std::span(parts.added_tokens).subspan(in_json))
    special.identity +=
        fmt::format("\n{} {} {:d}{:d}{:d}{:d}{:d}", token.id, token.content, token.single_word, token.lstrip,
                    token.rstrip, token.normalized, token.special);
  if (!special.before.empty() || special.end != find({{}, name}).end)
    special.identity +=
        fmt::format("\nbegin {} end {}", fmt::join(special.before, ","), special.end.value_or(-1));
  files[kTokenizerFile] = json;
  parts.files = std::move(files);
  return std::make_shared<text::Pipeline>(std::move(parts));
}

std::vector<int32_t> Tokenizer::encode_document(std::string_view text) const {
  std::vector<int32_t> ids = encode_ordinary(text);
  const SpecialTokens& special = special_tokens();
  ids.insert(ids.begin(), special.before.begin(), special.before.end());
  if (special.end) ids.push_back(*special.end);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<int32_t> ids = encode(text);
  const std::vector<int32_t>& before = special_tokens().before;
  if (ids.size() < before.size() || !std::equal(before.begin(), before.end(), ids.begin()))
    ids.insert(ids.begin(), before.begin(), before.end());
  return ids;
}

}  // namespace athanor::text
