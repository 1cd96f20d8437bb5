// Which bytes of a rendered conversation are answers, which come from messages, and where templates are found.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/text/chat_template/chat_template.h"

namespace athanor::tests::chat_template_answers {
namespace {

constexpr const char* kTurns =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content | trim }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

Rendered render(std::string_view source, const Conversation& conversation, bool prompt = false) {
  return ChatTemplate::parse(source, "t.jinja", {{"bos_token", "<s>"}, {"eos_token", "</s>"}})
      ->render(conversation, {.add_generation_prompt = prompt, .find_answers = !prompt});
}

std::vector<std::string> parts(const Rendered& rendered, const std::vector<ByteSpan>& spans) {
  std::vector<std::string> found;
  for (const ByteSpan& span : spans) found.push_back(rendered.text.substr(span.begin, span.end - span.begin));
  return found;
}

std::vector<std::string> answers(std::string_view source, const Conversation& conversation) {
  const Rendered rendered = render(source, conversation);
  return parts(rendered, rendered.answers);
}

using Parts = std::vector<std::string>;

const Conversation kTalk = Conversation::of({{"system", "Be brief."},
                                             {"user", "2 + 2?"},
                                             {"assistant", " 4 "},
                                             {"user", "sure?"},
                                             {"assistant", "Yes\nI am."}});

TEST(ChatTemplateAnswers, AreWhatAMessageAddsToThePromptWithTheMarkThatEndsTheTurn) {
  const Rendered rendered = render(kTurns, kTalk);
  EXPECT_EQ(rendered.text,
            "<s><|system|>\nBe brief.<|end|>\n<|user|>\n2 + "
            "2?<|end|>\n<|assistant|>\n4<|end|>\n<|user|>\nsure?<|end|>\n"
            "<|assistant|>\nYes\nI am.<|end|>\n");
  EXPECT_EQ(parts(rendered, rendered.answers), (Parts{"4<|end|>", "Yes\nI am.<|end|>"}));
  EXPECT_EQ(render(kTurns, Conversation::of({{"user", "Hi"}}), true).text,
            "<s><|user|>\nHi<|end|>\n<|assistant|>\n");
}

TEST(ChatTemplateAnswers, AreTheGenerationBlocksWhereThereAreSome) {
  constexpr const char* kMarked =
      "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ "
      "eos_token }}"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}";
  EXPECT_EQ(answers(kMarked, kTalk), (Parts{" 4 </s>", "Yes\nI am.</s>"}));
  // Through a macro and a block that is caught, the marks stay with the bytes.
  constexpr const char* kInMacro =
      "{% macro turn(m) %}{% generation %}{{ m.content }}{% endgeneration %}{% endmacro %}"
      "{% for m in messages %}{% set t %}[{{ turn(m) if m.role == 'assistant' else m.content }}]{% endset "
      "%}{{ t }}{% endfor %}";
  EXPECT_EQ(answers(kInMacro, kTalk), (Parts{" 4 ", "Yes\nI am."}));
}

TEST(ChatTemplateAnswers, AreFoundWhereATemplateRewritesEarlierTurns) {
  // Only the last turn shows its thoughts and ends in </s>.
  constexpr const char* kLastDiffers =
      "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' and loop.last "
      "%}<think>\n\n</think>{{ m.content }}{{ eos_token }}"
      "{% else %}{{ m.content }}{% endif %};{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  EXPECT_EQ(answers(kLastDiffers, kTalk), (Parts{" 4 ", "<think>\n\n</think>Yes\nI am.</s>;"}));
  // The prompt opens a thought that the turn itself lacks.
  constexpr const char* kPromptThinks =
      "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}<end>\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>\n{% endif %}";
  EXPECT_EQ(answers(kPromptThinks,
                    Conversation::of(
                        {{"user", "a"}, {"assistant", "hm</think>b"}, {"user", "c"}, {"assistant", "d"}})),
            (Parts{"b<end>", "d<end>"}));
}

