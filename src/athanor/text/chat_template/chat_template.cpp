#include "athanor/text/chat_template/chat_template.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/text/chat_template/parser.h"

namespace athanor::text::chat_template {
namespace {

bool has_generation(const Block& block) {
  return std::ranges::any_of(block, [](const Statement& statement) {
    return statement.kind == StatementKind::generation || has_generation(statement.body) ||
           has_generation(statement.otherwise);
  });
}

// The longest runs of bytes for which `holds` is true.
template <typename Holds>
std::vector<ByteSpan> runs(size_t size, const Holds& holds) {
  std::vector<ByteSpan> found;
  for (size_t at = 0; at < size; ++at) {
    if (!holds(at)) continue;
    if (!found.empty() && found.back().end == at)
      found.back().end = at + 1;
    else
      found.push_back({at, at + 1});
  }
  return found;
}

// From the first to behind the last byte of a message; empty if it has none.
ByteSpan extent(const MarkedText& text, size_t message) {
  ByteSpan found;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.origin(at) != message_origin(message)) continue;
    if (found.end == 0) found.begin = at;
    found.end = at + 1;
  }
  return found;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

size_t common_suffix(std::string_view a, std::string_view b) {
  size_t size = 0;
  while (size < std::min(a.size(), b.size()) && a[a.size() - 1 - size] == b[b.size() - 1 - size]) ++size;
  return size;
}

// Without the white space behind the mark that ends a turn; `said` is the end of the message's own text.
size_t without_space_behind_mark(std::string_view text, size_t said, size_t end) {
  const size_t last = text.substr(0, end).find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && last >= said ? last + 1 : end;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const std::string& name,
                           std::map<std::string, std::string> tokens)
    : source_(source), name_(name), tokens_(std::move(tokens)), block_(parse_template(source, name)) {
  marks_answers_ = has_generation(block_);
}

std::shared_ptr<const ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& name,
                                                        std::map<std::string, std::string> tokens) {
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(source, name, std::move(tokens)));
}

MarkedText ChatTemplate::render_first(const Conversation& conversation, size_t count, bool prompt,
                                      const RenderOptions& options) const {
  Evaluator evaluator(block_, name_, options.limits);
  define_functions(evaluator, options.now);
  for (const char* name : {"tools", "documents"}) evaluator.define(name, Value(Value::Held(None{})));
  for (const auto& [name, value] : conversation.variables()) evaluator.define(name, value);
  for (const auto& [name, text] : tokens_) evaluator.define(name, make_text(text));
  evaluator.define("messages", conversation.messages(count));
  evaluator.define("add_generation_prompt", Value(prompt));
  return evaluator.run();
}

Rendered ChatTemplate::render(const Conversation& conversation, const RenderOptions& options) const {
  const MarkedText whole =
      render_first(conversation, conversation.num_messages(), options.add_generation_prompt, options);
  Rendered rendered{.text = whole.bytes(), .answers = {}, .ordinary = {}};
  rendered.ordinary = runs(whole.size(), [&](size_t at) { return whole.origin(at) != kFromTemplate; });
  if (!options.find_answers) return rendered;
  if (marks_answers_) {
    rendered.answers = runs(whole.size(), [&](size_t at) { return whole.in_answer(at); });
    return rendered;
  }
  for (size_t i = 0; i < conversation.num_messages(); ++i) {
    if (conversation.role(i) != "assistant") continue;
    const ByteSpan answer = answer_of(conversation, i, whole, options);
    if (answer.begin < answer.end) rendered.answers.push_back(answer);
  }
  return rendered;
}

ByteSpan ChatTemplate::answer_of(const Conversation& conversation, size_t message, const MarkedText& whole,
                                 const RenderOptions& options) const {
  const std::string_view all = whole.bytes();
  const bool is_last = message + 1 == conversation.num_messages() && !options.add_generation_prompt;
  const MarkedText turns = is_last ? whole : render_first(conversation, message + 1, false, options);
  std::string before;
  bool has_before = true;
  try {
    before = render_first(conversation, message, true, options).bytes();
  } catch (const Error&) {  // the template refuses messages that end here
    has_before = false;
  }
  const ByteSpan in_whole = extent(whole, message), in_turns = extent(turns, message);
  const std::string_view own = turns.bytes();
  if (has_before && own.starts_with(before) && all.starts_with(before)) {
    const size_t size = common_prefix(own.substr(before.size()), all.substr(before.size()));
    const size_t end = before.size() + size, said = std::max(in_whole.end, before.size());
    if (end >= said) return {before.size(), without_space_behind_mark(all, said, end)};
  }
  if (in_whole.end == 0) return {};  // the whole shows nothing of it
  const size_t begin = has_before ? std::min(common_prefix(before, own), in_turns.begin) : in_turns.begin;
  const size_t lead = common_suffix(own.substr(begin, in_turns.begin - begin), all.substr(0, in_whole.begin));
  const size_t tail = common_prefix(own.substr(in_turns.end), all.substr(in_whole.end));
  return {in_whole.begin - lead, without_space_behind_mark(all, in_whole.end, in_whole.end + tail)};
}

}  // namespace athanor::text::chat_template
