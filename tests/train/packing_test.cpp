// Documents packed into one sequence, with a document mask, train as documents that have a sequence each.
#include "train/layout_run.h"

namespace athanor::tests::packed_training_test {
namespace {

// Lengths in places; two sequences of 11 places.
const std::vector<std::vector<int64_t>> kPacked = {{3, 7}, {5, 2, 4}}, kAlone = {{3}, {7}, {5}, {2}, {4}};

Config config_of(const std::vector<std::vector<int64_t>>& sequences, bool document_mask) {
  Config config = uneven("llama", "sgd");
  config.model.dropout = 0.0;
  config.data.document_mask = document_mask;
  config.train.steps = 3;
  config.train.global_batch_size = std::ssize(sequences);
  config.train.micro_batch_size = 2;
  return config;
}

// Documents count on through the sequences: the tokens of each are the same however they are packed.
VerifyRun train(const std::vector<std::vector<int64_t>>& sequences, bool document_mask) {
  const Config config = config_of(sequences, document_mask);
  const RandomStream stream(3, "packed");
  const auto read = [&](int64_t step, int64_t micro_batch, Batch& batch) {
    batch = make_batch(config, step, micro_batch);
    uint64_t document = 0;
    for (int64_t s = 0; s < std::ssize(sequences); ++s) {
      const int64_t row = s - batch.first_index;
      int64_t at = 0;
      const auto put = [&](int64_t length, bool is_document) {
        for (int64_t t = 0; t < length && row >= 0 && row < batch.num_sequences; ++t) {
          const auto place = static_cast<size_t>(row * batch.seq_len + at + t);
          const auto id = [&](int64_t token) {
            return static_cast<int32_t>(
                stream.word(document * 100 + static_cast<uint64_t>(token), static_cast<uint64_t>(step)) % 41);
          };
          batch.tokens[place] = is_document ? id(t) : 0;
          batch.targets[place] = is_document ? id(t + 1) : kNoTarget;
          if (document_mask) batch.document_starts[place] = static_cast<int32_t>(at);
        }
        at += length;
        if (is_document) ++document;
      };
      for (const int64_t length : sequences[static_cast<size_t>(s)]) put(length, true);
      put(batch.seq_len - at, false);
      if (row >= 0 && row < batch.num_sequences) batch.channel_of[static_cast<size_t>(row)] = 0;
    }
  };
  return verify::run_layout(config, 2, read, config.train.steps, 1);
}

TEST(Packing, PackedDocumentsTrainAsDocumentsAlone) {
  const VerifyRun alone = train(kAlone, true);
  const LayoutDifference found = compare(train(kPacked, true), alone);
  EXPECT_LT(found.worst(), 1e-6) << found.gradient.where << ", " << found.weight.where;
  EXPECT_GT(compare(train(kPacked, false), alone).worst(), 1e-3) << "without the mask they see each other";
}

}  // namespace
}  // namespace athanor::tests::packed_training_test
