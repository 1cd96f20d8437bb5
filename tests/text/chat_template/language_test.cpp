// The language of templates: what each construct writes, by Jinja's documentation and Python's.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/text/chat_template/chat_template.h"

namespace athanor::tests::chat_template_language {
namespace {

using text::chat_template::RenderOptions;

std::string render(std::string_view source, std::string_view variables = "{}",
                   const RenderOptions& options = {}) {
  std::string json(variables);
  json.insert(json.size() - 1, json.size() > 2 ? R"(, "messages": [])" : R"("messages": [])");
  return ChatTemplate::parse(source, "t.jinja")->render(Conversation::parse(json, "test"), options).text;
}

std::string refusal(std::string_view source, std::string_view variables = "{}",
                    const RenderOptions& options = {}) {
  try {
    render(source, variables, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

TEST(ChatTemplateLanguage, WhiteSpaceAroundTagsFollowsTrimAndLstripBlocks) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(render("a  {% if true %} b{% endif %}"), "a   b");  // no line begins before the tag
  EXPECT_EQ(render("a \n {%- if true -%} \n b {%- endif %}"), "ab");
  EXPECT_EQ(render("  {%+ if true +%}\nb{% endif %}"), "  \nb");
  EXPECT_EQ(render("a\n  {{ 1 }}\nb"), "a\n  1\nb");  // outputs keep their surroundings
  EXPECT_EQ(render("a {{- 1 -}} b"), "a1b");
  EXPECT_EQ(render("x\n  {# note #}\ny"), "x\ny");
  EXPECT_EQ(render("x {#- note -#} y"), "xy");
  EXPECT_EQ(render("{% if true %}\r\nb\r\n{% endif %}"), "b\n");
  EXPECT_EQ(render("{% raw %}{{ x }}{% y %}{% endraw %}!"), "{{ x }}{% y %}!");
  EXPECT_EQ(render("{{ {'a': {'b': 1}}['a']['b'] }}"), "1");  // braces of a map do not end the tag
}

TEST(ChatTemplateLanguage, ValuesAreWrittenAsPythonWritesThem) {
  EXPECT_EQ(render("{{ none }}|{{ true }}|{{ missing }}|{{ 1.0 }}|{{ 1e20 }}|{{ [1, 'a', none] }}|{{ {'k': "
                   "'it\\'s'} }}|{{ (1,) }}"),
            "None|True||1.0|1e+20|[1, 'a', None]|{'k': \"it's\"}|(1,)");
  EXPECT_EQ(render("{{ '\\n\\t\\x41\\u00e9\\'' }}"), "\n\tA\u00e9'");
  EXPECT_EQ(render("{{ 'a' 'b' ~ 1 ~ none }}"), "ab1None");
}

TEST(ChatTemplateLanguage, OperatorsBindAndRoundAsInPython) {
  EXPECT_EQ(
      render(
          "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1 + 2 * 3 }}"),
      "3 -4 2 3.5 1024 0.5 7");
  EXPECT_EQ(render("{{ not 1 == 2 }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] "
                   "}} {{ 'k' in {'k': 1} }}"),
            "True True False True True True");
  EXPECT_EQ(render("{{ '' or 'x' }} {{ [] and 1 }} {{ 1 if false else 2 }}{{ 1 if false }}"), "x [] 2");
  EXPECT_EQ(render("{{ 'ab' * 2 }} {{ [1] + [2] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }}"),
            "abab [1, 2] True True False");
  EXPECT_EQ(render("{{ -1 | abs }} {{ 1 is not string and 2 is odd }}"),
            "1 False");  // a filter takes the signed number
}

TEST(ChatTemplateLanguage, SlicesCountCharacters) {
  EXPECT_EQ(
      render("{{ x[1:3] }}|{{ x[::-1] }}|{{ x[-1] }}|{{ x[:-1] }}|{{ x | length }}", R"({"x": "aé你b"})"),
      "é你|b你éa|b|aé你|4");
  EXPECT_EQ(render("{{ x[1:] }} {{ x[::2] }} {{ x[5:] }} {{ x[-2:] }} {{ x[2:0:-1] }}", R"({"x": [1,2,3]})"),
            "[2, 3] [1, 3] [] [2, 3] [3, 2]");
}

TEST(ChatTemplateLanguage, LoopsHaveTheirOwnScopeAndTheirState) {
  EXPECT_EQ(
      render("{% for a in [1,2,3] if a != 2 %}{{ loop.index }}{{ loop.last }}{{ loop.length }} {% endfor %}"),
      "1False2 2True2 ");
  EXPECT_EQ(render("{% for a in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% set n = 0 %}{% for a in [1,2] %}{{ n }}{% set n = 5 %}{{ n }}{% endfor %}{{ n }}"),
            "05050");
  EXPECT_EQ(
      render(
          "{% set ns = namespace(n=0) %}{% for a in [1,2] %}{% set ns.n = ns.n + a %}{% endfor %}{{ ns.n }}"),
      "3");
  EXPECT_EQ(render("{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", R"({"m": {"z": 1, "a": 2}})"),
            "z=1;a=2;");
  EXPECT_EQ(render("{% for a in [1,2,3,4] %}{% if a == 2 %}{% continue %}{% endif %}{% if a == 4 %}{% break "
                   "%}{% endif %}{{ a }}{% endfor %}"),
            "13");
  EXPECT_EQ(render("{% for a in [1,2,3] %}{{ loop.previtem }}-{{ loop.nextitem }}{{ loop.cycle('x','y') }} "
                   "{% endfor %}"),
            "-2x 1-3y 2-x ");
}

TEST(ChatTemplateLanguage, SetMacrosAndBlocks) {
  EXPECT_EQ(render("{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set t %}x{{ a }}{% endset %}[{{ t }}]"), "21[x1]");
  EXPECT_EQ(
      render(
          "{% macro f(a, b='d') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, b=2) }} {{ f('x')|upper }}"),
      "1d 12 XD");
  EXPECT_EQ(render("{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"),
            "321");
  EXPECT_EQ(
      render("{% macro box() %}<{{ caller(7) }}>{% endmacro %}{% call(v) box() %}got {{ v }}{% endcall %}"),
      "<got 7>");
  EXPECT_EQ(render("{% filter trim | upper %}  ab {% endfilter %}"), "AB");
  EXPECT_EQ(
      render("{% set y = 1 %}{% macro f() %}{{ y }}{% endmacro %}{% for y in [2] %}{{ f() }}{% endfor %}"),
      "1");  // lexical
}

TEST(ChatTemplateLanguage, FiltersAndMethods) {
  EXPECT_EQ(render("{{ x | tojson }}", R"({"x": {"b": [1, 2.5, null, true], "a": "é\"<\n\u0001"}})"),
            "{\"b\": [1, 2.5, null, true], \"a\": \"é\\\"<\\n\\u0001\"}");
  EXPECT_EQ(render("{{ x | tojson(indent=2) }}", R"({"x": {"b": [1], "a": {}, "c": []}})"),
            "{\n  \"b\": [\n    1\n  ],\n  \"a\": {},\n  \"c\": []\n}");
  EXPECT_EQ(render("{{ x | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}",
                   R"({"x": {"b": "😀", "a": 1}})"),
            "{\"a\":1,\"b\":\"\\ud83d\\ude00\"}");
  EXPECT_EQ(render("{{ m | selectattr('r', 'equalto', 'u') | map(attribute='c') | join(',') }}|{{ m | "
                   "rejectattr('r', 'in', ['u']) | list | length }}",
                   R"({"m": [{"r": "u", "c": 1}, {"r": "a", "c": 2}, {"r": "u", "c": 3}]})"),
            "1,3|1");
  EXPECT_EQ(render("{{ missing | default('d') }} {{ '' | default('d', true) }} {{ none | default('d') }}"),
            "d d None");
  EXPECT_EQ(render("{{ ' a b  c '.split() }} {{ 'a,b,,c'.split(',', 1) }} {{ ' a b '.split(none, 1) }} {{ 'a "
                   "b c'.rsplit(' ', 1) }}"),
            "['a', 'b', 'c'] ['a', 'b,,c'] ['a', 'b '] ['a b', 'c']");
  EXPECT_EQ(render("{{ 'xxaxx'.strip('x') }}{{ '\u00a0a\n'.strip() }}{{ 'aXb'.lower() }}{{ 'ß'.upper() }}{{ "
                   "\"they're\".title() }}{{ 'éA'.capitalize() }}"),
            "aaaxbSSThey'ReÉa");
  EXPECT_EQ(render("{{ 'a-b'.replace('-', '+') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ "
                   "'abc'.startswith(('x', 'a')) }} {{ 'abc'.find('c') }}"),
            "a+b bba True 2");
  EXPECT_EQ(render("{{ [3,1,2] | sort }} {{ ['b','A'] | sort | join }} {{ {'b': 1, 'a': 2} | dictsort }} {{ "
                   "[1,1,2] | unique | list }} {{ [1,5] | max }} {{ 'a\n\nb' | indent(2) }}"),
            "[1, 2, 3] Ab [('a', 2), ('b', 1)] [1, 2] 5 a\n\n  b");
  EXPECT_EQ(render("{{ '3.9' | int }} {{ 'x' | int(7) }} {{ 2.567 | round(2) }} {{ 'abc' | first }}{{ [1,2] "
                   "| last }} {{ [1,2] | sum }}"),
            "3 7 2.57 a2 3");
}

TEST(ChatTemplateLanguage, UndefinedValuesAreFalseAndEmptyButHaveNoAttributes) {
  EXPECT_EQ(render("{{ x is defined }}{{ x is undefined }}{% for a in x %}{% endfor %}{{ x | length }}{{ m.y "
                   "is defined }}",
                   R"({"m": {}})"),
            "FalseTrue0False");
  EXPECT_EQ(refusal("\n{{ x.y }}"), "t.jinja line 2: 'x' is undefined, so it has no attribute 'y'");
  EXPECT_EQ(refusal("{{ 'a' + x }}"),
            "t.jinja line 1: +: got str and undefined ('x'), expected values that it takes");
  EXPECT_EQ(refusal("{{ f(1) }}"), "t.jinja line 1: 'f' is undefined, so it cannot be called");
}

TEST(ChatTemplateLanguage, TimeComesFromTheCaller) {
  const RenderOptions options{
      .now = text::chat_template::TemplateTime{.year = 2024, .month = 7, .day = 26, .hour = 15}};
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A, %I %p, day %j') }}", "{}", options),
            "26 Jul 2024, Friday, 03 PM, day 208");
  EXPECT_EQ(render("{{ strftime_now is defined }}"), "False");
  EXPECT_NE(refusal("{{ strftime_now('%Q') }}", "{}", options).find("got '%Q'"), std::string::npos);
}

TEST(ChatTemplateLanguage, WhatIsNotKnownIsRefusedByNameAndLineWhenParsed) {
  const auto parse_error = [](std::string_view source) {
    try {
      ChatTemplate::parse(source, "t.jinja");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("parsed");
  };
  EXPECT_NE(parse_error("a\n{% include 'x' %}").find("t.jinja line 2: got the statement 'include'"),
            std::string::npos);
  EXPECT_EQ(parse_error("{% if 0 %}\n{{ x | shout }}{% endif %}"),
            "t.jinja line 2: got the filter 'shout', which is not known");
  EXPECT_EQ(parse_error("{{ x is blue }}"), "t.jinja line 1: got the test 'blue', which is not known");
  EXPECT_EQ(parse_error("{% for a in b recursive %}{% endfor %}"),
            "t.jinja line 1: 'recursive' loops are not supported");
  EXPECT_EQ(parse_error("{% if x %}\n\n"),
            "t.jinja line 2: got the end of the template, expected {% endif %}");
  EXPECT_EQ(parse_error("{% endfor %}"), "t.jinja line 1: {% endfor %} ends nothing that is open here");
  EXPECT_EQ(parse_error("{% break %}"), "t.jinja line 1: {% break %} stands outside of a loop");
  EXPECT_EQ(parse_error("{{ 'a"), "t.jinja line 1: a string is never closed");
  EXPECT_EQ(parse_error("\n{{ x "), "t.jinja line 2: a tag is never closed, expected }}");
  EXPECT_EQ(parse_error("{{ (1] }}"), "t.jinja line 1: ']' closes nothing");
  EXPECT_NE(parse_error("{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}")
                .find("nested deeper"),
            std::string::npos);
  std::string sum = "{{ 1";
  for (int i = 0; i < 2000; ++i) sum += "+1";
  EXPECT_NE(parse_error(sum + " }}").find("more than 400 levels"), std::string::npos);
}

TEST(ChatTemplateLanguage, WorkIsBounded) {
  const RenderOptions small{.limits = {.steps = 100'000, .text_bytes = 100'000}};
  EXPECT_EQ(refusal("\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{}",
                    small),
            "t.jinja line 2: the template takes more than 100000 steps: a loop without end?");
  EXPECT_NE(
      refusal("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("a macro calls itself without end"),
      std::string::npos);
  EXPECT_NE(
      refusal(
          "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          "{}", small)
          .find("grows beyond 100000 bytes"),
      std::string::npos);
  EXPECT_NE(refusal("{{ 'ab' * 99999999999 }}").find("the result has more than"), std::string::npos);
  EXPECT_EQ(refusal("{% for a in range(100001) %}{% endfor %}"),
            "t.jinja line 1: range: more than 100000 numbers");
  EXPECT_NE(
      refusal("{% set ns = namespace(l=[]) %}{% for i in range(500) %}{% set ns.l = [ns.l] %}{% endfor %}")
          .find("nested deeper"),
      std::string::npos);
  EXPECT_EQ(refusal("{% set ns = namespace() %}{% set ns.me = [ns] %}"),
            "t.jinja line 1: a namespace cannot be stored in a namespace");
  EXPECT_EQ(refusal("{{ raise_exception('No system role') }}"),
            "t.jinja line 1: the template refuses the conversation: No system role");
}

}  // namespace
}  // namespace athanor::tests::chat_template_language
