#include "athanor/text/chat_template/conversation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

using Json = nlohmann::ordered_json;

// `is_message`: the value is a message, of which the role is no text that the message could forge a turn with.
Value value_of(const Json& json, Origin origin, bool is_message) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value(Value::Held(None{}));
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX) return Value(json.get<double>());
      return Value(json.get<int64_t>());
    case Json::value_t::string:
      return make_text(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: {
      List items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(value_of(item, origin, false));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      Map map;
      for (const auto& [key, item] : json.items())
        map.put(MarkedText(key, origin),
                value_of(item, is_message && key == "role" ? kFromData : origin, false));
      return make_map(std::move(map));
    }
    default:
      fail("a conversation holds a value that is no JSON");
  }
}

Json parse_json(std::string_view text, const std::string& name) {
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    check(depth < kMaxNesting - 4, "{}: nested deeper than {} levels", name, kMaxNesting - 4);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& error) {
    const std::string_view what = error.what();
    fail("{}: not valid JSON: {}", name, what.substr(what.find("] ") + 2));
  }
}

}  // namespace

void Conversation::add(Value message, const std::string& name) {
  const size_t i = messages_.size();
  check(i < kMaxMessages, "{}: more than {} messages", name, kMaxMessages);
  check(message.map() != nullptr, "{}: messages[{}]: got {}, expected an object", name, i,
        message.type_name());
  const Value* const role = message.map()->find("role");
  check(role && role->text(), "{}: messages[{}]: got no text under 'role'", name, i);
  roles_.push_back(role->text()->bytes());
  messages_.push_back(std::move(message));
}

Conversation Conversation::parse(std::string_view json, const std::string& name) {
  const Json root = parse_json(json, name);
  Conversation conversation;
  const Json* messages = root.is_array() ? &root : nullptr;
  if (root.is_object())
    for (const auto& [key, value] : root.items()) {
      if (key == "messages")
        messages = &value;
      else
        conversation.variables_.emplace_back(key, value_of(value, kFromData, false));
    }
  check(messages != nullptr, "{}: got no 'messages', expected an object with a list of messages", name);
  check(messages->is_array(), "{}: messages: got {}, expected a list", name, messages->type_name());
  for (const Json& message : *messages)
    conversation.add(
        value_of(message, message_origin(std::min(conversation.messages_.size(), kMaxMessages)), true), name);
  return conversation;
}

Conversation Conversation::of(const std::vector<Message>& messages) {
  Conversation conversation;
  for (const Message& message : messages) {
    Map map;
    map.put(MarkedText("role"), make_text(message.role, kFromData));
    map.put(
        MarkedText("content"),
        make_text(message.content, message_origin(std::min(conversation.messages_.size(), kMaxMessages))));
    conversation.add(make_map(std::move(map)), "a conversation");
  }
  return conversation;
}

Value Conversation::messages(size_t count) const {
  return make_list({messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count)});
}

}  // namespace athanor::text::chat_template
