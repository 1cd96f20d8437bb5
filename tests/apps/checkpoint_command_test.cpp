// `athanor checkpoint` on the checkpoints of a real run, and there and back through a Hugging Face folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/small_run.h"

namespace athanor::tests::checkpoint_command_test {
namespace {

using ::testing::HasSubstr;

class CheckpointCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    place.write("ids.json", "[[1,2,3,4,5,6,7,8,9,10,11,12],[5,4,3,2,1]]");
  }
  Json json_of(std::vector<std::string> words) {
    words.insert(words.begin(), "checkpoint");
    words.push_back("--json");
    return Json::parse(place.output_of(words));
  }
  double ids_loss(const std::string& model, const std::string& dtype = "f32") {
    return Json::parse(
        place.output_of({"evaluate", model, "--ids", "ids.json", "--json", "--dtype", dtype}))["loss"];
  }
  Workplace place;
};

TEST_F(CheckpointCommand, ListShowVerifyDigest) {
  train(place, "t");
  const Json list = json_of({"list", "runs/t"})["checkpoints"];
  ASSERT_EQ(list.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list[i]["step"], 4 * (i + 1));
    EXPECT_EQ(list[i]["path"], checkpoint_of("t", static_cast<int64_t>(4 * (i + 1))));
    EXPECT_EQ(list[i]["values"],
              3 * report(place, "t")["params"].get<int64_t>());  // weights and two averages
  }
  EXPECT_EQ(json_of({"list", "runs/t/checkpoints"})["checkpoints"], list);
  EXPECT_EQ(json_of({"list", checkpoint_of("t", 8)})["checkpoints"][0], list[1]);
  EXPECT_THAT(place.output_of({"checkpoint", "list", "runs/t"}), HasSubstr(checkpoint_of("t", 12)));

  const Json shown = json_of({"show", "runs/t"});
  EXPECT_EQ(shown["step"], 12);
  EXPECT_EQ(shown["state"]["tokens"], 12 * kTokensPerStep);
  int64_t values = 0;
  for (const Json& tensor : shown["tensors"]) {
    int64_t size = 1;
    for (const Json& dim : tensor["shape"]) size *= dim.get<int64_t>();
    values += size;
  }
  EXPECT_EQ(shown["values"], values);
  // Q, K, V, gate and up are tensors of their own (law 4).
  for (const char* name : {"model.blocks.0.attn.q.weight", "adam.m.blocks.1.mlp.up.weight"})
    EXPECT_THAT(place.output_of({"checkpoint", "show", "runs/t"}), HasSubstr(name));

  EXPECT_EQ(json_of({"verify", "runs/t"})["ok"], true);
  EXPECT_EQ(place.run({"checkpoint", "verify", checkpoint_of("t", 4)}).exit_code, 0);
  EXPECT_EQ(digest(place, "runs/t"), digest(place, checkpoint_of("t", 12)));
  EXPECT_NE(digest(place, checkpoint_of("t", 8)), digest(place, checkpoint_of("t", 12)));
  EXPECT_EQ(json_of({"digest", "runs/t"})["digest"], digest(place, "runs/t"));
}

TEST_F(CheckpointCommand, TheDigestKnowsNoPlaceTimeOrLayout) {
  train(place, "t");
  const std::string before = digest(place, "runs/t");
  place.copy(checkpoint_of("t", 12), "elsewhere/mine");
  EXPECT_EQ(digest(place, "elsewhere/mine"), before);
  train(place, "u", {"train.log_every=3", "checkpoint.keep=1"}, 3);
  EXPECT_EQ(digest(place, "runs/u"), before);
  for (const char* set : {"train.seed=2", "optimizer.lr=0.011", "optimizer.betas=[0.9, 0.96]"}) {
    place.remove("runs/v");
    train(place, "v", {set});
    EXPECT_NE(digest(place, "runs/v"), before) << set;
  }
}

TEST_F(CheckpointCommand, DiffNamesWhatDiffers) {
  train(place, "t");
  train(place, "u");
  const Outcome same = place.run({"checkpoint", "diff", "runs/t", "runs/u"});
  EXPECT_EQ(same.exit_code, 0) << same.all();
  train(place, "v", {"train.seed=2"});
  const Outcome other = place.run({"checkpoint", "diff", "runs/t", "runs/v", "--json"});
  EXPECT_EQ(other.exit_code, 1);
  const Json json = Json::parse(other.out);
  EXPECT_EQ(json["equal"], false);
  EXPECT_THAT(other.out, HasSubstr("model.blocks.0.attn.q.weight"));
  expect_refused(place.run({"checkpoint", "diff", "runs/t", "runs/v"}), 1, {"runs/t", "runs/v", "differ"});
}

