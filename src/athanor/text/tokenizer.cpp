#include "athanor/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/pipeline.h"

namespace athanor {
namespace {

// The largest published tokenizer.json are around 35 MB.
constexpr uint64_t kMaxTokenizerFileBytes = uint64_t{256} << 20;

constexpr std::array<std::string_view, 9> kEndOfText = {
    "<|endoftext|>", "<|end_of_text|>", "</s>",  "<eos>", "<｜end▁of▁sentence｜>",
    "<|eot_id|>",    "<|im_end|>",      "[EOS]", "[SEP]"};

void check_post_processor(const text::JsonNode& root) {
  // It only adds special tokens and trims offsets, which encode() never does.
  if (const auto node = root.find("post_processor")) node->at("type").text();
}

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

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(Env& env, const std::string& path) {
  return parse(env.read_text(path, kMaxTokenizerFileBytes), path);
}

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  const text::JsonFile file(name, json);
  const text::JsonNode root = file.root();
  refuse_vocabulary(root, name);
  if (const auto version = root.find("version"); version && version->text() != "1.0")
    version->fail("got '" + version->text() + "', expected '1.0'");
  text::PipelineParts parts;
  parts.json = json;
  parts.name = name;
  if (const auto node = root.find("normalizer")) parts.normalizer = text::parse_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) parts.pre_tokenizer = text::parse_pre_tokenizer(*node);
  parts.model = text::parse_model(root.at("model"));
  if (const auto node = root.find("decoder")) parts.decoder = text::parse_decoder(*node);
  if (const auto node = root.find("added_tokens"))
    parts.added_tokens = text::parse_added_tokens(*node, parts.model->vocabulary());
  check_post_processor(root);
  return std::make_shared<text::Pipeline>(std::move(parts));
}

std::optional<int32_t> Tokenizer::end_of_text() const {
  for (const std::string_view name : kEndOfText)
    if (const auto id = id_of(name)) return id;
  return std::nullopt;
}

}  // namespace athanor
