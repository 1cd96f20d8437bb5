// Chat templates of Hugging Face tokenizers: conversations become text, and the answers in it are known.
//
//   const auto chat = ChatTemplate::of(tokenizer->files(), "llama-3/tokenizer.json");   // null: it has none
//   const auto talk = Conversation::of({{"user", "2 + 2?"}, {"assistant", "4"}});
//   const Rendered rendered = chat->render(talk, {.find_answers = true});
//   // rendered.text is what transformers renders; rendered.answers are the bytes to learn: "4<|eot_id|>"
//
// A template is read by our own interpreter of the part of Jinja that such templates use (parser.h, filters.h,
// methods.h, tests.h, functions.h), set up as transformers does: trim_blocks, lstrip_blocks, break and continue,
// {% generation %}. Where Jinja in Python and other interpreters differ, Python holds: {{ none }} writes None. Text is
// never escaped for HTML. Lists cannot be changed, as in the sandbox of transformers.
//
// Variables: those of the conversation; tools and documents are none unless it has them; add_generation_prompt; the
// special tokens that the tokenizer's files name (bos_token, eos_token, ...); strftime_now() if `now` is given.
//
// Answers: what stands in {% generation %}, if the template has it. Otherwise the answer of message i, of role assistant,
// is what rendering messages 0 to i adds to messages 0 to i-1 with the generation prompt, without white space behind the
// mark that ends the turn. A template may render a turn in another way once others follow (it leaves out what the model
// thought): then the answer is the text of the message where it stands in the whole, with as much of the template's text
// around it as is the same. A message of which the whole shows nothing gives no answer.
//
// Errors: Error naming the template and the line: unknown constructs when it is parsed; when it is rendered wrong types,
// raise_exception(), a template that takes too long (evaluator.h).
// Thread rule: const methods from any thread. Source: jinja.palletsprojects.com, templates.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/byte_span.h"
#include "athanor/text/chat_template/conversation.h"
#include "athanor/text/chat_template/evaluator.h"
#include "athanor/text/chat_template/functions.h"
#include "athanor/text/tokenizer_files.h"

namespace athanor::text::chat_template {

struct RenderOptions {
  bool add_generation_prompt = false;
  bool find_answers = false;
  std::optional<TemplateTime> now = {};
  RenderLimits limits = {};
};

struct Rendered {
  std::string text;
  std::vector<ByteSpan> answers;   // in order, not empty; only with find_answers
  std::vector<ByteSpan> ordinary;  // what came from the conversation: no special tokens are to be read there
};

class ChatTemplate {
 public:
  // `tokens`: the variables of special tokens, such as {"bos_token", "<s>"}.
  static std::shared_ptr<const ChatTemplate> parse(std::string_view source, const std::string& name,
                                                   std::map<std::string, std::string> tokens = {});
  // The template of a tokenizer: chat_template.jinja, else "chat_template" of tokenizer_config.json (a text, or a list of
  // {"name", "template"} of which `which` is taken), else of chat_template.json. Null if no file has one.
  static std::shared_ptr<const ChatTemplate> of(const TokenizerFiles& files,
                                                const std::string& tokenizer_name,
                                                const std::string& which = "default");

  Rendered render(const Conversation& conversation, const RenderOptions& options) const;
  const std::string& source() const { return source_; }
  const std::map<std::string, std::string>& tokens() const { return tokens_; }

 private:
  ChatTemplate(std::string_view source, const std::string& name, std::map<std::string, std::string> tokens);
  MarkedText render_first(const Conversation& conversation, size_t count, bool prompt,
                          const RenderOptions& options) const;
  ByteSpan answer_of(const Conversation& conversation, size_t message, const MarkedText& whole,
                     const RenderOptions& options) const;

  std::string source_, name_;
  std::map<std::string, std::string> tokens_;
  Block block_;
  bool marks_answers_ = false;
};

// The special tokens that tokenizer_config.json and special_tokens_map.json name: {"eos_token": "</s>", ...}.
std::map<std::string, std::string> special_token_texts(const TokenizerFiles& files,
                                                       const std::string& tokenizer_name);

}  // namespace athanor::text::chat_template

namespace athanor {
using text::chat_template::ChatTemplate;
using text::chat_template::Conversation;
using text::chat_template::Rendered;
}  // namespace athanor
