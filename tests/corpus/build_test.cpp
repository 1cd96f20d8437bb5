// A whole build: what is kept, dropped and written; by any number of workers, after failures, with other rules.
#include "athanor/corpus/passes/build.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/corpus/passes/record.h"
#include "athanor/corpus/report/corpus_report.h"
#include "athanor/documents/byte_source.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"

namespace athanor::tests::corpus_build_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A word of its own for each number, since numbers all look alike to minhash.
std::string word(int number) {
  std::string letters;
  for (; number > 0; number /= 20) letters += "bcdfghjklmnpqrstvwxz"[number % 20], letters += 'o';
  return letters;
}

// Sentences that the rules of Gopher like, unlike for each number.
std::string good_text(int number) {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += fmt::format("The {} of {} says that people {} have seen {} with the {} birds. ",
                        word(number * 977 + i * 13 + 400), word(number * 391 + i * 7 + 500),
                        word(number * 83 + i * 17 + 600), word(number * 5 + i * 31 + 900),
                        word(number * 177 + i * 3 + 700));
  return text;
}

class CorpusBuild : public ::testing::Test {
 protected:
  CorpusBuild() {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += "{\"id\":\"good-" + std::to_string(i) + "\",\"text\":\"" + good_text(i) +
               "\",\"n\":12345678901234567890}\n";
    lines += "{\"text\":\"too few words\"}\n{\"nothing\":1}\n{broken\n";
    write("en/a.jsonl", lines);
    write("en/b.txt", good_text(3) + "\n<|endoftext|>\n" + good_text(50) + "\n");
    write("zh/c.txt", "今天天气很好。\n");
  }

  void write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path("raw/" + name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    system_env().write_atomically(path, text);
  }
  std::string settings(const std::string& more = "", int workers = 1) const {
    return fmt::format(
        "[corpus]\nname = \"mine\"\nworkers = {}\nshard_size = 20000\n[[input]]\nchannel = \"en\"\npath = "
        "\"raw/en\"\n"
        "[[input]]\nchannel = \"zh\"\npath = \"raw/zh\"\n"
        "[[stage]]\nkind = \"heuristics\"\npreset = \"gopher-quality\"\nchannels = [\"en\"]\n{}\n"
        "[[stage]]\nkind = \"dedup\"\nmethod = \"minhash\"\n",
        workers, more);
  }
  CorpusConfig config(const std::string& text) const {
    return parse_corpus(text, "corpus.toml", folder_.path(""));
  }
  // Every file that a user reads, by name.
  std::map<std::string, std::string> result() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("corpora/mine"))) {
      const std::string name = std::filesystem::relative(entry.path(), folder_.path("corpora/mine")).string();
      if (entry.is_regular_file() && !name.starts_with("work"))
        files[name] = system_env().read_text(entry.path());
    }
    return files;
  }
  std::vector<std::string> ids(const std::string& shard) const {
    std::vector<std::string> ids;
    RecordReader reader(system_env(), folder_.path("corpora/mine/" + shard));
    Document document;
    while (reader.next(document)) ids.push_back(document.id);
    return ids;
  }

  std::vector<std::string> ids_of_scores(const std::string& shard) const {
    const auto source = open_bytes(system_env(), folder_.path("corpora/mine/scores/" + shard + ".jsonl.zst"));
    std::string text(size_t{1} << 20, '\0');
    text.resize(source->read(text.data(), text.size()));
    std::vector<std::string> ids;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const auto line = nlohmann::json::parse(text.substr(at, text.find('\n', at) - at));
      ids.push_back(line["id"]);
      EXPECT_EQ(line["attributes"]["gopher.words"][0][2], 180);  // 15 words in each of 12 sentences
    }
    return ids;
  }

  TemporaryFolder folder_;
};

