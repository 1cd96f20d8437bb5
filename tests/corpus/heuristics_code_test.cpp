#include <fstream>

#include "athanor/base/error.h"
#include "athanor/corpus/heuristics/comments.h"
#include "athanor/corpus/heuristics/html_text.h"
#include "corpus/heuristics_probe.h"
#include "support/temporary_folder.h"

namespace athanor::tests::heuristics_code_test {
namespace {

using heuristics_probe::expect_cases;
using heuristics_probe::probe;
using heuristics_probe::times;

uint64_t python(const std::string& source) {
  return comment_chars(source, CommentSyntax::kPython);
}
uint64_t slash(const std::string& source) {
  return comment_chars(source, CommentSyntax::kSlash);
}
uint64_t hash(const std::string& source) {
  return comment_chars(source, CommentSyntax::kHash);
}

TEST(CodeRules, CommentsOfPython) {
  const auto text = [](size_t comment, size_t all) {
    return "#" + std::string(comment - 1, 'c') + "\n" + std::string(all - comment - 1, 'x');
  };
  expect_cases("code",
               {{"code.python_comments", std::string(1000, 'x'), 0, false},
                {"code.python_comments", text(1, 1001), 1.0 / 1001, false},
                {"code.python_comments", text(1, 1000), 0.001, true},
                {"code.python_comments", text(2, 1000), 0.002, true},
                {"code.python_comments", text(84, 100), 0.84, true},
                {"code.python_comments", text(85, 100), 0.85, true},
                {"code.python_comments", text(86, 100), 0.86, false}},
               "repo/a.py");
}

TEST(CodeRules, CommentsOfOtherLanguages) {
  const auto text = [](size_t comment, size_t all) {
    return "/*" + std::string(comment, 'c') + "*/" + std::string(all - comment - 4, 'x');
  };
  expect_cases("code",
               {{"code.comments", text(0, 100), 0, false},
                {"code.comments", text(9, 1000), 0.009, false},
                {"code.comments", text(1, 100), 0.01, true},
                {"code.comments", text(85, 100), 0.85, true},
                {"code.comments", text(86, 100), 0.86, false}},
               "repo/a.cpp");
  for (const char* id : {"a.txt", "a.jsonl/3", "py", "a.d/py"}) {
    EXPECT_TRUE(std::isnan(probe("code", "# x", id).value("code.comments"))) << id;
    EXPECT_TRUE(std::isnan(probe("code", "# x", id).value("code.python_comments"))) << id;
  }
  EXPECT_TRUE(std::isnan(probe("code", "# x", "a.py").value("code.comments")));
}

// Of a tokenizer that knows a, b and ab.
TEST(CodeRules, CharactersPerToken) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("ab.json")) << R"({"version": "1.0", "model": {"type": "BPE",
      "vocab": {"a": 0, "b": 1, "ab": 2, "aab": 3}, "merges": ["a b", "a ab"]}})";
  const HeuristicsOptions options{.preset = "code", .tokenizer = folder.path("ab.json")};
  const auto stage = make_heuristics(options);
  const auto looked_at = [&](const std::string& text) {
    std::vector<double> values(stage->scores().size());
    Document document{.text = text};
    stage->annotate(document, values);
    return std::pair{values.back(), !stage->rules().back().broken_by(values)};
  };
  EXPECT_EQ(stage->rules().back().name, "code.chars_per_token");
  EXPECT_EQ(looked_at("ababbb"), std::pair(1.5, false));
  EXPECT_EQ(looked_at("ababab"), std::pair(2.0, true));
  EXPECT_EQ(looked_at("aabaab"), std::pair(3.0, true));
  EXPECT_TRUE(std::isnan(looked_at("").first));
  EXPECT_THROW(make_heuristics({.preset = "gopher", .tokenizer = folder.path("ab.json")}), ConfigError);
  EXPECT_THROW(make_heuristics({.preset = "code", .tokenizer = folder.path("none.json")}), IoError);
}

