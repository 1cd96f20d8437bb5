#include "athanor/corpus/perplexity/perplexity.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/corpus/perplexity/ngram_model.h"
#include "athanor/corpus/perplexity/ngram_words.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::perplexity_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

Words words_of(std::string_view text, bool lowercase = true) {
  Words words;
  for_each_ngram_word(text, lowercase, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

// Lines of words whose frequencies fall as 1/rank, each word depending on the one before.
std::vector<std::string> documents_of(int count, uint64_t seed, int words = 40) {
  const RandomStream random(seed, "perplexity_test");
  std::vector<std::string> documents;
  uint64_t element = 0;
  for (int d = 0; d < count; ++d) {
    std::string text;
    int last = 0;
    for (int w = 0; w < 30; ++w) {
      const double u = random.uniform(element++, 0);
      int word = static_cast<int>(std::pow(words, u)) - 1;
      if (random.uniform(element++, 0) < 0.5F) word = (last * 7 + 3) % words;
      last = word;
      text += "w" + std::to_string(word) + (random.uniform(element++, 0) < 0.15F ? "\n" : " ");
    }
    documents.push_back(text);
  }
  return documents;
}

// The formulas once more, with maps of strings and no thought of speed.
class PlainModel {
 public:
  PlainModel(const std::vector<std::string>& documents, size_t order) : order_(order), counts_(order + 1) {
    std::vector<Words> sentences;
    for (const std::string& document : documents) {
      std::istringstream lines(document);
      std::string line, word;
      while (std::getline(lines, line)) {
        Words sentence{"<s>"};
        std::istringstream in(line);
        while (in >> word) sentence.push_back(word);
        if (sentence.size() == 1) continue;
        sentence.emplace_back("</s>");
        sentences.push_back(sentence);
      }
    }
    std::vector<std::map<Words, std::set<std::string>>> before(order + 1);
    std::vector<std::map<Words, double>> raw(order + 1);
    for (const Words& sentence : sentences)
      for (size_t n = 1; n <= order; ++n)
        for (size_t i = 0; i + n <= sentence.size(); ++i) {
          const Words gram(sentence.begin() + static_cast<long>(i),
                           sentence.begin() + static_cast<long>(i + n));
          raw[n][gram] += 1;
          if (i > 0) before[n][gram].insert(sentence[i - 1]);
        }
    for (size_t n = 1; n <= order; ++n)
      for (const auto& [gram, count] : raw[n])
        if (gram != Words{"<s>"})
          counts_[n][gram] =
              n == order || gram[0] == "<s>" ? count : static_cast<double>(before[n][gram].size());
    discounts_.resize(order + 1);
    for (size_t n = 1; n <= order; ++n) {
      double t[5] = {};
      for (const auto& [gram, count] : counts_[n])
        if (count <= 4) t[static_cast<int>(count)] += 1;
      const double y = t[1] / (t[1] + 2 * t[2]);
      const double d[4] = {0, 1 - 2 * y * t[2] / t[1], 2 - 3 * y * t[3] / t[2], 3 - 4 * y * t[4] / t[3]};
      bool usable = true;
      for (int i = 1; i <= 3; ++i) usable = usable && t[i] > 0 && t[i + 1] > 0 && d[i] > 0 && d[i] < i;
      fitted_ += usable;
      for (int i = 0; i <= 3; ++i) discounts_[n].push_back(usable ? d[i] : 0);
      if (!usable) discounts_[n] = {0, 0.5, 1, 1.5};
    }
    for (const auto& [gram, count] : counts_[1]) vocabulary_.push_back(gram[0]);
  }

  double probability(Words context, const std::string& word) const {
    while (context.size() > order_ - 1) context.erase(context.begin());
    const double v = static_cast<double>(vocabulary_.size()) + 1;
    const double lower =
        context.empty() ? 1 / v : probability(Words(context.begin() + 1, context.end()), word);
    const size_t n = context.size() + 1;
    double total = 0, discounted = 0, own = 0;
    for (const auto& [gram, count] : counts_[n]) {
      if (!std::equal(context.begin(), context.end(), gram.begin())) continue;
      const double discount = discounts_[n][static_cast<size_t>(std::min(count, 3.0))];
      total += count;
      discounted += discount;
      if (gram.back() == word) own = count - discount;
    }
    return total == 0 ? lower : own / total + discounted / total * lower;
  }
  const Words& vocabulary() const { return vocabulary_; }
  int fitted() const { return fitted_; }  // orders whose discounts follow the counts

 private:
  size_t order_;
  std::vector<std::map<Words, double>> counts_;
  std::vector<std::vector<double>> discounts_;
  Words vocabulary_;
  int fitted_ = 0;
};

double log_prob(const NgramModel& model, const Words& context, const std::string& word) {
  const std::vector<std::string_view> views(context.begin(), context.end());
  return model.log_prob(views, word);
}

std::vector<Words> contexts() {
  return {{},
          {"<s>"},
          {"w0"},
          {"w3"},
          {"<s>", "w0"},
          {"w0", "w3"},
          {"w3", "w24"},
          {"new", "w3"},
          {"w3", "new"},
          {"w0", "w3", "w24"},
          {"<s>", "w3", "w24"},
          {"w24", "w11", "w0", "w3", "w24"}};
}

TEST(NgramModelTest, GivesTheProbabilitiesOfAPlainImplementation) {
  const std::vector<std::string> documents = documents_of(60, 1);
  int fitted = 0;
  for (const size_t order : {1U, 2U, 3U, 5U}) {
    const PlainModel plain(documents, order);
    const NgramModel model = NgramModel::train(documents, {.order = static_cast<int64_t>(order)});
    EXPECT_EQ(model.vocabulary(), static_cast<int64_t>(plain.vocabulary().size()) + 1);
    fitted += plain.fitted();
    Words words = plain.vocabulary();
    words.emplace_back("new");
    for (const Words& context : contexts())
      for (const std::string& word : words) {
        const double expected = std::log(plain.probability(context, word));
        EXPECT_NEAR(log_prob(model, context, word), expected, 1e-6 * std::abs(expected))
            << order << ' ' << ::testing::PrintToString(context) << ' ' << word;
      }
  }
  EXPECT_GE(fitted, 3);  // else only the fixed discounts would be looked at
}

TEST(NgramModelTest, PerplexityOfADocumentIsThatOfAPlainImplementation) {
  const std::vector<std::string> documents = documents_of(40, 2);
  const PlainModel plain(documents, 4);
  const NgramModel model = NgramModel::train(documents, {.order = 4});
  const std::string text = "w0 w3 w24 new w0\n\n  w5 w3\nw0";
  double expected = 0;
  for (const Words& sentence :
       {Words{"w0", "w3", "w24", "new", "w0", "</s>"}, Words{"w5", "w3", "</s>"}, Words{"w0", "</s>"}}) {
    Words context{"<s>"};
    for (const std::string& word : sentence) {
      expected += std::log(plain.probability(context, word));
      context.push_back(word);
    }
  }
  const NgramScore score = model.score(text);
  EXPECT_EQ(score.words, 11);
  EXPECT_NEAR(score.log_prob, expected, 1e-6 * std::abs(expected));
}

TEST(NgramModelTest, ProbabilitiesSumToOne) {
  const std::vector<std::string> documents = documents_of(300, 3);
  const NgramModel model = NgramModel::train(documents, {.order = 5});
  const Words vocabulary = PlainModel(documents, 1).vocabulary();
  for (const Words& context : contexts()) {
    double sum = std::exp(log_prob(model, context, "new"));
    for (const std::string& word : vocabulary) sum += std::exp(log_prob(model, context, word));
    EXPECT_NEAR(sum, 1.0, 1e-6) << ::testing::PrintToString(context);
  }
  EXPECT_EQ(log_prob(model, {}, "<s>"), -INFINITY);
}

// "a b", "a a": worked out by hand for order 2, with D = 0.5, 1, 1.5 since so little text gives no others.
TEST(NgramModelTest, ATinyTextByHand) {
  const std::vector<std::string> documents = {"a b\na a"};
  const NgramModel model = NgramModel::train(documents, {.order = 2});
  // Unigrams by different words before: a {<s>, a} 2, b {a} 1, </s> {b, a} 2; sum 5; b(e) = (1 + 0.5 + 1) / 5 = 0.5; V = 4.
  EXPECT_NEAR(log_prob(model, {}, "a"), std::log(1.0 / 5 + 0.5 / 4), 1e-6);
  EXPECT_NEAR(log_prob(model, {}, "b"), std::log(0.5 / 5 + 0.5 / 4), 1e-6);
  EXPECT_NEAR(log_prob(model, {}, "zebra"), std::log(0.5 / 4), 1e-6);
  // After a: b 1, a 1, </s> 1; sum 3; b(a) = 1.5 / 3.
  EXPECT_NEAR(log_prob(model, {"a"}, "b"), std::log(0.5 / 3 + 0.5 * 0.225), 1e-6);
  EXPECT_NEAR(log_prob(model, {"a"}, "zebra"), std::log(0.5 * 0.125), 1e-6);
  // After <s>: a 2; sum 2; b(<s>) = 1 / 2.
  EXPECT_NEAR(log_prob(model, {"<s>"}, "a"), std::log(1.0 / 2 + 0.5 * 0.325), 1e-6);
  EXPECT_NEAR(log_prob(model, {"zebra"}, "a"), std::log(0.325), 1e-6);
}

TEST(NgramWordsTest, SplitsTextsOfAnyLanguage) {
  EXPECT_THAT(words_of("Don't STOP.\n\nEnd_1"),
              ElementsAre("don", "'", "t", "stop", ".", "\n", "end_1", "\n"));
  EXPECT_THAT(words_of("Don't", false), ElementsAre("Don", "'", "t", "\n"));
  EXPECT_THAT(words_of("火炉ab炉\xE3\x81\x82\xE3\x82\xA2"),
              ElementsAre("火", "炉", "ab", "炉", "あ", "ア", "\n"));
  EXPECT_THAT(words_of("ÄRGER e\u0301t\u00A0Ёж"), ElementsAre("ärger", "e\u0301t", "ёж", "\n"));
  EXPECT_THAT(words_of("a\xFF"
                       "b"),
              ElementsAre("a", "\xFF", "b", "\n"));
  EXPECT_THAT(words_of(std::string("a\0b", 3)), ElementsAre("a", std::string(1, '\0'), "b", "\n"));
  EXPECT_THAT(words_of(" \n \t\n"), ElementsAre());
  EXPECT_THAT(words_of(""), ElementsAre());
}

class NgramFileTest : public ::testing::Test {
 protected:
  std::string failure(const std::string& bytes) {
    std::ofstream(folder_.path("damaged.ngram"), std::ios::binary) << bytes;
    try {
      NgramModel::read(system_env(), folder_.path("damaged.ngram"));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged.ngram"));
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
};

TEST_F(NgramFileTest, AFileGivesTheSameModelAndTheSameBytes) {
  const std::vector<std::string> documents = documents_of(50, 4);
  const NgramModel model = NgramModel::train(documents, {.order = 3, .lowercase = false});
  const std::string path = folder_.path("a.ngram");
  model.write(system_env(), path);
  const NgramModel again = NgramModel::read(system_env(), path);
  EXPECT_EQ(again.order(), 3);
  EXPECT_EQ(again.vocabulary(), model.vocabulary());
  EXPECT_FALSE(again.lowercase());
  const std::string text = documents_of(1, 5)[0] + " W0 new";
  EXPECT_EQ(again.score(text).log_prob, model.score(text).log_prob);
  NgramModel::train(documents, {.order = 3, .lowercase = false}).write(system_env(), folder_.path("b.ngram"));
  EXPECT_EQ(system_env().read_text(path), system_env().read_text(folder_.path("b.ngram")));
}

TEST_F(NgramFileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  const std::string path = folder_.path("a.ngram");
  NgramModel::train(documents_of(5, 6, 5), {.order = 2}).write(system_env(), path);
  const std::string before = system_env().read_text(path);
  const NgramModel other = NgramModel::train(documents_of(5, 7, 5), {.order = 2});
  FaultEnv counter;
  other.write(counter, folder_.path("b.ngram"));
  system_env().remove_all(folder_.path("b.ngram"));
  for (int64_t call = 0; call + 1 < counter.calls(); ++call) {  // the last one is the sync of the folder
    FaultEnv env(call);
    EXPECT_THROW(other.write(env, path), IoError) << call;
    EXPECT_EQ(system_env().read_text(path), before) << call;
    EXPECT_THAT(system_env().list(folder_.path("")), ElementsAre("a.ngram")) << call;
  }
}

TEST_F(NgramFileTest, RefusesDamagedFilesByName) {
  const std::string path = folder_.path("a.ngram");
  NgramModel::train(documents_of(5, 6, 5), {.order = 2}).write(system_env(), path);
  const std::string bytes = system_env().read_text(path);
  EXPECT_EQ(failure(bytes), "");
  for (size_t size = 0; size < bytes.size(); size += size < 64 ? 1 : 13)
    EXPECT_NE(failure(bytes.substr(0, size)), "") << size;
  for (size_t at = 0; at < bytes.size(); at += at < 64 ? 1 : 7) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    EXPECT_NE(failure(changed), "") << at;
  }
  std::string huge = bytes;
  for (size_t at = 40; at < 48; ++at) huge[at] = '\x7F';  // a number of n-grams that no memory holds
  EXPECT_THAT(failure(huge), HasSubstr("its length"));
  EXPECT_NE(failure(bytes + "x"), "");
  EXPECT_THAT(failure(std::string(200, 'x')), HasSubstr("its beginning"));
}

TEST(NgramTrainerTest, RefusesWhatItCannotTake) {
  NgramTrainer trainer({.order = 2, .most_words = 5});
  trainer.add("a b c d");  // and the end of the line
  EXPECT_THROW(trainer.add("e"), ConfigError);
  EXPECT_THROW(NgramTrainer({.order = 0}), ConfigError);
  EXPECT_THROW(NgramTrainer({.order = kMostNgramOrder + 1}), ConfigError);
  EXPECT_THROW(NgramTrainer({.most_words = 0}), ConfigError);
  EXPECT_THROW(NgramModel::train({}, {}), ConfigError);
}

class PerplexityStageTest : public ::testing::Test {
 protected:
  PerplexityStageTest() {
    for (const std::string& text : documents_of(200, 7)) reference_ += text + "\n";
    std::ofstream(folder_.path("clean.txt")) << reference_;
  }
  static std::vector<double> scores(const Stage& stage, std::string text) {
    Document document{.id = "x", .text = std::move(text)};
    std::vector<double> values(stage.scores().size());
    stage.annotate(document, values);
    return values;
  }
  std::string refusal(const PerplexityOptions& options) {
    try {
      make_perplexity(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
  std::string reference_;
};

TEST_F(PerplexityStageTest, ScoresAreThoseOfTheModel) {
  const auto stage = make_perplexity({.reference = {folder_.path("clean.txt")}, .order = 3});
  const NgramModel model = NgramModel::train(std::vector<std::string>{reference_}, {.order = 3});
  const std::string text = documents_of(1, 8)[0];
  const NgramScore score = model.score(text);
  const std::vector<double> values = scores(*stage, text);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_DOUBLE_EQ(values[0], std::exp(-score.log_prob / static_cast<double>(score.words)));
  EXPECT_DOUBLE_EQ(values[1], -score.log_prob / std::log(2.0) / static_cast<double>(text.size()));
  model.write(system_env(), folder_.path("m.ngram"));
  EXPECT_EQ(scores(*make_perplexity({.model = folder_.path("m.ngram")}), text), values);
  EXPECT_TRUE(std::isnan(scores(*stage, "")[0]));
  EXPECT_TRUE(std::isnan(scores(*stage, " \n ")[1]));
  EXPECT_GT(scores(*stage, "entirely unknown words of some other kind")[0], values[0]);
  EXPECT_TRUE(
      std::isfinite(scores(*stage, "\xFF\x80" + std::string(100000, 'x') + std::string("\0\n", 2))[0]));
}

TEST_F(PerplexityStageTest, RulesHoldAtTheirThresholds) {
  const std::string file = folder_.path("clean.txt");
  const auto open = make_perplexity({.reference = {file}});
  EXPECT_TRUE(open->rules().empty());
  const std::string text = documents_of(1, 9)[0];
  const double p = scores(*open, text)[0];
  const auto dropped = [&](const PerplexityOptions& options) {
    const auto stage = make_perplexity(options);
    const Rule* rule = first_broken(stage->rules(), scores(*stage, text));
    return rule == nullptr ? std::string() : rule->name;
  };
  EXPECT_EQ(dropped({.reference = {file}, .most = p}), "");
  EXPECT_EQ(dropped({.reference = {file}, .most = p * 0.999}), "perplexity");
  EXPECT_EQ(dropped({.reference = {file}, .least = p}), "");
  EXPECT_EQ(dropped({.reference = {file}, .least = p * 1.001}), "perplexity");
  EXPECT_EQ(dropped({.reference = {file}, .head_most = p, .middle_most = 2 * p, .keep = {"head"}}), "");
  EXPECT_EQ(dropped({.reference = {file}, .head_most = p / 2, .middle_most = p, .keep = {"middle", "head"}}),
            "");
  EXPECT_EQ(dropped({.reference = {file}, .head_most = p / 2, .middle_most = p, .keep = {"head"}}),
            "perplexity.bucket");
  EXPECT_EQ(dropped({.reference = {file}, .head_most = p / 3, .middle_most = p / 2, .keep = {"tail"}}), "");
  EXPECT_EQ(dropped({.reference = {file}, .head_most = p, .middle_most = p, .keep = {"middle", "tail"}}),
            "perplexity.bucket");
}

TEST_F(PerplexityStageTest, RefusesSettingsByName) {
  const std::string file = folder_.path("clean.txt");
  EXPECT_THAT(refusal({}), HasSubstr("neither"));
  EXPECT_THAT(refusal({.model = "x", .reference = {"y"}}), HasSubstr("both"));
  EXPECT_THAT(refusal({.reference = {file}, .least = 5, .most = 4}), HasSubstr("perplexity.most"));
  EXPECT_THAT(refusal({.reference = {file}, .keep = {"head"}}), HasSubstr("perplexity.keep"));
  EXPECT_THAT(refusal({.reference = {file}, .head_most = 2, .middle_most = 1}),
              HasSubstr("perplexity.middle_most"));
  EXPECT_THAT(refusal({.reference = {file}, .head_most = 1, .middle_most = 2, .keep = {"haed"}}),
              HasSubstr("haed"));
  EXPECT_THAT(refusal({.reference = {file}, .head_most = 1, .middle_most = 2, .keep = {"head", "tail"}}),
              HasSubstr("next to each other"));
  EXPECT_THAT(refusal({.reference = {file}, .order = 99}), HasSubstr("perplexity.order"));
  EXPECT_EQ(perplexity_fields().size(), 10u);
}

}  // namespace
}  // namespace athanor::tests::perplexity_test