class HuggingFace : public CheckpointCommand, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, HuggingFace,
                         ::testing::Values("llama", "llama_tied", "mistral", "gpt2", "gpt2_nobias"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(HuggingFace, ThereAndBack) {
  const std::string family = GetParam();
  std::vector<std::string> sets = {"train.steps=20"};
  if (family == "llama_tied")
    sets.insert(sets.end(), {"model.tie_word_embeddings=true", "model.rope_theta=5e5"});
  if (family.starts_with("gpt2"))
    sets.insert(sets.end(),
                {"model.model_type=gpt2", "model.num_key_value_heads=4", "model.tie_word_embeddings=true",
                 "model.bias=" + std::string(family == "gpt2" ? "true" : "false")});
  train(place, "t", sets);
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                           "generation_config.json"})
    EXPECT_TRUE(place.exists(std::string("hf/") + file)) << file;
  const double loss = ids_loss("runs/t");
  EXPECT_EQ(ids_loss("hf"), loss);
  place.output_of({"checkpoint", "import-hf", "hf", "imported"});
  EXPECT_EQ(ids_loss("imported"), loss);
  // The weights come back to the bit, with everything in them.
  place.output_of({"checkpoint", "export-hf", "imported", "hf2"});
  EXPECT_EQ(place.read("hf2/model.safetensors"), place.read("hf/model.safetensors"));
  EXPECT_EQ(Json::parse(place.read("hf2/config.json")), Json::parse(place.read("hf/config.json")));
  // In several files with an index, where they are large.
  place.output_of({"checkpoint", "export-hf", "runs/t", "sharded", "--max-shard-bytes", "40000"});
  EXPECT_TRUE(place.exists("sharded/model.safetensors.index.json"));
  EXPECT_GT(place.list("sharded").size(), place.list("hf").size() + 1);
  EXPECT_EQ(ids_loss("sharded"), loss);
  // Rounded on the way out.
  place.output_of({"checkpoint", "export-hf", "runs/t", "bf16", "--dtype", "bf16"});
  EXPECT_NEAR(ids_loss("bf16"), loss, 0.02);
  EXPECT_LT(place.read("bf16/model.safetensors").size(), place.read("hf/model.safetensors").size() * 2 / 3);
  // Text comes out of it, and training goes on from it.
  EXPECT_EQ(place.output_of({"generate", "hf", "--prompt", "ab", "--greedy", "--dtype", "f32"}),
            place.output_of({"generate", "runs/t", "--prompt", "ab", "--greedy", "--dtype", "f32"}));
  sets.insert(sets.end(), {"train.init_from=hf", "train.steps=2"});
  train(place, "u", sets);
  EXPECT_EQ(report(place, "u")["valid_loss_first"], report(place, "t")["valid_loss_last"]);
}

TEST_F(CheckpointCommand, ExportAndImportReplaceNothingUnasked) {
  train(place, "t");
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  place.write("mine/notes.txt", "mine");
  const auto before = place.files("hf");
  expect_refused(place.run({"checkpoint", "export-hf", checkpoint_of("t", 4), "hf"}), 1, {"hf"});
  EXPECT_EQ(place.files("hf"), before);
  place.output_of({"checkpoint", "export-hf", checkpoint_of("t", 4), "hf", "--force"});
  EXPECT_NE(place.files("hf"), before);
  const auto checkpoints = place.files("runs/t/checkpoints");
  expect_refused(place.run({"checkpoint", "import-hf", "hf", checkpoint_of("t", 12)}), 1,
                 {checkpoint_of("t", 12)});
  EXPECT_EQ(place.files("runs/t/checkpoints"), checkpoints);
  expect_refused(place.run({"checkpoint", "export-hf", "runs/t", "x", "--dtype", "f8"}), 2, {"f8", "bf16"});
  expect_refused(place.run({"checkpoint", "export-hf", "runs/nowhere", "x"}), 1, {"runs/nowhere"});
  expect_refused(place.run({"checkpoint", "import-hf", "nowhere", "x"}), 1, {"nowhere"});
  EXPECT_FALSE(place.exists("x"));
}

}  // namespace
}  // namespace athanor::tests::checkpoint_command_test