TEST_F(CorpusBuild, KeepsDropsAndCounts) {
  const CorpusConfig settings_read = config(settings());
  const Built built = build_corpus(system_env(), settings_read);
  const CorpusReport report = report_of(system_env(), settings_read, built);
  EXPECT_EQ(report.input.documents, 44u);
  // "too few words" by its words; b.txt/0 is a copy of good-3.
  EXPECT_EQ(report.kept.documents, 42u);
  EXPECT_EQ(report.refused.at("broken JSON").count, 1);
  EXPECT_EQ(report.refused.at("no text key").count, 1);
  ASSERT_EQ(report.stages.size(), 2u);
  ASSERT_EQ(report.stages[1].reasons.size(), 1u);
  EXPECT_EQ(report.stages[1].reasons[0].name, "dedup.minhash");
  EXPECT_EQ(report.stages[1].reasons[0].dropped.documents, 1u);
  EXPECT_EQ(report.stages[1].reasons[0].examples[0].id, "b.txt/0");
  EXPECT_THAT(ids("zh/shard-00000.jsonl.zst"), ElementsAre("c.txt/0"));
  EXPECT_EQ(ids_of_scores("en/shard-00000"), ids("en/shard-00000.jsonl.zst"));
  std::vector<std::string> english = ids("en/shard-00000.jsonl.zst");
  for (int shard = 1;
       std::filesystem::exists(folder_.path(fmt::format("corpora/mine/en/shard-{:05}.jsonl.zst", shard)));
       ++shard)
    for (const std::string& id : ids(fmt::format("en/shard-{:05}.jsonl.zst", shard))) english.push_back(id);
  EXPECT_EQ(english.size(), 41u);
  EXPECT_EQ(english.front(), "good-0");
  EXPECT_EQ(english.back(), "b.txt/1");
  // Numbers of the metadata are as they were.
  RecordReader reader(system_env(), folder_.path("corpora/mine/en/shard-00000.jsonl.zst"));
  Document document;
  ASSERT_TRUE(reader.next(document));
  EXPECT_EQ(document.metadata, "{\"n\":12345678901234567890}");
}

TEST_F(CorpusBuild, TheSameBytesForAnyNumberOfWorkers) {
  build_corpus(system_env(), config(settings("", 1)));
  const auto one = result();
  EXPECT_GT(one.size(), 5u);
  for (const int workers : {2, 4}) {
    std::filesystem::remove_all(folder_.path("corpora"));
    build_corpus(system_env(), config(settings("", workers)));
    EXPECT_EQ(result(), one) << workers;
  }
}

// The build is cut off at every call that changes a file, and begun again.
TEST_F(CorpusBuild, GoesOnAfterAFailureOfAnyCall) {
  LEAVE_OUT_UNDER(any_sanitizer,
                  "hundreds of builds take minutes; each build of the other tests is looked at");
  FaultEnv whole(int64_t{1} << 40);  // counts
  build_corpus(whole, config(settings()));
  const auto expected = result();
  EXPECT_GT(whole.calls(), 100);
  for (int64_t call = 0; call < whole.calls(); ++call) {
    std::filesystem::remove_all(folder_.path("corpora"));
    FaultEnv cut(call, FaultEnv::Fault::kill);
    EXPECT_THROW(build_corpus(cut, config(settings())), Failure) << call;
    FaultEnv good(int64_t{1} << 40);  // which syncs nothing
    build_corpus(good, config(settings()));
    ASSERT_TRUE(result() == expected) << "call " << call;
  }
}

TEST_F(CorpusBuild, AnotherThresholdLooksAtNoTextAgain) {
  build_corpus(system_env(), config(settings()));
  const std::string looser =
      settings("rules = {\"gopher.words\" = [1, 100000], \"gopher.stop_words\" = false}");
  const Built decided = build_corpus(system_env(), config(looser), {.only_decide = true});
  EXPECT_EQ(report_of(system_env(), config(looser), decided).kept.documents, 43u);
  const auto by_deciding = result();
  std::filesystem::remove_all(folder_.path("corpora"));
  build_corpus(system_env(), config(looser));
  EXPECT_EQ(result(), by_deciding);
}

