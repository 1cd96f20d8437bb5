#include "athanor/corpus/classifier/classifier.h"

#include <fasttext/fasttext.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/corpus/classifier/fasttext_model.h"
#include "athanor/corpus/classifier/linear_model.h"
#include "support/temporary_folder.h"

namespace athanor::tests::classifier_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

// Documents of simple English sentences, and what makes bad ones of them.
class TextMaker {
 public:
  explicit TextMaker(uint64_t seed) : random_(seed, "classifier_test") {}

  std::string clean() {
    std::string text;
    for (uint64_t i = 8 + pick(8); i > 0; --i) text += sentence() + (pick(5) == 0 ? "\n" : " ");
    return text;
  }
  std::string shuffled(const std::string& text) {
    Texts words;
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
    std::string out;
    for (size_t i = words.size(); i > 0; --i) {
      std::swap(words[i - 1], words[pick(i)]);
      out += words[i - 1] + (pick(30) == 0 ? "\n" : " ");
    }
    return out;
  }
  std::string garbled(std::string text) {
    for (char& c : text)
      if (c != ' ' && c != '\n' && pick(100) < 12) c = "abcdefghijklmnopqrstuvwxyz0123456789#@%&"[pick(40)];
    return text;
  }
  std::string boilerplate() {
    const Texts phrases = {
        "Home",           "About us",    "Sign in to the shop", "All rights reserved", "Read more",
        "Privacy policy", "Add to cart", "Share on the page",   "Leave a comment",     "Back to the top",
        "Related posts"};
    std::string text;
    for (uint64_t i = 20 + pick(20); i > 0; --i)
      text += phrases[pick(phrases.size())] + (pick(2) == 0 ? " | " : "\n");
    return text;
  }

 private:
  uint64_t pick(uint64_t count) { return random_.word(next_++, 0) % count; }
  std::string one_of(const Texts& words) { return words[pick(words.size())]; }
  std::string thing() {
    return one_of({"the", "a", "this", "every", "no"}) + " " +
           (pick(2) == 0
                ? one_of({"old", "quiet", "bright", "heavy", "small", "distant", "careful", "broken"}) + " "
                : "") +
           one_of({"furnace", "river", "teacher", "garden", "machine", "letter", "village", "doctor",
                   "window", "engine"});
  }
  std::string sentence() {
    std::string text = thing() + " " +
                       one_of({"holds", "crosses", "remembers", "opens", "repairs", "follows", "keeps"}) +
                       " " + thing();
    if (pick(2) == 0) text += " " + one_of({"in", "near", "behind", "without", "under"}) + " " + thing();
    if (pick(3) == 0) text += ", " + one_of({"and", "but", "because", "while"}) + " " + thing() + " waits";
    return text + ".";
  }

  RandomStream random_;
  uint64_t next_ = 0;
};

struct Examples {
  Texts good, bad;
};

Examples examples(uint64_t seed, int count = 300) {
  TextMaker make(seed);
  Examples made;
  for (int i = 0; i < count; ++i) {
    made.good.push_back(make.clean());
    made.bad.push_back(make.shuffled(make.clean()));
    made.bad.push_back(i % 2 == 0 ? make.garbled(make.clean()) : make.boilerplate());
  }
  return made;
}

std::vector<double> probabilities(const LinearModel& model, const Texts& texts) {
  std::vector<double> all;
  for (const std::string& text : texts) all.push_back(model.probability(text));
  return all;
}

TEST(LinearModelTest, TellsCleanTextFromShuffledGarbledAndBoilerplate) {
  for (const int64_t characters : {0, 3}) {
    const Examples training = examples(1);
    const LinearModel model =
        train_classifier(training.good, training.bad, {.features = {.characters = characters}});
    EXPECT_GE(model.held_out_auc(), 0.95);
    EXPECT_LE(model.held_out_auc(), 1.0);
    EXPECT_EQ(model.documents(), 900);
    TextMaker make(
        2);  // documents that training has not seen, the bad ones made of others than the good ones
    Texts clean, shuffled, garbled, boilerplate;
    for (int i = 0; i < 150; ++i) {
      clean.push_back(make.clean());
      shuffled.push_back(make.shuffled(make.clean()));
      garbled.push_back(make.garbled(make.clean()));
      boilerplate.push_back(make.boilerplate());
    }
    const std::vector<double> good = probabilities(model, clean);
    for (const Texts& bad : {shuffled, garbled, boilerplate})
      EXPECT_GE(area_under_curve(good, probabilities(model, bad)), 0.95) << bad[0];
  }
}

