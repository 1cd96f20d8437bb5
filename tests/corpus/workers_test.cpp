// Tasks in several processes: each once, failures and deaths told.
#include "athanor/corpus/passes/workers.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "athanor/base/error.h"
#include "athanor/corpus/passes/histogram.h"
#include "athanor/corpus/passes/record.h"
#include "athanor/corpus/report/text_stats.h"
#include "athanor/documents/zstd_output.h"
#include "support/temporary_folder.h"

namespace athanor::tests::corpus_workers_test {
namespace {

using ::testing::HasSubstr;

TEST(CorpusWorkers, EachTaskOnceAndItsResult) {
  for (const int workers : {1, 2, 7}) {
    std::set<int64_t> ended;
    uint64_t bytes = 0;
    run_tasks(
        workers, 50,
        [](int64_t task, const WorkDone& done) {
          done(static_cast<uint64_t>(task));
          return std::string(static_cast<size_t>(task) * 1000, 'x');
        },
        [&](int64_t task, const std::string& result) {
          EXPECT_TRUE(ended.insert(task).second);
          EXPECT_EQ(result.size(), static_cast<size_t>(task) * 1000);
        },
        [&](uint64_t done) { bytes += done; });
    EXPECT_EQ(ended.size(), 50u);
    EXPECT_EQ(bytes, 49u * 50 / 2);
  }
}

TEST(CorpusWorkers, NoTaskIsNoWork) {
  run_tasks(
      3, 0, [](int64_t, const WorkDone&) { return std::string(); },
      [](int64_t, const std::string&) { FAIL(); }, [](uint64_t) {});
}

TEST(CorpusWorkers, AFailureKeepsItsKindAndText) {
  const auto run = [](int workers, const std::function<void()>& thrower) {
    run_tasks(
        workers, 6,
        [&](int64_t task, const WorkDone&) {
          if (task == 3) thrower();
          return std::string();
        },
        [](int64_t, const std::string&) {}, [](uint64_t) {});
  };
  for (const int workers : {1, 2}) {
    EXPECT_THROW(run(workers, [] { throw ConfigError("a"); }), ConfigError);
    EXPECT_THROW(run(workers, [] { throw IoError("disk", ENOSPC); }), Recoverable);
    try {
      run(workers, [] { throw Error("document 7 is odd"); });
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "document 7 is odd");
    }
  }
}

TEST(CorpusWorkers, ADeadWorkerIsNamed) {
  try {
    run_tasks(
        2, 6,
        [](int64_t task, const WorkDone&) {
          if (task == 4) kill(getpid(), SIGKILL);
          return std::string();
        },
        [](int64_t, const std::string&) {}, [](uint64_t) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("task 4"));
    EXPECT_THAT(error.what(), HasSubstr("signal 9"));
  }
}

TEST(CorpusRecord, AnyTextComesBack) {
  TemporaryFolder folder;
  std::vector<Document> documents;
  std::string every;
  for (int c = 0; c < 128; ++c) every += static_cast<char>(c);
  for (const std::string& text :
       {std::string(), std::string("plain"), every, std::string("\"\\\n\\u0000 水\xF0\x9F\x94\xA5"),
        std::string(1 << 20, '\\'), std::string("ends with \\")})
    documents.push_back({.id = text.substr(0, 100),
                         .text = text,
                         .source = "a \"b\".txt",
                         .metadata = "{\"metadata\":{\"x\":1e400}}"});
  {
    ZstdOutput out(system_env(), folder.path("x.jsonl.zst"));
    std::string lines;
    for (const Document& document : documents) append_record(lines, document);
    out.append(lines);
    out.finish();
  }
  RecordReader reader(system_env(), folder.path("x.jsonl.zst"));
  Document got;
  for (const Document& document : documents) {
    ASSERT_TRUE(reader.next(got));
    EXPECT_EQ(got.text, document.text);
    EXPECT_EQ(got.id, document.id);
    EXPECT_EQ(got.source, document.source);
    EXPECT_EQ(got.metadata, document.metadata);
  }
  EXPECT_FALSE(reader.next(got));
}

TEST(CorpusRecord, ForeignLinesAreRefused) {
  TemporaryFolder folder;
  for (const std::string& line :
       {std::string("{\"text\":\"a\"}\n"), std::string("{\"id\":\"a\",\"text\":\"b\n"),
        std::string("{\"id\":\"\\x\",\"text\":\"\",\"source\":\"\",\"metadata\":{}}\n"),
        std::string("no end")}) {
    system_env().write_atomically(folder.path("x.jsonl"), line);
    RecordReader reader(system_env(), folder.path("x.jsonl"));
    Document got;
    EXPECT_THROW(reader.next(got), Error) << line;
  }
}

TEST(CorpusHistogram, QuantilesWithinABin) {
  Histogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.add(i);
  histogram.add(NAN);
  EXPECT_EQ(histogram.count(), 1000u);
  EXPECT_EQ(histogram.not_finite(), 1u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
  for (const double share : {0.1, 0.5, 0.9})
    EXPECT_NEAR(histogram.quantile(share), 1000 * share, 1000 * share / 15);
  EXPECT_EQ(histogram.quantile(0), 1);
  Histogram negative;
  for (const double value : {-4.0, -2.0, 0.0, 3.0}) negative.add(value);
  EXPECT_EQ(negative.least(), -4);
  EXPECT_NEAR(negative.quantile(0.25), -4, 0.3);
  EXPECT_EQ(negative.quantile(0.75), 0);
  uint64_t sum = 0;
  for (const uint64_t count : histogram.even_bins(10, 1, 1000)) sum += count;
  EXPECT_EQ(sum, 1000u);
}

TEST(CorpusStats, CountsWhatIsThere) {
  TextStats stats;
  EXPECT_TRUE(std::isnan(stats.compression()) && std::isnan(stats.distinct_words()));
  stats.add("the cat saw the dog, and the dog saw the cat");
  stats.add("the cat saw the dog, and the dog saw the cat");
  stats.add("水\n\n火");
  EXPECT_EQ(stats.documents(), 3u);
  EXPECT_EQ(stats.bytes(), 44u * 2 + 8);
  EXPECT_EQ(stats.characters(), 44u * 2 + 4);
  EXPECT_EQ(stats.copies(), 1u);
  EXPECT_EQ(stats.lines(), 4u);
  EXPECT_EQ(stats.words(), 24u);
  EXPECT_DOUBLE_EQ(stats.distinct_words(), 7.0 / 24);  // the cat saw dog and, and two ideographs
  EXPECT_GT(stats.compression(), 0.9);
}

}  // namespace
}  // namespace athanor::tests::corpus_workers_test
