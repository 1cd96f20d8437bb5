// What a build says of its channels and files, what it tells while it works, and standard input.
#include "athanor/corpus/report/sources.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>

#include "athanor/base/error.h"
#include "athanor/corpus/passes/build.h"
#include "athanor/corpus/report/corpus_report.h"
#include "athanor/corpus/report/samples.h"
#include "support/fault_env.h"
#include "support/memory_source.h"
#include "support/temporary_folder.h"

namespace athanor::tests::corpus_sources_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string record(int words, int seed) {
  std::string text;
  for (int i = 0; i < words; ++i) fmt::format_to(std::back_inserter(text), "w{} ", (i * 7 + seed) % 9973);
  text.pop_back();
  return fmt::format("{{\"text\":\"{}\"}}\n", text);
}

class CorpusSources : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path("raw/" + name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    system_env().write_atomically(path, text);
  }
  // Documents with less than 10 words are dropped, and exact copies.
  CorpusConfig config(int workers, const std::string& path = "raw/en") const {
    return parse_corpus(
        fmt::format("[corpus]\nname = \"mine\"\nworkers = {}\n[[input]]\nchannel = \"en\"\npath = \"{}\"\n"
                    "[[input]]\nchannel = \"zh\"\npath = \"raw/zh\"\n"
                    "[[stage]]\nkind = \"heuristics\"\npreset = \"gopher-quality\"\nchannels = [\"en\"]\n"
                    "rules = {{\"gopher.words\" = [10, 1000], \"gopher.stop_words\" = false, "
                    "\"gopher.mean_word_length\" = false, \"gopher.words_with_letter\" = false}}\n"
                    "[[stage]]\nkind = \"dedup\"\nmethod = \"exact\"\n",
                    workers, path),
        "corpus.toml", folder_.path(""));
  }
  CorpusReport report(int workers) const {
    const CorpusConfig settings = config(workers);
    return report_of(system_env(), settings, build_corpus(system_env(), settings));
  }
  TemporaryFolder folder_;
};

TEST_F(CorpusSources, EachChannelAndFileHasItsFigures) {
  write("en/a.jsonl", record(20, 1) + record(40, 2) + record(3, 3));
  write("en/b.jsonl", record(20, 1));  // a copy
  write("en/empty.jsonl", "\n");
  write("zh/c.txt", "今天天气很好，我们一起去公园散步。");
  const CorpusReport got = report(1);
  ASSERT_EQ(got.channels.size(), 2u);
  ASSERT_EQ(got.sources.size(), 3u);
  EXPECT_EQ(got.channels[0].files, 2u);
  EXPECT_EQ(got.channels[0].input.documents, 4u);
  EXPECT_EQ(got.channels[0].kept.documents, 2u);
  EXPECT_EQ(got.sources[0].name, "a.jsonl");
  EXPECT_EQ(got.sources[0].input.documents, 3u);
  EXPECT_EQ(got.sources[0].kept.documents, 2u);
  EXPECT_EQ(got.sources[0].sample.text.documents, 2u);
  EXPECT_EQ(got.sources[0].sample.text.bytes, got.sources[0].kept.bytes);
  uint64_t read = 0;
  for (const SourceReport& source : got.sources) {
    read += source.input.bytes;
    if (source.name != "b.jsonl") continue;
    EXPECT_EQ(source.kept.documents, 0u);
    EXPECT_EQ(source.sample.text.documents, 0u);
  }
  EXPECT_EQ(read, got.input.bytes);
  for (const auto& [name, means] : means_by_name(got, got.sources[0])) {
    EXPECT_THAT(name, HasSubstr("gopher."));
    if (name != "gopher.words") continue;
    EXPECT_DOUBLE_EQ(means.read.value(), 21);
    EXPECT_DOUBLE_EQ(means.kept.value(), 30);
  }
}

TEST_F(CorpusSources, SmallFilesAreOneRowAndSamplesAreBounded) {
  for (int file = 0; file < 60; ++file) {
    std::string lines;
    for (int i = 0; i < (file == 0 ? 3000 : 20); ++i) lines += record(30 + file + i % 40, file * 3000 + i);
    write(fmt::format("en/{:02}.jsonl", file), lines);
  }
  write("zh/c.txt", "今天天气很好，我们一起去公园散步。");
  const CorpusReport one = report(1);
  ASSERT_EQ(one.sources.size(), kReportedFiles + 1);
  EXPECT_EQ(one.sources.back().name, "");
  EXPECT_EQ(one.sources.back().files, 11u);
  EXPECT_EQ(one.sources[0].name, "00.jsonl");
  EXPECT_GT(one.sources[0].kept.bytes, 2 * kFileSampleBytes);
  EXPECT_GT(one.sources[0].sample.text.bytes, kFileSampleBytes / 2);
  for (const SourceReport& source : one.sources) EXPECT_LE(source.sample.text.bytes, kFileSampleBytes);
  std::filesystem::remove_all(folder_.path("corpora"));
  const CorpusReport three = report(3);
  for (size_t i = 0; i < one.sources.size(); ++i) {
    EXPECT_EQ(one.sources[i].sample.text.bytes, three.sources[i].sample.text.bytes) << i;
    EXPECT_TRUE(one.sources[i].sample.text.documents == 0 ||
                one.sources[i].sample.compression == three.sources[i].sample.compression)
        << i;
  }
}

