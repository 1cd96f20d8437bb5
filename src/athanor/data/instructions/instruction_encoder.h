// Conversations of JSON lines as token ids with a loss on the answers alone.
//
//   const InstructionFormat format{.prompt = "question", .answer = "answer"};
//   const InstructionEncoder encoder(tokenizer, format);
//   MaskedIds masked = encoder.encode(R"({"question": "2 + 2?", "answer": "4"})", "'a.jsonl' line 1");
//
// A record is one conversation: a list of {role, content} under a key (its other keys `tools` and `documents` go to the
// template, too), or the texts of a user's message and of the answer to it, which may be templates of keys as
// data.text_key (documents/text_key.h). It is rendered by the given template, else by the tokenizer's own
// (text/chat_template). Without either a prompt and an answer are joined by a line end, with the tokens that the tokenizer
// puts before a text and its end-of-text token, which is part of the answer; a list of messages is refused.
//
// Errors: ConfigError for settings that do not fit together; Error naming the place for a record without the keys, one
// that the template refuses, and one without an answer. Thread rule: const methods from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "athanor/data/instructions/masked_ids.h"
#include "athanor/text/chat_template/chat_template.h"
#include "athanor/text/tokenizer.h"

namespace athanor::data::instructions {

struct InstructionFormat {
  std::string messages = {};             // the key of a list of messages, or
  std::string prompt = {}, answer = {};  // two text keys
  std::string template_source = {};      // Jinja; empty: the tokenizer's own
  std::string template_name = {};        // of its file, for messages

  bool is_set() const {
    return !messages.empty() || !prompt.empty() || !answer.empty() || !template_source.empty();
  }
};

// The format by its keys; reads the template's file. `template_path` may be empty.
InstructionFormat instruction_format(Env& env, const std::string& messages, const std::string& prompt,
                                     const std::string& answer, const std::string& template_path);

class InstructionEncoder {
 public:
  // The tokenizer must outlive it.
  InstructionEncoder(const Tokenizer& tokenizer, InstructionFormat format);

  // `place` is where the record stands, for messages.
  MaskedIds encode(std::string_view record, const std::string& place) const;
  // What the ids depend on beside the tokenizer and the records. Part of cache keys.
  const std::string& identity() const { return identity_; }
  std::string keys() const;  // "messages", "question, answer": for people

 private:
  Conversation conversation(std::string_view record, const std::string& place) const;
  MaskedIds encode_plain(const std::string& prompt, const std::string& answer) const;

  const Tokenizer& tokenizer_;
  InstructionFormat format_;
  std::shared_ptr<const ChatTemplate> chat_;  // null: the plain form
  std::string identity_;
};

}  // namespace athanor::data::instructions

namespace athanor {
using athanor::data::instructions::instruction_format;
using athanor::data::instructions::InstructionEncoder;
using athanor::data::instructions::InstructionFormat;
}  // namespace athanor