TEST(LinearModelTest, TheSameSeedGivesTheSameBits) {
  const TemporaryFolder folder;
  const Examples training = examples(3, 40);
  const auto bytes = [&](uint64_t seed) {
    train_classifier(training.good, training.bad, {.seed = seed}).write(system_env(), folder.path("m"));
    return system_env().read_text(folder.path("m"));
  };
  const std::string first = bytes(1);
  EXPECT_EQ(bytes(1), first);
  EXPECT_NE(bytes(2), first);
}

// The steps once more with a map from words, in both orders of two examples, of which one is Philox's.
TEST(LinearModelTest, ItsStepsAreThoseOfAdaGrad) {
  const Texts good = {"a b"}, bad = {"b c c"};
  const LinearModel model = train_classifier(
      good, bad, {.features = {.words = 1}, .epochs = 1, .learning_rate = 0.3, .held_out = 0.0});
  EXPECT_TRUE(std::isnan(model.held_out_auc()));
  const std::vector<Texts> words = {{"b", "c", "c", "/"}, {"a", "b", "/"}};  // "/": the end of a line
  double nearest = INFINITY;
  for (const size_t first : {0U, 1U}) {
    std::map<std::string, double> weights, squares;
    double bias = 0, bias_squares = 0;
    const auto margin = [&](const Texts& features) {
      double sum = 0;
      for (const std::string& feature : features) sum += weights[feature];
      return bias + sum / std::sqrt(static_cast<double>(features.size()));
    };
    for (const size_t label : {first, 1 - first}) {
      const double slope = 1 / (1 + std::exp(-margin(words[label]))) - static_cast<double>(label);
      const double each = slope / std::sqrt(static_cast<double>(words[label].size()));
      for (const std::string& feature : words[label]) {
        squares[feature] += each * each;
        weights[feature] -= 0.3 * each / std::sqrt(squares[feature]);
      }
      bias_squares += slope * slope;
      bias -= 0.3 * slope / std::sqrt(bias_squares);
    }
    double difference = 0;
    for (const auto& [text, features] :
         std::map<std::string, Texts>{{"a", {"a", "/"}}, {"B c", {"b", "c", "/"}}, {"new", {"new", "/"}}})
      difference =
          std::max(difference, std::abs(model.probability(text) - 1 / (1 + std::exp(-margin(features)))));
    nearest = std::min(nearest, difference);
  }
  EXPECT_LT(nearest, 1e-6);
}

TEST(LinearModelTest, FeaturesAreWordsRunsOfWordsAndOfCharacters) {
  const auto features = [](std::string_view text, int64_t words, int64_t characters, bool lowercase = true) {
    return features_of(text, {.bits = 24, .words = words, .characters = characters, .lowercase = lowercase});
  };
  EXPECT_EQ(features("a b c", 1, 0).size(), 4u);  // and the end of the line
  EXPECT_EQ(features("a b c", 2, 0).size(), 4u + 3u);
  EXPECT_EQ(features("a b c", 3, 0).size(), 4u + 3u + 2u);
  EXPECT_EQ(features("abc", 1, 3).size(), 2u + 3u);               // ^ab abc bc$
  EXPECT_EQ(features("\xC3\xA4\xC3\xB6", 1, 3).size(), 2u + 2u);  // two characters of two bytes
  EXPECT_EQ(features("a", 1, 8).size(), 2u + 1u);
  EXPECT_EQ(features("Ab", 2, 3), features("aB", 2, 3));
  EXPECT_NE(features("Ab", 2, 3, false), features("aB", 2, 3, false));
  EXPECT_NE(features("a b", 2, 0)[2], features("b a", 2, 0)[2]);
  EXPECT_TRUE(features("", 2, 3).empty());
  EXPECT_FALSE(features("\xFF\x80", 2, 3).empty());
  EXPECT_FALSE(features(std::string_view("\0", 1), 2, 3).empty());
  EXPECT_EQ(features(std::string(1000000, 'x'), 2, 3).size(), 3u + 1000000u);
}

TEST(LinearModelTest, AreaUnderTheCurveCountsPairs) {
  EXPECT_EQ(area_under_curve({3, 4}, {1, 2}), 1.0);
  EXPECT_EQ(area_under_curve({1, 2}, {3, 4}), 0.0);
  EXPECT_EQ(area_under_curve({1, 1}, {1}), 0.5);
  EXPECT_EQ(area_under_curve({1, 3, 5}, {2, 3}), (0.0 + 1.5 + 2.0) / 6.0);
  EXPECT_TRUE(std::isnan(area_under_curve({}, {1})));
}

