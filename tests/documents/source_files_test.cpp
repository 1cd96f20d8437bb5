// Globs, standard input, single files.
#include "athanor/documents/source_files.h"

#include <gmock/gmock.h>

#include "athanor/documents/glob.h"
#include "documents/reading.h"
#include "support/memory_source.h"

namespace athanor::tests::source_files_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whether a pattern of one component matches a name.
bool matches(const std::string& pattern, const std::string& name) {
  const Glob glob(pattern);
  return glob.matches(glob.step(glob.start(), name));
}

TEST(Glob, Names) {
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"*", "a"},
                                                        {"*", "\xE6\xB0\xB4"},
                                                        {"?", "\xE6\xB0\xB4"},
                                                        {"a*c", "ac"},
                                                        {"a*c", "abcbc"},
                                                        {"*.gz", "x.gz"},
                                                        {"**.gz", "x.gz"},
                                                        {"[a-c]x", "bx"},
                                                        {"[!a-c]x", "dx"},
                                                        {"[^a-c]?", "d?"},
                                                        {"[]]", "]"},
                                                        {"[a]]", "a]"},
                                                        {"[a-]*", "-"},
                                                        {"[\\]x]", "]"},
                                                        {"\\**", "*a"},
                                                        {"[\xE6\xB0\xB4-\xE7\xBF\xBF]", "\xE6\xB8\x85"},
                                                        {"*a*b*c*", "xxaxxbxxcxx"},
                                                        {".*", ".hidden"},
                                                        {"?[", "a["},
                                                        {"a?\\", "ab\\"},
                                                        {"*\xE9", "a\xE9"}})
    EXPECT_TRUE(matches(pattern, name)) << pattern << " " << name;
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"*", ".hidden"},
                                                        {"?", "ab"},
                                                        {"?", ""},
                                                        {"a*c", "ab"},
                                                        {"[a-c]x", "dx"},
                                                        {"[!a-c]x", "bx"},
                                                        {"*.gz", "x.g"},
                                                        {"\\**", "a"},
                                                        {"[.]*", ".a"},
                                                        {"*b", "abc"},
                                                        {"?", "\xE6\xB0\xB4\xE6\xB0\xB4"}})
    EXPECT_FALSE(matches(pattern, name)) << pattern << " " << name;
  for (const char* path : {"a", "a[", "a]", "a[b/c]", "a\\*", "[]", "[a"})
    EXPECT_FALSE(Glob::is_glob(path)) << path;
  for (const char* path : {"*", "a?", "x/[a]", "**/y", "[]]"}) EXPECT_TRUE(Glob::is_glob(path)) << path;
  EXPECT_EQ(Glob("raw/en/*.gz").base(), "raw/en");
  EXPECT_EQ(Glob("/raw/*/x").base(), "/raw");
  EXPECT_EQ(Glob("/*").base(), "/");
  EXPECT_EQ(Glob("*").base(), "");
  // Many stars take no time.
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(3000, 'a')));
}

class SourceFilesTest : public ReadingTest {
 protected:
  std::vector<std::string> list(const std::string& pattern) {
    std::vector<std::string> names;
    const SourceFiles found = list_sources(env_, path(pattern));
    for (const SourceFile& file : found.files) {
      EXPECT_TRUE(file.may_be_left_out);
      EXPECT_EQ(file.path.substr(file.path.size() - file.relative.size()), file.relative);
      names.push_back(file.relative);
    }
    left_out_ = found.left_out;
    return names;
  }
  std::vector<LeftOut> left_out_;
};

