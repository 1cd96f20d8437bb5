#include "chat_prompt.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/text/chat_template/chat_template.h"
#include "athanor/text/chat_template/lexer.h"

namespace athanor::apps {
namespace {

constexpr uint64_t kMaxMessagesBytes = uint64_t{64} << 20;

std::shared_ptr<const ChatTemplate> find_template(const Tokenizer& tokenizer, const ChatInput& chat) {
  if (chat.template_file.empty()) return ChatTemplate::of(tokenizer.files(), kTokenizerFile);
  return ChatTemplate::parse(
      system_env().read_text(chat.template_file, text::chat_template::kMaxTemplateBytes), chat.template_file,
      text::chat_template::special_token_texts(tokenizer.files(), kTokenizerFile));
}

// What stands behind the answer to a short conversation. A template that refuses it says nothing of its marks.
std::string mark_behind_answers(const ChatTemplate& chat) {
  try {
    const Rendered rendered =
        chat.render(Conversation::of({{"user", "x"}, {"assistant", "y"}}), {.find_answers = true});
    if (rendered.answers.empty() || rendered.ordinary.empty()) return {};
    const ByteSpan answer = rendered.answers.back(), said = rendered.ordinary.back();
    return said.end >= answer.end ? std::string() : rendered.text.substr(said.end, answer.end - said.end);
  } catch (const Error&) {
    return {};
  }
}

void add_stops(const Tokenizer& tokenizer, const std::string& mark, ChatPrompt& prompt) {
  if (mark.find_first_not_of(" \t\r\n") == std::string::npos) return;
  const std::vector<int32_t> ids = tokenizer.encode(mark);
  for (const int32_t id : ids) {
    const std::string token = tokenizer.token_of(id);
    // A token that is found only as a special one.
    if (mark.find(token) == std::string::npos) continue;
    const std::vector<int32_t> ordinary = tokenizer.encode_ordinary(token);
    if (std::ranges::find(ordinary, id) != ordinary.end()) continue;
    prompt.stop_ids.push_back(id);
    return;
  }
  prompt.stops.push_back(mark);
}

}  // namespace

bool has_chat_template(const Tokenizer& tokenizer, const ChatInput& chat) {
  return find_template(tokenizer, chat) != nullptr;
}

void add_chat_options(CLI::App& app, ChatInput& chat) {
  app.add_flag("--chat", chat.on,
               "Answer the prompt as a user's message, by the tokenizer's chat template; at a terminal "
               "without a prompt: a conversation");
  app.add_option("--system", chat.system, "What the system says before it (with --chat)")->type_name("TEXT");
  app.add_option(
         "--messages", chat.messages_file,
         "Answer a whole conversation: a JSON file, a list of {role, content} or an object with messages")
      ->type_name("FILE")
      ->excludes(app.get_option("--prompt"))
      ->excludes(app.get_option("--prompt-file"));
  app.add_option("--template", chat.template_file, "Chat template, in place of the tokenizer's (with --chat)")
      ->type_name("FILE");
}

void check_chat_options(ChatInput& chat) {
  if (!chat.messages_file.empty() && !chat.system.empty())
    throw ConfigError("--system: got it beside --messages, expected one of them", "write it into the file");
  if (!chat.messages_file.empty()) chat.on = true;
  if (!chat.on && (!chat.system.empty() || !chat.template_file.empty()))
    throw ConfigError(
        fmt::format("{}: got it without --chat", chat.system.empty() ? "--template" : "--system"),
        "add --chat");
}

ChatPrompt make_chat_prompt(const Tokenizer& tokenizer, const std::string& model_path, const ChatInput& chat,
                            const std::vector<text::chat_template::Message>& said) {
  ChatPrompt prompt;
  const auto found = find_template(tokenizer, chat);
  if (!found) {
    if (!chat.system.empty() || !chat.messages_file.empty())
      throw Error(
          fmt::format(
              "generate: the tokenizer of '{}' has no chat template, so only a --prompt can be answered",
              model_path),
          "give one: --template FILE.jinja");
    prompt.text = said.back().content + "\n";
    prompt.ids = tokenizer.encode_ordinary(prompt.text);
    const std::vector<int32_t>& before = tokenizer.special_tokens().before;
    prompt.ids.insert(prompt.ids.begin(), before.begin(), before.end());
    return prompt;
  }
  std::vector<text::chat_template::Message> messages;
  if (!chat.system.empty()) messages.push_back({"system", chat.system});
  messages.insert(messages.end(), said.begin(), said.end());
  const Conversation talk =
      chat.messages_file.empty()
          ? Conversation::of(messages)
          : Conversation::parse(system_env().read_text(chat.messages_file, kMaxMessagesBytes),
                                chat.messages_file);
  const Rendered rendered = found->render(talk, {.add_generation_prompt = true});
  prompt.text = rendered.text;
  prompt.ids = tokenizer.encode(rendered.text, rendered.ordinary);
  check(!prompt.ids.empty(), "generate: the chat template renders the conversation as an empty text");
  add_stops(tokenizer, mark_behind_answers(*found), prompt);
  return prompt;
}

}  // namespace athanor::apps
