// What a template renders: messages, and beside them tools, documents and any other variables.
//
//   const auto chat = Conversation::parse(R"({"messages": [{"role": "user", "content": "Hi"}]})", "line 3");
//   const auto same = Conversation::of({{"user", "Hi"}});
//
// Texts of a message know its number (marked_text.h); its role and texts outside of messages count as data, too. Map
// keys keep their order. Errors: Error for broken JSON, messages that are no list of objects, a message without a
// role, more than kMaxMessages messages. Thread rule: plain data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/text/chat_template/value.h"

namespace athanor::text::chat_template {

struct Message {
  std::string role, content;
};

class Conversation {
 public:
  // An object with "messages", or the list of messages alone. `name` is for messages of errors.
  static Conversation parse(std::string_view json, const std::string& name);
  static Conversation of(const std::vector<Message>& messages);

  size_t num_messages() const { return messages_.size(); }
  const std::string& role(size_t i) const { return roles_[i]; }
  // The first `count` messages as the template sees them, and the other variables.
  Value messages(size_t count) const;
  const std::vector<std::pair<std::string, Value>>& variables() const { return variables_; }

 private:
  void add(Value message, const std::string& name);

  std::vector<Value> messages_;
  std::vector<std::string> roles_;
  std::vector<std::pair<std::string, Value>> variables_;
};

}  // namespace athanor::text::chat_template