TEST(CodeRules, CommentsAreFoundOutsideOfStrings) {
  EXPECT_EQ(python("x = 1  # one\n"), 5u);
  EXPECT_EQ(python("x = '#no' + \"#no\" # yes"), 5u);
  EXPECT_EQ(python("x = 'it\\'s #no'\n"), 0u);
  EXPECT_EQ(python("def f():\n    \"\"\"Says\n    it.\"\"\"\n    return \"\"\"no\"\"\"\n"),
            12u);  // the docstring
  EXPECT_EQ(python("f(\n  'no',\n  'no')\nx = \\\n'no'\n'yes'\n"), 3u);
  EXPECT_EQ(python("x = '''\n# no\n''' # \u4e2d"), 3u);
  EXPECT_EQ(python("'''never ends"), 10u);
  EXPECT_EQ(hash("a#no $#  # yes\n# x\n'# no'"), 8u);
  EXPECT_EQ(slash("a // one\nb /* two\n */ \"// no /* no */\" '\"' // x"), 4u + 6u + 2u);
  EXPECT_EQ(slash("`//\n//no` // y"), 2u);
  EXPECT_EQ(slash("\"open\n// yes"), 4u);
  EXPECT_EQ(slash("/* never"), 6u);
}

TEST(CodeRules, TheEndingOfANameTellsTheLanguage) {
  EXPECT_EQ(name_ending("a/b.PY"), "py");
  EXPECT_EQ(name_ending("a/b.py.gz"), "py");
  EXPECT_EQ(name_ending("a/b.py/17"), "py");
  EXPECT_EQ(name_ending("a.b/c"), "");
  EXPECT_EQ(name_ending(""), "");
  EXPECT_EQ(comment_syntax_of("x.rs"), CommentSyntax::kSlash);
  EXPECT_EQ(comment_syntax_of("x.sh"), CommentSyntax::kHash);
}

TEST(CodeRules, LinesLettersAndXml) {
  expect_cases("code", {{"code.lines", times("\n", 3), 4, false},
                        {"code.lines", times("\n", 4), 5, true},
                        {"code.lines", times("\n", 5), 6, true},
                        {"code.lines", times("\n", 19'998), 19'999, true},
                        {"code.lines", times("\n", 19'999), 20'000, true},
                        {"code.lines", times("\n", 20'000), 20'001, false},
                        {"code.letters", "a1234", 0.2, false},
                        {"code.letters", "a123", 0.25, true},
                        {"code.letters", "\u4e2d12", 1.0 / 3, true},
                        {"code.xml_header", "<xml>", 0, true},
                        {"code.xml_header", "\xef\xbb\xbf<?xml version=\"1.0\"?>", 1, false},
                        {"code.xml_header", times("\u00e9", 86) + "<?xml version=", 1, false},
                        {"code.xml_header", times("\u00e9", 87) + "<?xml version=", 0, true}});
}

TEST(CodeRules, VisibleTextOfHtml) {
  const auto page = [](size_t visible, size_t all) {
    return "<b>" + std::string(visible, 'v') + "<style>" + std::string(all - visible - 18, 's') + "</style>";
  };
  expect_cases("code",
               {{"code.html_visible", page(199, 1000), 0.199, false},
                {"code.html_visible", page(200, 1000), 0.2, true},
                {"code.html_visible", page(201, 1000), 0.201, true},
                {"code.html_visible", page(99, 200), 0, false},
                {"code.html_visible", page(100, 200), 0.5, true}},
               "a/index.html");
  EXPECT_TRUE(std::isnan(probe("code", "<p>", "a.py").value("code.html_visible")));
}

TEST(HtmlText, IsWhatStandsOutsideOfMarkup) {
  const std::vector<std::pair<const char*, uint64_t>> pages = {
      {"", 0},
      {"a b\n", 4},
      {"<p class='x'>a &amp; b</p><script>x<y</script>c", 6},
      {"<!-- <p>no</p> -->yes", 3},
      {"<SCRIPT>no</Script><style type=a>no</style>", 0},
      {"<scripture>yes</scripture>", 3},
      {"1 < 2 & 3 <", 11},
      {"&#x4e2d;&nope &;", 9},
      {"\u4e2d<br/>\u6587", 2},
      {"<p", 0},
      {"<script>never ends", 0},
  };
  for (const auto& [page, count] : pages) EXPECT_EQ(visible_chars(page), count) << page;
}

}  // namespace
}  // namespace athanor::tests::heuristics_code_test
