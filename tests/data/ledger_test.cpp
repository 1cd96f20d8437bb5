// The ledger on lists of samples: what breaks law 3 is named, and what a decision skips is neither missing nor trained.
#include "athanor/data/ledger.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "athanor/base/error.h"

namespace athanor::tests::ledger_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Sampler::ChannelShape> kChannels = {{"en", 0.75, 9}, {"code", 0.25, 4}};
constexpr int64_t kBatch = 4;

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LedgerTest, ProvesARun) {
  const Sampler sampler({{"en", 0.7, 50}, {"code", 0.3, 7}, {"off", 0, 0}}, 3, 12);
  const LedgerReport report = check_ledger(sampler, 1, 60);
  EXPECT_EQ(report.samples, 720);
  ASSERT_EQ(report.channels.size(), 3u);
  EXPECT_EQ(report.channels[0].samples, 504);
  EXPECT_EQ(report.channels[0].whole_epochs, 10);
  EXPECT_EQ(report.channels[1].whole_epochs, 30);
  EXPECT_EQ(report.channels[1].last_epoch, 30);
  EXPECT_EQ(report.channels[2].samples, 0);
  EXPECT_EQ(check_ledger(sampler, 1, 60).hash, report.hash);
  EXPECT_NE(check_ledger(Sampler(sampler.channels(), 4, 12), 1, 60).hash, report.hash);
  EXPECT_NO_THROW(check_ledger(sampler, 17, 60));
  std::string csv;
  write_ledger(sampler, 1, 60, [&](std::string_view lines) { csv += lines; });
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 721);
  EXPECT_TRUE(csv.starts_with("step,slot,channel,epoch,sequence,fate\n1,0,0,0,"));
}

// Of all samples of two runs, from before phases were there: whoever changes these breaks the resume of every run.
TEST(LedgerTest, TheOrderOfARunWithoutPhasesIsPinned) {
  EXPECT_EQ(check_ledger(Sampler({{"en", 0.7, 1000}, {"code", 0.3, 77}}, 1, 4), 1, 500).hash,
            "eca6a0e0c3359e912e050dcfdcc68248");
  EXPECT_EQ(check_ledger(Sampler({{"en", 0.5, 50}, {"a.b", 0.5, 7}}, 3, 12), 7, 90).hash,
            "67c89fcf599635869628e62bbe3dbd95");
}

// A phase is a run of its own to the ledger: its epochs begin with its first step.
TEST(LedgerTest, ProvesAPhase) {
  const Sampler sampler({{"en", 0.7, 50}, {"code", 0.3, 7}}, 3, 12, {"long context", 31});
  const LedgerReport report = check_ledger(sampler, 31, 90);
  EXPECT_EQ(report.channels[0].whole_epochs, 10);
  EXPECT_EQ(report.channels[1].whole_epochs, 30);
  EXPECT_EQ(report.channels[1].first_epoch, 0);
  EXPECT_NO_THROW(check_ledger(sampler, 47, 90));
  EXPECT_THAT(refusal([&] { check_ledger(sampler, 30, 90); }), HasSubstr("from 31 up"));
}

// The check must see each way in which a sampler could break the law.
TEST(LedgerTest, SeesEveryViolation) {
  const auto verdict = [](bool from_start, const std::vector<Sample>& samples) {
    LedgerCheck ledger({{"en", 1, 3}}, from_start);
    return refusal([&] {
      for (size_t i = 0; i < samples.size(); ++i) ledger.add(1, static_cast<int64_t>(i), samples[i]);
    });
  };
  EXPECT_EQ(verdict(true, {{0, 0, 2}, {0, 0, 0}, {0, 0, 1}, {0, 1, 1}}), "");
  EXPECT_EQ(verdict(false, {{0, 5, 2}, {0, 6, 2}, {0, 6, 0}, {0, 6, 1}}), "");
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 0, 2}}), HasSubstr("twice"));
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 0, 1}, {0, 1, 0}}),
              HasSubstr("before epoch 0 was complete: 1 sequences are missing, the first is 0"));
  EXPECT_THAT(verdict(false, {{0, 5, 2}, {0, 6, 2}, {0, 7, 0}}),
              HasSubstr("before epoch 6 was complete: 2 sequences are missing, the first is 0"));
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 2, 1}}), HasSubstr("does not follow"));
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 0, 1}, {0, 0, 0}, {0, 0, 1}}), HasSubstr("twice"));
  EXPECT_THAT(verdict(true, {{0, 1, 0}}), HasSubstr("first epoch"));
  EXPECT_THAT(verdict(true, {{0, 0, 3}}), HasSubstr("no such sequence"));
  EXPECT_THAT(verdict(true, {{1, 0, 0}}), HasSubstr("channel 1"));
}

