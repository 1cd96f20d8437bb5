// Scores of documents in windows against those of the same windows alone.
#include "athanor/evaluate/score_documents.h"

#include <gmock/gmock.h>

#include <cmath>

#include "athanor/base/check.h"
#include "athanor/evaluate/perplexity.h"
#include "evaluate/tiny_model.h"

namespace athanor::tests::score_documents_test {
namespace {

class ScoreDocuments : public ::testing::Test {
 protected:
  std::vector<DocumentScore> scores(const std::vector<std::vector<int32_t>>& documents,
                                    DocumentScorerOptions options) {
    std::vector<DocumentScore> found;
    DocumentScorer scorer(*model_, engine_.arena, std::move(options),
                          [&](const DocumentScore& score) { found.push_back(score); });
    for (size_t d = 0; d < documents.size(); ++d)
      scorer.add({.file = "f", .line = static_cast<int64_t>(d) + 1, .bytes = 10}, documents[d]);
    scorer.finish();
    return found;
  }
  double sum_of(const std::vector<int32_t>& ids) {
    const IdsScore score = score_ids(*model_, engine_.arena, {ids});
    return score.loss * static_cast<double>(score.tokens);
  }
  static std::vector<int32_t> counting(int32_t size) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < size; ++i) ids.push_back((i * 7 + 3) % 22);
    return ids;
  }
  Engine engine_{2};
  std::unique_ptr<Model> model_ = make_tiny_model(engine_);
};

TEST_F(ScoreDocuments, ShortDocumentsAreScoredAlone) {
  const std::vector<std::vector<int32_t>> documents = {{1, 2, 3}, {4}, {}, {5, 6, 7, 8, 9, 10, 11}, {3, 3}};
  for (const int64_t batch : {1, 2, 4, 9}) {
    const auto found = scores(documents, {.context = 8, .stride = 0, .batch = batch, .before = {22}});
    ASSERT_EQ(found.size(), documents.size());
    for (size_t d = 0; d < documents.size(); ++d) {
      EXPECT_EQ(found[d].line, static_cast<int64_t>(d) + 1);
      EXPECT_EQ(found[d].tokens, static_cast<int64_t>(documents[d].size()));
      if (documents[d].empty()) continue;
      std::vector<int32_t> with = {22};
      with.insert(with.end(), documents[d].begin(), documents[d].end());
      EXPECT_NEAR(found[d].loss_sum, sum_of(with), 1e-4) << d;
      EXPECT_NEAR(*found[d].bits_per_byte(), sum_of(with) / 10 / std::log(2.0), 1e-4);
    }
  }
}

TEST_F(ScoreDocuments, WithoutABeginningTheFirstTokenDoesNotCount) {
  const auto found = scores({{1, 2, 3}, {4}}, {.context = 8, .stride = 0, .batch = 4, .before = {}});
  EXPECT_EQ(found[0].tokens, 2);
  EXPECT_NEAR(found[0].loss_sum, sum_of({1, 2, 3}), 1e-4);
  EXPECT_EQ(found[1].tokens, 0);
}

TEST_F(ScoreDocuments, EveryTokenOfALongDocumentCountsOnce) {
  for (const int32_t size : {8, 9, 16, 17, 23, 40})
    for (const int64_t context : {1, 5, 8, 12})
      for (const int64_t stride : {int64_t{0}, int64_t{1}, context / 2 + 1, context})
        if (stride <= context) {
          const auto found =
              scores({counting(size)}, {.context = context, .stride = stride, .batch = 3, .before = {22}});
          ASSERT_EQ(found.size(), 1u);
          EXPECT_EQ(found[0].tokens, size) << context << " " << stride;
        }
}

TEST_F(ScoreDocuments, WindowsMoveOnByTheStride) {
  const std::vector<int32_t> ids = counting(10);
  std::vector<int32_t> all = {22};
  all.insert(all.end(), ids.begin(), ids.end());
  const auto piece = [&](size_t first, size_t last) {
    return std::vector<int32_t>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                all.begin() + static_cast<std::ptrdiff_t>(last));
  };
  // Inputs 0 to 5, 3 to 8 and, moved back to be as long as the others, 4 to 9.
  const double by_hand = sum_of(piece(0, 7)) + (sum_of(piece(3, 10)) - sum_of(piece(3, 7))) +
                         (sum_of(piece(4, 11)) - sum_of(piece(4, 10)));
  const auto found = scores({ids}, {.context = 6, .stride = 3, .batch = 2, .before = {22}});
  EXPECT_NEAR(found[0].loss_sum, by_hand, 1e-4);
}

TEST_F(ScoreDocuments, RefusesWhatTheModelCannotSee) {
  EXPECT_THROW(scores({{1}}, {.context = 13, .stride = 0, .batch = 1, .before = {}}), Error);
  EXPECT_THROW(scores({{1}}, {.context = 8, .stride = 9, .batch = 1, .before = {}}), Error);
  EXPECT_THROW(scores({{1, 23}}, {.context = 8, .stride = 0, .batch = 1, .before = {}}), Error);
}

}  // namespace
}  // namespace athanor::tests::score_documents_test