TEST(LinearModelTest, RefusesWhatItCannotLearnFrom) {
  const Texts some = {"a"}, none = {"", " \n"};
  EXPECT_THROW(train_classifier(some, none, {}), ConfigError);
  EXPECT_THROW(train_classifier({}, some, {}), ConfigError);
  EXPECT_THROW(train_classifier(some, some, {.epochs = 0}), ConfigError);
  EXPECT_THROW(train_classifier(some, some, {.learning_rate = 0.0}), ConfigError);
  EXPECT_THROW(train_classifier(some, some, {.held_out = 0.6}), ConfigError);
  EXPECT_THROW(train_classifier(some, some, {.features = {.bits = 25}}), ConfigError);
  EXPECT_THROW(train_classifier(some, some, {.features = {.words = 0}}), ConfigError);
  EXPECT_THROW(train_classifier(some, some, {.features = {.characters = 9}}), ConfigError);
}

class ClassifierFileTest : public ::testing::Test {
 protected:
  std::string failure(const std::string& bytes) {
    std::ofstream(folder_.path("damaged"), std::ios::binary) << bytes;
    try {
      LinearModel::read(system_env(), folder_.path("damaged"));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged"));
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
};

TEST_F(ClassifierFileTest, AFileGivesTheSameModel) {
  const Examples training = examples(4, 30);
  const LinearModel model =
      train_classifier(training.good, training.bad,
                       {.features = {.bits = 14, .words = 3, .characters = 4, .lowercase = false}});
  model.write(system_env(), folder_.path("m"));
  const LinearModel again = LinearModel::read(system_env(), folder_.path("m"));
  EXPECT_EQ(again.held_out_auc(), model.held_out_auc());
  EXPECT_EQ(again.documents(), 90);
  for (const std::string& text : training.bad) EXPECT_EQ(again.probability(text), model.probability(text));
  EXPECT_TRUE(std::isnan(again.probability("")));
}

TEST_F(ClassifierFileTest, RefusesDamagedFilesByName) {
  train_classifier(Texts{"a b c"}, Texts{"d e f"}, {}).write(system_env(), folder_.path("m"));
  const std::string bytes = system_env().read_text(folder_.path("m"));
  EXPECT_EQ(failure(bytes), "");
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(failure(bytes.substr(0, size)), "") << size;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    EXPECT_NE(failure(changed), "") << at;
  }
  EXPECT_NE(failure(bytes + "x"), "");
  EXPECT_THAT(failure(std::string(200, 'x')), HasSubstr("its beginning"));
}

class ClassifierStageTest : public ::testing::Test {
 protected:
  ClassifierStageTest() : path_(folder_.path("quality.linear")) {
    const Examples training = examples(5, 60);
    train_classifier(training.good, training.bad, {}).write(system_env(), path_);
  }
  static std::vector<double> scores(const Stage& stage, std::string text, std::string id = "x") {
    Document document{.id = std::move(id), .text = std::move(text)};
    std::vector<double> values(stage.scores().size());
    stage.annotate(document, values);
    return values;
  }
  std::pair<std::string, std::string> refusal(const ClassifierOptions& options) {
    try {
      make_classifier(options);
    } catch (const ConfigError& error) {
      return {error.what(), error.hint()};
    }
    return {};
  }
  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(ClassifierStageTest, TheRuleKeepsWhatIsAtItsThreshold) {
  const std::string text = TextMaker(6).clean();
  const double p = LinearModel::read(system_env(), path_).probability(text);
  EXPECT_GT(p, 0.5);
  const auto kept = [&](double least) {
    const auto stage = make_classifier({.model = path_, .least = least});
    EXPECT_EQ(scores(*stage, text), std::vector<double>{p});
    return first_broken(stage->rules(), scores(*stage, text)) == nullptr;
  };
  EXPECT_TRUE(kept(p));
  EXPECT_TRUE(kept(0.0));
  EXPECT_FALSE(kept(std::nextafter(p, 1.0)));
  EXPECT_EQ(scores(*make_classifier({.model = path_, .label = "bad"}), text)[0], 1.0 - p);
  const auto stage = make_classifier({.model = path_});
  EXPECT_TRUE(std::isnan(scores(*stage, "")[0]));
  EXPECT_EQ(first_broken(stage->rules(), scores(*stage, "")), nullptr);
}

TEST_F(ClassifierStageTest, ParetoKeepsTheShareThatItsFormulaSays) {
  const auto stage = make_classifier({.model = path_, .keep = "pareto", .seed = 9});
  ASSERT_EQ(stage->scores()[1].name, "classifier.pareto");
  TextMaker make(7);
  for (const std::string& text : {make.clean(), make.boilerplate(), std::string("furnace policy village")}) {
    const double p = scores(*stage, text)[0];
    int kept = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i)
      kept += first_broken(stage->rules(), scores(*stage, text, "file/" + std::to_string(i))) == nullptr;
    const double expected = std::pow(2.0 - p, -3.0);
    EXPECT_NEAR(kept / double{kDraws}, expected, 4 * std::sqrt(expected * (1 - expected) / kDraws) + 1e-9);
  }
}

TEST_F(ClassifierStageTest, ADrawDependsOnSeedAndIdAlone) {
  const auto draws = [&](int64_t seed, const std::string& text) {
    const auto stage = make_classifier({.model = path_, .keep = "pareto", .seed = seed});
    std::vector<double> values;
    for (const char* id : {"b", "a", "c"}) {
      const std::vector<double> both = scores(*stage, text, id);
      values.push_back(both[1] + (1.0 - both[0]));
    }
    return values;
  };
  const std::vector<double> one = draws(1, "the furnace"), again = draws(1, "privacy policy"),
                            other = draws(2, "the furnace");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(one[i], again[i], 1e-12);
    EXPECT_NE(one[i], other[i]);
    EXPECT_GE(one[i], 0.0);
  }
  EXPECT_NE(one[0], one[1]);
}

