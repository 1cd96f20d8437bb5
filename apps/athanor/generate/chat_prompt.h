// What generate --chat gives to the model: the conversation as the chat template renders it, up to where an answer begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/text/chat_template/conversation.h"
#include "athanor/text/tokenizer.h"

namespace CLI {
class App;
}

namespace athanor::apps {

struct ChatInput {
  bool on = false;
  std::string system, messages_file, template_file;
};

struct ChatPrompt {
  std::string text;
  std::vector<int32_t> ids;
  // What the template puts behind an answer: as a special token, or as a text.
  std::vector<int32_t> stop_ids;
  std::vector<std::string> stops;
};

void add_chat_options(CLI::App& app, ChatInput& chat);
// Settings that need --chat switch it on or are refused.
void check_chat_options(ChatInput& chat);
// `said`: what the conversation holds so far, behind --system, the newest message last; --messages stands in place of both.
// `model_path` is for messages. Without a template of its own or a given one, a tokenizer's prompt is the newest message
// and a line end, as such conversations are learned (data/instructions).
ChatPrompt make_chat_prompt(const Tokenizer& tokenizer, const std::string& model_path, const ChatInput& chat,
                            const std::vector<text::chat_template::Message>& said);
bool has_chat_template(const Tokenizer& tokenizer, const ChatInput& chat);

}  // namespace athanor::apps
