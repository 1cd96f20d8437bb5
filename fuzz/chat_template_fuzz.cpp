// A chat template from any bytes, and behind a zero byte a conversation. What parses is rendered within small bounds.
// Whatever is wrong is an Error; spans must lie in the text and be UTF-8 where the text is.
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/text/chat_template/chat_template.h"

namespace {

constexpr const char* kTalk =
    R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a \u00e9\n"}, )"
    R"({"role": "assistant", "content": "b", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]}], )"
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "flag": true})";

void check_spans(const athanor::Rendered& rendered, const std::vector<athanor::ByteSpan>& spans) {
  size_t done = 0;
  for (const athanor::ByteSpan& span : spans) {
    if (span.begin < done || span.begin >= span.end || span.end > rendered.text.size()) std::abort();
    done = span.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  try {
    const auto chat = athanor::ChatTemplate::parse(input.substr(0, cut), "fuzz", {{"bos_token", "<s>"}});
    const auto talk =
        athanor::Conversation::parse(cut == std::string_view::npos ? kTalk : input.substr(cut + 1), "fuzz");
    athanor::text::chat_template::RenderOptions options{.find_answers = true};
    options.now = athanor::text::chat_template::TemplateTime{};
    options.limits = {.steps = 20'000, .text_bytes = 100'000};
    const athanor::Rendered rendered = chat->render(talk, options);
    check_spans(rendered, rendered.answers);
    check_spans(rendered, rendered.ordinary);
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}