// One channel of three sequences, all in step 1.
TEST(LedgerTest, ASkippedSampleIsNeitherMissingNorFree) {
  const auto complaint = [](const std::vector<std::pair<Sample, Fate>>& samples) {
    LedgerCheck ledger({{"en", 1, 3}}, /*from_start=*/true);
    return refusal([&] {
      for (size_t i = 0; i < samples.size(); ++i)
        ledger.add(1, static_cast<int64_t>(i), samples[i].first, samples[i].second);
    });
  };
  const auto trained = [](int64_t epoch, int64_t sequence) {
    return std::pair(Sample{0, epoch, sequence}, Fate::trained);
  };
  const auto skipped = [](int64_t epoch, int64_t sequence) {
    return std::pair(Sample{0, epoch, sequence}, Fate::skipped);
  };
  EXPECT_EQ(complaint({trained(0, 2), skipped(0, 0), trained(0, 1), trained(1, 0)}), "");
  EXPECT_THAT(complaint({trained(0, 2), trained(0, 1), trained(1, 0)}),
              HasSubstr("1 sequences are missing, the first is 0"));
  EXPECT_THAT(complaint({skipped(0, 2), trained(0, 1), trained(0, 2)}),
              HasSubstr("sequence 2: was skipped in this epoch"));
  EXPECT_THAT(complaint({trained(0, 2), skipped(0, 2)}), HasSubstr("slot 1 (skipped): channel 'en'"));
}

// Counted here from the list itself. Ten steps and the skips go through several epochs of both channels.
TEST(LedgerTest, SkippedSamplesAreConsumedAndNotTrainedOn) {
  const std::vector<BatchSkip> skips = {{.step = 2, .batches = 1}, {.step = 5, .batches = 7}};
  const Sampler sampler(kChannels, 1, kBatch, {.skips = skips});
  const LedgerReport report = check_ledger(sampler, 1, 10);
  EXPECT_EQ(report.skips, skips);
  EXPECT_EQ(report.samples, 10 * kBatch);
  EXPECT_EQ(report.skipped, 8 * kBatch);
  EXPECT_EQ(report.channels[0].samples + report.channels[1].samples, report.samples);
  EXPECT_EQ(report.channels[0].skipped + report.channels[1].skipped, report.skipped);
  EXPECT_EQ(report.channels[0].whole_epochs, 54 / 9);
  EXPECT_EQ(report.channels[1].whole_epochs, 18 / 4);
  std::string csv;
  write_ledger(sampler, 1, 10, [&](std::string_view lines) { csv += lines; });
  EXPECT_THAT(csv, ::testing::StartsWith("step,slot,channel,epoch,sequence,fate\n1,0,"));
  std::map<std::string, int> fates;
  std::map<std::string, std::set<std::string>> sequences;  // of a channel and epoch
  for (size_t at = csv.find('\n') + 1; at < csv.size();) {
    const std::string line = csv.substr(at, csv.find('\n', at) - at);
    at += line.size() + 1;
    ++fates[line.substr(line.rfind(',') + 1) + " at step " + line.substr(0, line.find(','))];
    const size_t channel = line.find(',', line.find(',') + 1),
                 sequence = line.rfind(',', line.rfind(',') - 1);
    EXPECT_TRUE(sequences[line.substr(channel, sequence - channel)]
                    .insert(line.substr(sequence, line.rfind(',') - sequence))
                    .second)
        << line;
  }
  EXPECT_EQ(fates["skipped at step 2"], 1 * kBatch);
  EXPECT_EQ(fates["skipped at step 5"], 7 * kBatch);
  EXPECT_EQ(fates["trained at step 5"], kBatch);
  EXPECT_EQ(fates.size(), 12u);
}

TEST(LedgerTest, ARangeHasTheSkipsOfItsSteps) {
  const Sampler sampler(kChannels, 1, kBatch, {.skips = {{2, 1}, {5, 7}, {9, 1}}});
  EXPECT_THAT(check_ledger(sampler, 3, 8).skips, ElementsAre(BatchSkip{5, 7}));
  EXPECT_THAT(check_ledger(sampler, 5, 5).skips, ElementsAre(BatchSkip{5, 7}));
  EXPECT_THAT(check_ledger(sampler, 6, 8).skips, ElementsAre());
  EXPECT_NE(check_ledger(sampler, 6, 8).hash, check_ledger(Sampler(kChannels, 1, kBatch), 6, 8).hash);
  EXPECT_EQ(check_ledger(sampler, 1, 1).hash, check_ledger(Sampler(kChannels, 1, kBatch), 1, 1).hash);
}

}  // namespace
}  // namespace athanor::tests::ledger_test