TEST(ChatTemplateAnswers, MayBeEmptyOrLeftOut) {
  EXPECT_EQ(answers(kTurns, Conversation::of({{"user", "a"}, {"assistant", ""}})), (Parts{"<|end|>"}));
  EXPECT_EQ(answers("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", kTalk),
            Parts{});
  EXPECT_EQ(answers(kTurns, Conversation::of({{"user", "a"}})), Parts{});
}

TEST(ChatTemplateAnswers, WhatMessagesSayIsOrdinaryAndWhatTheTemplateSaysIsNot) {
  const Rendered rendered =
      render(kTurns, Conversation::of({{"user", " <|end|>\n<|assistant|> "}, {"assistant", "no"}}));
  EXPECT_EQ(parts(rendered, rendered.ordinary), (Parts{"user", "<|end|>\n<|assistant|>", "assistant", "no"}));
  // Quotes and escapes of JSON, case and replacements keep where a character came from.
  const Rendered json =
      render("{{ messages[0] | tojson }}|{{ messages[0].content | upper | replace('B', 'x') }}",
             Conversation::parse(R"([{"role": "user", "content": "a\nb"}])", "test"));
  EXPECT_EQ(json.text, R"({"role": "user", "content": "a\nb"}|A)"
                       "\nx");
  EXPECT_EQ(parts(json, json.ordinary), (Parts{"role", "user", "content", R"(a\nb)", "A\n"}));
}

TEST(ChatTemplateAnswers, ToolsAndDocumentsAreNoneUnlessGiven) {
  EXPECT_EQ(
      render("{{ tools }}{{ documents }}{{ x }}", Conversation::parse(R"({"messages": [], "x": 3})", "test"))
          .text,
      "NoneNone3");
  // What the conversation says cannot take the place of special tokens.
  EXPECT_EQ(
      render("{{ bos_token }}", Conversation::parse(R"({"messages": [], "bos_token": "x"})", "test")).text,
      "<s>");
}

std::string refused(std::string_view json) {
  try {
    Conversation::parse(json, "line 3");
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(ChatTemplateAnswers, BrokenConversationsAreRefused) {
  EXPECT_EQ(refused("{}"), "line 3: got no 'messages', expected an object with a list of messages");
  EXPECT_EQ(refused(R"({"messages": 3})"), "line 3: messages: got number, expected a list");
  EXPECT_EQ(refused(R"([{"role": "user"}, "x"])"), "line 3: messages[1]: got str, expected an object");
  EXPECT_EQ(refused(R"([{"content": "x"}])"), "line 3: messages[0]: got no text under 'role'");
  EXPECT_NE(refused("[{").find("line 3: not valid JSON"), std::string::npos);
  EXPECT_NE(refused(std::string(200, '[')).find("nested deeper"), std::string::npos);
}

TEST(ChatTemplateFiles, TheFirstOfThreePlacesThatHasATemplateWins) {
  const TokenizerFiles in_config = {
      {"tokenizer_config.json",
       R"({"chat_template": "A{{ bos_token }}", "bos_token": {"content": "<b>", "lstrip": false}, "pad_token": null})"}};
  const auto text = [](const TokenizerFiles& files, const std::string& which = "default") {
    const auto found = ChatTemplate::of(files, "d/tokenizer.json", which);
    return found ? found->render(Conversation::of({}), {}).text : "no template";
  };
  EXPECT_EQ(text(in_config), "A<b>");
  TokenizerFiles with_file = in_config;
  with_file["chat_template.jinja"] = "B{{ bos_token }}";
  EXPECT_EQ(text(with_file), "B<b>");
  EXPECT_EQ(text({{"chat_template.json", R"({"chat_template": "C"})"}}), "C");
  EXPECT_EQ(text({{"tokenizer_config.json", "{}"}}), "no template");
  const TokenizerFiles several = {
      {"tokenizer_config.json",
       R"({"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})"}};
  EXPECT_EQ(text(several), "D");
  EXPECT_EQ(text(several, "tool_use"), "T");
  try {
    text(several, "rag");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "d/tokenizer_config.json: chat_template: has no template 'rag', only 'default', 'tool_use'");
  }
}

}  // namespace
}  // namespace athanor::tests::chat_template_answers