TEST_F(SourceFilesTest, GlobsMatchAnyDepth) {
  for (const char* name : {"raw/b.jsonl.gz", "raw/a.jsonl", "raw/en/a.jsonl", "raw/en/x/b.jsonl",
                           "raw/en/x/c.txt", "raw/zh/a.jsonl", "raw/.git/a.jsonl", "raw/en/.a.jsonl"})
    write(name, "");
  EXPECT_THAT(list("raw/*.jsonl"), ElementsAre("a.jsonl"));
  EXPECT_THAT(list("raw/**"),
              ElementsAre("a.jsonl", "b.jsonl.gz", "en/a.jsonl", "en/x/b.jsonl", "en/x/c.txt", "zh/a.jsonl"));
  EXPECT_THAT(left_out_, ElementsAre(LeftOut{".git", "hidden"}, LeftOut{"en/.a.jsonl", "hidden"}));
  EXPECT_THAT(list("raw/**/*.jsonl"), ElementsAre("a.jsonl", "en/a.jsonl", "en/x/b.jsonl", "zh/a.jsonl"));
  EXPECT_THAT(left_out_, ElementsAre(LeftOut{"en/.a.jsonl", "hidden"}));
  EXPECT_THAT(list("raw/e?/**"), ElementsAre("en/a.jsonl", "en/x/b.jsonl", "en/x/c.txt"));
  EXPECT_THAT(list("raw/[a-e]*"),
              ElementsAre("a.jsonl", "b.jsonl.gz", "en/a.jsonl", "en/x/b.jsonl", "en/x/c.txt"));
  EXPECT_THAT(list("raw/*/a.jsonl"), ElementsAre("en/a.jsonl", "zh/a.jsonl"));
  EXPECT_THAT(list("r*/**/x/*"), ElementsAre("raw/en/x/b.jsonl", "raw/en/x/c.txt"));
  EXPECT_THAT(list("raw/.g*/*"), ElementsAre(".git/a.jsonl"));
  EXPECT_THAT(list("raw/**/**/c.txt"), ElementsAre("en/x/c.txt"));
  std::filesystem::create_directory_symlink(path("raw"), path("raw/en/loop"));
  std::filesystem::create_symlink("nowhere", path("raw/en/z.jsonl"));
  EXPECT_THAT(list("raw/**/*.jsonl"), ElementsAre("a.jsonl", "en/a.jsonl", "en/x/b.jsonl", "zh/a.jsonl"));
  EXPECT_THAT(left_out_,
              ElementsAre(LeftOut{"en/.a.jsonl", "hidden"}, LeftOut{"en/loop", "a link to a folder above"},
                          LeftOut{"en/z.jsonl", "a link to nothing"}));
}

TEST_F(SourceFilesTest, AGlobThatMatchesNothingIsNamed) {
  write("raw/a.txt", "");
  EXPECT_THAT(failure_of([&] { list("raw/*.jsonl"); }),
              AllOf(HasSubstr("raw/*.jsonl"), HasSubstr("no file matches")));
  EXPECT_THAT(failure_of([&] { list("row/*"); }), AllOf(HasSubstr("row/*"), HasSubstr("no folder")));
  write("raw/.b.txt", "");
  std::filesystem::remove(path("raw/a.txt"));
  EXPECT_THAT(failure_of([&] { list("raw/*"); }), HasSubstr("(1 left out: .b.txt, hidden)"));
  // A name that exists is itself.
  write("raw/[1].txt", "x");
  EXPECT_EQ(list_sources(env_, path("raw/[1].txt")).files[0].relative, "[1].txt");
}

TEST_F(SourceFilesTest, StandardInputIsAsItsCallerSays) {
  const std::string lines = "{\"text\":\"a\"}\n{\"text\":\n";
  EXPECT_EQ(list_sources(env_, "-").files[0].relative, "stdin");
  EXPECT_THAT(failure("-"), HasSubstr("standard input"));
  for (const std::string& bytes : {lines, gzip(lines)}) {
    options_.standard_input = [&] { return std::make_unique<MemorySource>(bytes); };
    EXPECT_THAT(read("-"), ElementsAre("a"));
    EXPECT_THAT(refused_, ElementsAre("2:broken JSON"));
    EXPECT_THAT(failure("-"), HasSubstr("'standard input' line 2"));
  }
}

TEST_F(SourceFilesTest, OneFileIsReadAlone) {
  write("f/a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\"}\n{\"text\":\"b\"}\n");
  write("f/b.txt", "hello");
  std::vector<std::string> places;
  for (const SourceFile& file : list_sources(env_, path("f")).files) {
    const ReadReport report =
        read_file_documents(env_, file, {}, [&](std::string_view text, const DocumentPlace& place) {
          places.push_back(fmt::format("{}/{} {} {}", file.relative, place.record, text, place.bytes_done));
        });
    EXPECT_EQ(report.files, 1);
    EXPECT_THAT(report.names, ElementsAre(file.relative));
  }
  EXPECT_THAT(places, ElementsAre("a.jsonl/0 a 38", "a.jsonl/2 b 38", "b.txt/0 hello 5"));
}

}  // namespace
}  // namespace athanor::tests::source_files_test