// What a later document has of an earlier one is cut out; what is left of it is looked at again.
TEST_F(CorpusBuild, CutsPartsThatOccurBefore) {
  std::filesystem::remove_all(folder_.path("raw"));
  const std::string shared = good_text(1), own = good_text(2);
  write("en/a.txt", shared);
  write("en/b.txt", own + "\n" + shared + "\n" + good_text(4));
  write("zh/c.txt", "今天天气很好。\n");
  for (const std::string method : {"paragraph", "sentence", "substring"}) {
    const std::string text = fmt::format(
        "[corpus]\nname = \"mine\"\n[[input]]\nchannel = \"en\"\npath = \"raw/en\"\n[[stage]]\nkind = "
        "\"dedup\"\n"
        "method = \"{}\"\n[[stage]]\nkind = \"heuristics\"\npreset = \"gopher-quality\"\n",
        method);
    const Built built = build_corpus(system_env(), config(text));
    const CorpusReport report = report_of(system_env(), config(text), built);
    EXPECT_EQ(report.kept.documents, 2u) << method;
    // To within the space or line break at a seam.
    EXPECT_NEAR(static_cast<double>(report.edited_bytes), static_cast<double>(shared.size()), 3) << method;
    RecordReader reader(system_env(), folder_.path("corpora/mine/en/shard-00000.jsonl.zst"));
    Document document;
    ASSERT_TRUE(reader.next(document) && reader.next(document));
    EXPECT_EQ(document.text.substr(0, 100), own.substr(0, 100)) << method;
    EXPECT_EQ(document.text.find(shared.substr(10, 200)), std::string::npos) << method;
  }
}

// Too little is left of a text that was cut.
TEST_F(CorpusBuild, ACutTextHasToKeepEnoughWords) {
  std::filesystem::remove_all(folder_.path("raw"));
  write("en/a.txt", good_text(1));
  write("en/b.txt", good_text(1) + "\nOnly this is new here.");
  write("zh/c.txt", "今天天气很好。\n");
  const std::string text =
      "[corpus]\nname = \"mine\"\n[[input]]\nchannel = \"en\"\npath = \"raw/en\"\n[[stage]]\nkind = "
      "\"dedup\"\n"
      "method = \"substring\"\n";
  const Built built = build_corpus(system_env(), config(text));
  ASSERT_FALSE(built.verdicts.kept(1));
  EXPECT_EQ(built.verdicts.reason(1).name, "dedup.substring.words");
  EXPECT_TRUE(built.verdicts.kept(0));
}

// What an earlier corpus has, too, goes: whole documents, and parts of texts. Its own documents are not looked at.
TEST_F(CorpusBuild, AnEarlierCorpusStays) {
  build_corpus(system_env(), config(settings()));
  std::filesystem::remove_all(folder_.path("raw"));
  std::string lines;
  for (int i = 38; i < 46; ++i)
    lines += "{\"id\":\"new-" + std::to_string(i) + "\",\"text\":\"" + good_text(i) + "\"}\n";
  lines += "{\"id\":\"mixed\",\"text\":\"" + good_text(90) + good_text(5) + "\"}\n";
  write("en/new.jsonl", lines);
  for (const std::string method : {"exact", "minhash", "sentence"}) {
    const std::string text = fmt::format(
        "[corpus]\nname = \"next\"\n[[input]]\nchannel = \"en\"\npath = \"raw/en\"\n[[stage]]\nkind = "
        "\"dedup\"\n"
        "method = \"{}\"\nagainst = [\"corpora/mine/en\", \"corpora/mine/zh\"]\n",
        method);
    const Built built = build_corpus(system_env(), config(text));
    std::vector<std::string> kept;
    for (uint64_t document = 0; document < 9; ++document)
      if (built.verdicts.kept(document)) kept.push_back(std::to_string(document));
    EXPECT_THAT(kept, ElementsAre("2", "3", "4", "5", "6", "7", "8")) << method;
    // The second half of the last one is an old document.
    const double last = static_cast<double>(built.verdicts.text_bytes(8));
    EXPECT_NEAR(last,
                static_cast<double>((good_text(90) + (method == "sentence" ? "" : good_text(5))).size()), 90)
        << method;
  }
}