TEST_F(ClassifierStageTest, TakesModelsOfFastText) {
  std::ofstream lines(folder_.path("train.txt"));
  TextMaker make(8);
  for (int i = 0; i < 60; ++i)
    for (const bool good : {true, false}) {
      std::istringstream in(good ? make.clean() : make.boilerplate());
      lines << (good ? "__label__hq" : "__label__lq");
      for (std::string word; in >> word;) lines << ' ' << word;
      lines << '\n';
    }
  lines.close();
  fasttext::Args args;
  args.model = fasttext::model_name::sup;
  args.loss = fasttext::loss_name::softmax;
  args.input = folder_.path("train.txt");
  args.minCount = 1;
  args.minn = args.maxn = 0;
  args.wordNgrams = 2;
  args.dim = 8;
  args.lr = 0.5;
  args.bucket = 1000;
  args.thread = 1;
  args.verbose = 0;
  fasttext::FastText model;
  model.train(args);
  const std::string path = folder_.path("quality.bin");
  model.saveModel(path);
  const auto stage = make_classifier({.model = path, .label = "hq"});
  for (const std::string& text : {make.clean(), make.boilerplate()}) {
    std::string line = text;
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::istringstream in(line + "\n");
    std::vector<std::pair<fasttext::real, std::string>> predictions;
    ASSERT_TRUE(model.predictLine(in, predictions, 2, 0.0F));
    ASSERT_EQ(predictions.size(), 2u);
    const size_t hq = predictions[0].second == "__label__hq" ? 0 : 1;
    EXPECT_NEAR(scores(*stage, text)[0], static_cast<double>(predictions[hq].first), 1e-5 + 1e-7);
  }
  EXPECT_GT(scores(*stage, make.clean())[0], 0.9);
  EXPECT_LT(scores(*stage, make.boilerplate())[0], 0.1);
  EXPECT_THAT(refusal({.model = path, .label = "hk"}).second, HasSubstr("\"hq\""));
  EXPECT_THAT(refusal({.model = path}).second, AllOf(HasSubstr("hq"), HasSubstr("lq")));
}

TEST_F(ClassifierStageTest, RefusesSettingsByName) {
  EXPECT_THAT(refusal({}).first, HasSubstr("classifier.model"));
  EXPECT_THAT(refusal({.model = path_, .label = "god"}).second, HasSubstr("\"good\""));
  EXPECT_THAT(refusal({.model = path_, .keep = "all"}).first, HasSubstr("classifier.keep: got \"all\""));
  EXPECT_THAT(refusal({.model = path_, .least = -0.1}).first, HasSubstr("classifier.least"));
  EXPECT_THAT(refusal({.model = path_, .alpha = 0.0}).first, HasSubstr("classifier.alpha"));
  EXPECT_THROW(make_classifier({.model = folder_.path("absent")}), IoError);
  std::ofstream(folder_.path("empty")).close();
  EXPECT_THROW(make_classifier({.model = folder_.path("empty")}), Error);
  EXPECT_EQ(classifier_fields().size(), 6u);
}

}  // namespace
}  // namespace athanor::tests::classifier_test
