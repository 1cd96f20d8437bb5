#include "athanor/data/instructions/instruction_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/documents/text_key.h"
#include "athanor/text/chat_template/lexer.h"

namespace athanor::data::instructions {
namespace {

using Json = nlohmann::ordered_json;

const Json* find_key(const Json& object, const std::string& key) {
  if (!object.is_object()) return nullptr;
  if (const auto found = object.find(key); found != object.end()) return &*found;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1))
    if (const auto outer = object.find(key.substr(0, dot)); outer != object.end())
      if (const Json* const inner = find_key(*outer, key.substr(dot + 1))) return inner;
  return nullptr;
}

const Json& need_key(const Json& object, const std::string& key) {
  if (const Json* const found = find_key(object, key)) return *found;
  std::string keys;
  for (const auto& [name, value] : object.items()) keys += (keys.empty() ? "'" : ", '") + name + "'";
  fail("no key '{}', got {}", key, keys.empty() ? "none" : keys);
}

std::string text_of(const Json& object, const std::string& key) {
  const TextKey text_key(key);
  std::string text;
  for (const TextKey::Part& part : text_key.parts()) {
    const Json& value = need_key(object, part.key);
    check(value.is_string(), "'{}': got {}, expected a string", part.key, value.type_name());
    text += part.before + value.get<std::string>();
  }
  return text + text_key.after();
}

Json parse_record(std::string_view record) {
  const auto watch = [](int depth, Json::parse_event_t, Json&) {
    check(depth < 90, "nested deeper than 90 levels");
    return true;
  };
  Json json = Json::parse(record.begin(), record.end(), watch, /*allow_exceptions=*/false);
  check(json.is_object(), "got {}, expected a JSON object",
        json.is_discarded() ? "no JSON" : json.type_name());
  return json;
}

}  // namespace

InstructionFormat instruction_format(Env& env, const std::string& messages, const std::string& prompt,
                                     const std::string& answer, const std::string& template_path) {
  InstructionFormat format{.messages = messages, .prompt = prompt, .answer = answer};
  if (template_path.empty()) return format;
  format.template_source = env.read_text(template_path, text::chat_template::kMaxTemplateBytes);
  format.template_name = template_path;
  check(!format.template_source.empty(), "'{}': is empty, expected a chat template", template_path);
  return format;
}

InstructionEncoder::InstructionEncoder(const Tokenizer& tokenizer, InstructionFormat format)
    : tokenizer_(tokenizer), format_(std::move(format)) {
  const bool has_pair = !format_.prompt.empty() || !format_.answer.empty();
  if (!format_.messages.empty() && has_pair)
    throw ConfigError("got the keys of messages and of a prompt and an answer, expected one of them");
  if (format_.messages.empty() && (format_.prompt.empty() || format_.answer.empty()))
    throw ConfigError(
        fmt::format("got a key for {} alone, expected messages, or both prompt and answer",
                    format_.prompt.empty() ? (format_.answer.empty() ? "a template" : "answer") : "prompt"),
        "for example: prompt = \"question\", answer = \"answer\"");
  if (has_pair) {  // a broken template of keys is an error of the settings, not of a record
    TextKey prompt(format_.prompt), answer(format_.answer);
  }
  const std::string name = format_.template_name.empty() ? "template" : format_.template_name;
  if (!format_.template_source.empty())
    chat_ = ChatTemplate::parse(format_.template_source, name,
                                text::chat_template::special_token_texts(tokenizer.files(), kTokenizerFile));
  else
    chat_ = ChatTemplate::of(tokenizer.files(), kTokenizerFile);
  if (!chat_ && !format_.messages.empty())
    throw ConfigError("messages: the tokenizer has no chat template, expected one",
                      "name a file: template = \"FILE.jinja\"");
  identity_ = fmt::format("instructions 1\n{}\n{}\n{}\n", format_.messages, format_.prompt, format_.answer);
  if (!chat_) return;
  for (const auto& [token, text] : chat_->tokens()) identity_ += fmt::format("{}={}\n", token, text);
  identity_ += chat_->source();
}

std::string InstructionEncoder::keys() const {
  return format_.messages.empty() ? format_.prompt + ", " + format_.answer : format_.messages;
}

Conversation InstructionEncoder::conversation(std::string_view record, const std::string& place) const {
  const Json json = parse_record(record);
  if (format_.messages.empty())
    return Conversation::of(
        {{"user", text_of(json, format_.prompt)}, {"assistant", text_of(json, format_.answer)}});
  Json talk = {{"messages", need_key(json, format_.messages)}};
  for (const char* key : {"tools", "documents"})
    if (const auto found = json.find(key); found != json.end()) talk[key] = *found;
  return Conversation::parse(talk.dump(), place);
}

MaskedIds InstructionEncoder::encode_plain(const std::string& prompt, const std::string& answer) const {
  Rendered rendered{.text = prompt + "\n" + answer, .answers = {}, .ordinary = {}};
  rendered.ordinary = {{0, rendered.text.size()}};
  rendered.answers = {{prompt.size() + 1, rendered.text.size()}};
  MaskedIds masked = mask_answers(tokenizer_, rendered);
  const SpecialTokens& special = tokenizer_.special_tokens();
  masked.ids.insert(masked.ids.begin(), special.before.begin(), special.before.end());
  masked.loss_mask.insert(masked.loss_mask.begin(), special.before.size(), 0);
  if (special.end) {
    masked.ids.push_back(*special.end);
    masked.loss_mask.push_back(1);
  }
  return masked;
}

MaskedIds InstructionEncoder::encode(std::string_view record, const std::string& place) const {
  try {
    MaskedIds masked;
    if (chat_) {
      masked =
          mask_answers(tokenizer_, chat_->render(conversation(record, "the record"), {.find_answers = true}));
    } else {
      const Json json = parse_record(record);
      const std::string answer = text_of(json, format_.answer);
      check(!answer.empty(), "the conversation has no answer: '{}' is empty", format_.answer);
      masked = encode_plain(text_of(json, format_.prompt), answer);
    }
    check(std::ranges::find(masked.loss_mask, uint8_t{1}) != masked.loss_mask.end(),
          "the conversation has no answer, expected a message of role assistant that the template shows");
    return masked;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", place, error.what()), error.hint());
  }
}

}  // namespace athanor::data::instructions