// In blocks of some documents the same parts are found as in one.
TEST_F(CorpusBuild, SubstringsInSmallBlocks) {
  std::filesystem::remove_all(folder_.path("raw"));
  std::string lines;
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int k = 0; k < 30; ++k) text += good_text(i % 7 == 0 ? k : i * 31 + k);
    lines += "{\"text\":\"" + text + "\"}\n";
  }
  write("en/a.jsonl", lines);
  write("zh/c.txt", "今天天气很好。\n");
  const auto settings_for = [](const char* memory) {
    return fmt::format(
        "[corpus]\nname = \"mine\"\nworkers = 1\nmemory = \"{}\"\nmax_document = \"256 KiB\"\n[[input]]\n"
        "channel = \"en\"\npath = \"raw/en\"\n[[stage]]\nkind = \"dedup\"\nmethod = \"substring\"\n",
        memory);
  };
  build_corpus(system_env(), config(settings_for("2 GiB")));
  const auto one = result();
  std::filesystem::remove_all(folder_.path("corpora"));
  const CorpusConfig small = config(settings_for("64 MiB"));
  build_corpus(system_env(), small);
  int64_t tasks = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("corpora/mine/work")))
    tasks += entry.path().parent_path().filename().string().starts_with("substrings");
  EXPECT_GT(tasks, 3);
  EXPECT_TRUE(result() == one);
}

TEST_F(CorpusBuild, DecidingNeedsABuild) {
  EXPECT_THROW(build_corpus(system_env(), config(settings()), {.only_decide = true}), Error);
}

TEST_F(CorpusBuild, RefusesWhatItCannotDo) {
  const auto failure = [&](const std::string& text) {
    try {
      config(text);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(failure("[corpus]\nname = \"a/b\"\n"), HasSubstr("corpus.name"));
  EXPECT_THAT(failure("[corpus]\nnaem = \"a\"\n"), HasSubstr("did you mean 'name'"));
  EXPECT_THAT(failure("[corpus]\nname = \"a\"\n"), HasSubstr("[[input]]"));
  EXPECT_THAT(failure(settings("[[stage]]\nkind = \"huristics\"")), HasSubstr("did you mean 'heuristics'"));
  EXPECT_THAT(failure(settings("[[stage]]\nkind = \"dedup\"\nchannels = [\"fr\"]")), HasSubstr("channels"));
  EXPECT_THAT(failure(settings("rules = {\"gopher.wrods\" = 1}")), HasSubstr("did you mean 'gopher.words'"));
  EXPECT_THAT(failure(settings("rules = {\"gopher.words\" = [5, 1]}")), HasSubstr("least <= most"));
  EXPECT_THAT(failure("[corpus]\nname = \"a\"\nmemory = \"1 KiB\"\n"), HasSubstr("corpus.memory"));
  EXPECT_THAT(failure(settings("[[stage]]\nkind = \"heuristics\"\npreset = \"gopher\"")),
              HasSubstr("second score"));
  EXPECT_THAT(failure(settings("[[stage]]\nkind = \"heuristics\"\npreset = \"gopher\"\nchannels = [\"zh\"]")),
              "none");
  EXPECT_THAT(failure(settings("[[stage]]\nkind = \"language\"\nkeep = [\"xx\"]")),
              AllOf(HasSubstr("corpus.toml:"), HasSubstr("language.keep")));
  EXPECT_THAT(failure("[corpsu]\n"), HasSubstr("did you mean 'corpus'"));
  EXPECT_THAT(failure("[corpus\n"), HasSubstr("corpus.toml:1"));
}

TEST_F(CorpusBuild, OnlyBadRecordsAreAnError) {
  std::filesystem::remove_all(folder_.path("raw"));
  write("en/a.jsonl", "{broken\n");
  write("zh/b.jsonl", "{broken\n");
  EXPECT_THROW(build_corpus(system_env(), config(settings())), Error);
}

}  // namespace
}  // namespace athanor::tests::corpus_build_test