TEST_F(CorpusSources, ADrawHoldsItsBudget) {
  Draw small("test", 10'000), large("test", 20'000);
  for (uint64_t document = 0; document < 1000; ++document) {
    small.offer(document, 100 + document % 7);
    large.offer(document, 100 + document % 7);
  }
  EXPECT_GT(small.documents().size(), 90u);
  EXPECT_LE(small.documents().size(), 100u);
  const std::vector<uint64_t> more = large.documents();
  EXPECT_GT(more.size(), 180u);
  for (const uint64_t document : small.documents()) EXPECT_THAT(more, Contains(document));
  EXPECT_EQ(first_bytes("a水", 3), "a");
  EXPECT_EQ(first_bytes("a水", 4), "a水");
}

TEST_F(CorpusSources, ProgressTellsHowManyAreKept) {
  write("en/a.jsonl", record(20, 1) + record(40, 2) + record(3, 3));
  write("en/b.jsonl", record(20, 1));
  write("zh/c.txt", "今天天气很好，我们一起去公园散步。");
  for (const int workers : {1, 2}) {
    std::filesystem::remove_all(folder_.path("corpora"));
    std::map<std::string, PassProgress> last;
    BuildOptions options;
    options.progress = [&](const PassProgress& pass) { last[pass.what] = pass; };
    build_corpus(system_env(), config(workers), options);
    EXPECT_EQ(last["reading"].seen_documents, 0u);
    EXPECT_EQ(last["annotating"].seen_documents, 5u) << workers;
    EXPECT_EQ(last["annotating"].kept_documents, 4u) << workers;  // the copy is not found yet
    EXPECT_EQ(last["writing"].seen_documents, 5u);
    EXPECT_EQ(last["writing"].kept_documents, 3u);
  }
}

TEST_F(CorpusSources, StandardInputIsReadOnce) {
  write("zh/c.txt", "今天天气很好，我们一起去公园散步。");
  const CorpusConfig settings = config(1, "-");
  const auto build = [&](const std::string& text, bool only_decide = false) {
    std::map<std::string, PassProgress> told;
    BuildOptions options{.only_decide = only_decide};
    options.standard_input = [&] { return std::make_unique<MemorySource>(text); };
    options.progress = [&](const PassProgress& pass) { told[pass.what] = pass; };
    const Built built = build_corpus(system_env(), settings, options);
    return std::pair{built.parts.documents, told.size()};
  };
  EXPECT_THROW(build("", true), Error);
  EXPECT_THROW(build(""), Error);
  const std::string text = record(20, 1) + record(40, 2);
  EXPECT_EQ(build(text).first, 3u);
  EXPECT_EQ(build(text), (std::pair{uint64_t{3}, size_t{0}}));  // nothing is done again
  EXPECT_EQ(build("not read", true), (std::pair{uint64_t{3}, size_t{0}}));
  EXPECT_EQ(build(text + record(30, 5)).first, 4u);
  EXPECT_EQ(build("", true).first, 4u);
  EXPECT_THROW(build(""), Error);
  EXPECT_EQ(build("", true).first, 4u);  // what could not be read has removed nothing
  EXPECT_EQ(system_env().list(folder_.path("corpora/mine/work/stdin-spool")).size(), 1u);
  EXPECT_EQ(build_corpus(system_env(), settings).parts.sources[0].name, "stdin");
}

TEST_F(CorpusSources, StandardInputIsOfOneInput) {
  try {
    parse_corpus(
        "[corpus]\nname = \"mine\"\n[[input]]\nchannel = \"a\"\npath = \"-\"\n[[input]]\nchannel = "
        "\"b\"\npath = "
        "\"-\"\n",
        "corpus.toml", folder_.path(""));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("input 2.path: got '-' a second time"));
  }
}

}  // namespace
}  // namespace athanor::tests::corpus_sources_test
