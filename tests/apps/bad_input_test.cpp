// Wrong settings and wrong data: one clear error that names the thing and what was expected, exit code 1 or
// 2, and existing checkpoints untouched to the byte.
#include <gtest/gtest.h>

#include <cstring>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::bad_input_test {
namespace {

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place); }
  Outcome try_train(const std::vector<std::string>& sets) { return place.run(train_arguments("t", sets)); }
  // The same with another file instead of run.toml.
  Outcome try_config(const std::string& text) {
    place.write("bad.toml", text);
    return place.run({"train", "bad.toml"});
  }
  Workplace place;
};

TEST_F(BadInput, MissingFiles) {
  expect_refused(place.run({"train", "nowhere.toml"}), 2, {"nowhere.toml"});
  expect_refused(try_train({"data.tokenizer=nowhere.json"}), 1, {"nowhere.json"});
  expect_refused(try_train({"data.channels.zh.path=nowhere.txt"}), 2, {"zh", "nowhere.txt"});
  expect_refused(try_train({"train.init_from=nowhere"}), 1, {"nowhere"});
  expect_refused(place.run({"evaluate", "runs/nowhere"}), 1, {"runs/nowhere"});
  expect_refused(place.run({"generate", "runs/nowhere", "--prompt", "a"}), 1, {"runs/nowhere"});
  expect_refused(place.run({"checkpoint", "list", "runs/nowhere"}), 1, {"runs/nowhere"});
  expect_refused(place.run({"checkpoint", "digest", "runs/nowhere"}), 1, {"runs/nowhere"});
  EXPECT_FALSE(place.exists("runs/t/metrics.jsonl"));
}

TEST_F(BadInput, AConfigThatIsAFolderOrNoToml) {
  place.write("folder/a", "");
  const Outcome folder = place.run({"train", "folder"});
  EXPECT_TRUE(folder.exit_code == 1 || folder.exit_code == 2);
  expect_refused(folder, folder.exit_code, {"folder"});
  expect_refused(try_config("[train\nsteps = 3\n"), 2, {"bad.toml:1"});
  expect_refused(try_config("[train]\nsteps = 3\nsteps = 4\n"), 2, {"bad.toml:3"});
  expect_refused(try_config("\xff\xfe"), 2, {"bad.toml"});
  expect_refused(try_config(""), 2, {"data.channels"});
}

TEST_F(BadInput, UnknownNamesAreAnsweredWithTheNearest) {
  expect_refused(try_train({"train.stesp=5"}), 2, {"train.stesp", "steps"});
  expect_refused(try_train({"optimiser.lr=5"}), 2, {"optimiser", "optimizer"});
  expect_refused(try_train({"model.preset=lama-tiny"}), 2, {"lama-tiny", "llama-tiny"});
  expect_refused(try_train({"optimizer.name=adam"}), 2, {"adam", "adamw"});
  expect_refused(try_train({"data.channels.zj.weight=1"}), 2, {"zj", "zh"});
  expect_refused(try_config("[train]\nglobalbatch = 3\n"), 2, {"bad.toml:2", "globalbatch", "global_batch"});
}

TEST_F(BadInput, WrongTypesAndValues) {
  expect_refused(try_train({"train.steps=ten"}), 2, {"train.steps", "ten", "integer"});
  expect_refused(try_train({"train.steps=1.5"}), 2, {"train.steps", "1.5", "integer"});
  expect_refused(try_train({"train.steps=-1"}), 2, {"train.steps", "-1"});
  expect_refused(try_train({"train.steps=99999999999999999999"}), 2, {"train.steps"});
  expect_refused(try_train({"model.dropout=1.0"}), 2, {"model.dropout"});
  expect_refused(try_train({"optimizer.lr=nan"}), 2, {"optimizer.lr"});
  expect_refused(try_train({"optimizer.betas=[0.9]"}), 2, {"optimizer.betas", "two"});
  expect_refused(try_train({"model.tie_word_embeddings=1"}), 2, {"model.tie_word_embeddings"});
  expect_refused(try_train({"train.micro_batch_size=11"}), 2, {"train.micro_batch_size", "11", "10"});
  expect_refused(try_train({"model.num_attention_heads=5"}), 2, {"model.", "5"});
  expect_refused(try_train({"model.max_position_embeddings=16"}), 2, {"data.seq_len", "32", "16"});
  expect_refused(try_train({"train.name=../up"}), 2, {"train.name", "../up"});
  expect_refused(try_train({"parallel.tp=2"}), 2, {"parallel.tp"});
  expect_refused(try_train({"train.device=cuda"}), 2, {"train.device", "cuda"});
  expect_refused(try_train({"train.isa=avx1024"}), 2, {"train.isa", "avx1024"});
  expect_refused(try_train({"train.steps"}), 2, {"train.steps"});
  expect_refused(try_train({"=5"}), 2, {"=5"});
  EXPECT_FALSE(place.exists("runs/t/metrics.jsonl"));
}

// A machine that has them all is made to lack the tile registers.
TEST_F(BadInput, AnInstructionSetThatThisMachineLacks) {
  ProgramOptions options;
  options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"), "ATHANOR_FAULT=tiles:none"};
  const std::string best = Json::parse(place.output_of({"doctor", "--json"}, options))["isa"];
  ASSERT_NE(best, "amx");
  expect_refused(place.run(train_arguments("t", {"train.isa=amx"}), options), 2, {"amx", best});
  expect_refused(place.run({"doctor", "--isa", "amx"}, options), 1, {"amx", best});
}

TEST_F(BadInput, MoreRanksThanMicroBatches) {
  expect_refused(place.run(launch_arguments(6, "t")), 2, {"6 ranks", "5 micro-batches", "at most 5"});
  expect_refused(try_train({"parallel.dp=2"}), 2, {"parallel.dp", "2"});
}

// Law 7: what will not fit is refused before it is allocated, and says what needs so much.
TEST_F(BadInput, MoreMemoryThanThereIs) {
  expect_refused(try_train({"train.global_batch_size=100000000", "train.micro_batch_size=100000000"}), 1,
                 {"memory", "activations", "available"});
  expect_refused(try_train({"train.global_batch_size=1000000000", "train.micro_batch_size=1"}), 2,
                 {"train.global_batch_size", "micro-batches"});
  expect_refused(place.run({"bench", "step", "--preset", "llama-2-70b", "--batch", "1", "--seq", "8"}), 1,
                 {"memory", "optimizer", "available"});
  expect_refused(place.run({"bench", "step", "--batch", "99999999999"}), 2, {"99999999999"});
  expect_refused(place.run({"bench", "step", "--threads", "100000"}), 2, {"--threads", "100000"});
}

// More threads than this machine could ever use would hold it up for minutes.
TEST_F(BadInput, NumbersThatMakeNoSense) {
  expect_refused(try_train({"train.threads=4096"}), 2, {"train.threads", "4096", "processors"});
  expect_refused(try_train({"model.num_hidden_layers=9223372036854775807"}), 2, {"model.num_hidden_layers"});
  expect_refused(try_train({"data.seq_len=4611686018427387904"}), 2, {"data.seq_len"});
  const std::string huge = "99999999999999999999";
  expect_refused(place.run({"generate", "runs/t", "--prompt", "a", "--max-tokens", huge}), 2,
                 {"--max-tokens", huge});
  expect_refused(place.run({"generate", "runs/t", "--prompt", "a", "--seed", "-1"}), 2, {"--seed", "-1"});
  expect_refused(place.run({"evaluate", "runs/t", "--threads", "4096"}), 2, {"--threads", "4096"});
  expect_refused(place.run({"evaluate", "runs/t", "--batch", "0"}), 2, {"--batch"});
  expect_refused(place.run({"dataset", "build", "--tokenizer", "tokenizer.json", "-o", "q", "en.txt",
                            "--threads", "4096"}),
                 2, {"--threads", "4096"});
}

TEST_F(BadInput, TextWithoutATokenizer) {
  expect_refused(try_train({"data.tokenizer=''", "model.vocab_size=64"}), 2, {"data.tokenizer", "en"});
  expect_refused(try_train({"data.tokenizer=''"}), 2, {"model.vocab_size", "data.tokenizer"});
}

TEST_F(BadInput, EmptyAndShortChannels) {
  place.write("empty.txt", "");
  expect_refused(try_train({"data.channels.zh.path=empty.txt"}), 1, {"empty.txt"});
  place.write("emptyfolder/readme.bin", std::string(1000, '\0'));
  expect_refused(try_train({"data.channels.zh.path=emptyfolder"}), 1, {"emptyfolder"});
  place.write("short.txt", "a few");
  expect_refused(try_train({"data.channels.zh.path=short.txt"}), 1, {"zh"});
  place.write("empty.jsonl", "\n\n");
  expect_refused(try_train({"data.channels.zh.path=empty.jsonl"}), 1, {"empty.jsonl"});
  expect_refused(try_train({"data.channels=[]"}), 2, {"data.channels"});
}

TEST_F(BadInput, TextThatIsNoText) {
  // A folder of text may hold a picture; a channel that is one file which is no UTF-8 is a mistake.
  place.write("latin1.txt", "caf\xe9 " + invented_text(3, 500));
  const Outcome latin1 = try_train({"data.channels.zh.path=latin1.txt"});
  expect_refused(latin1, 1, {"latin1.txt", "UTF-8"});
  place.write("broken.jsonl", R"({"text": "fine"})"
                              "\n"
                              R"({"text": "not)"
                              "\n");
  expect_refused(try_train({"data.channels.zh.path=broken.jsonl"}), 1, {"broken.jsonl", "2"});
  place.write("keyless.jsonl", R"({"body": "fine"})"
                               "\n");
  expect_refused(try_train({"data.channels.zh.path=keyless.jsonl"}), 1, {"keyless.jsonl", "text"});
  place.write("half.txt.gz", "\x1f\x8b\x08 this is no gzip stream");
  expect_refused(try_train({"data.channels.zh.path=half.txt.gz"}), 1, {"half.txt.gz"});
}

TEST_F(BadInput, ATokenizerThatIsNone) {
  place.write("bad.json", "{}");
  expect_refused(try_train({"data.tokenizer=bad.json"}), 1, {"bad.json"});
  place.write("bad.json", "not json");
  expect_refused(try_train({"data.tokenizer=bad.json"}), 1, {"bad.json"});
  const std::string whole = place.read("tokenizer.json");
  for (const size_t part : {1, 2, 3}) {
    place.write("bad.json", whole.substr(0, whole.size() * part / 4));
    expect_refused(try_train({"data.tokenizer=bad.json"}), 1, {"bad.json"});
  }
  EXPECT_FALSE(place.exists("runs/t/metrics.jsonl"));
}

TEST_F(BadInput, AVocabularySmallerThanTheTokenizers) {
  expect_refused(try_train({"model.vocab_size=16"}), 2, {"model.vocab_size", "16"});
}

// A token file as Megatron writes one, by hand: ids of one document.
void write_token_file(const Workplace& place, const std::string& prefix, const std::vector<uint16_t>& ids) {
  std::string idx("MMIDIDX\0\0", 9), bin(reinterpret_cast<const char*>(ids.data()), ids.size() * 2);
  const auto put = [&idx](auto value) { idx.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(uint64_t{1});
  put(uint8_t{8});
  put(uint64_t{1});
  put(uint64_t{2});
  put(static_cast<int32_t>(ids.size()));
  put(int64_t{0});
  put(int64_t{0});
  put(int64_t{1});
  place.write(prefix + ".idx", idx);
  place.write(prefix + ".bin", bin);
}

TEST_F(BadInput, IdsBeyondTheVocabulary) {
  std::vector<uint16_t> ids(4000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i % 40);
  write_token_file(place, "tokens", ids);
  EXPECT_EQ(try_train({"data.channels.zh.path=tokens", "train.name=fine"}).exit_code, 0);
  ids[1234] = 5000;
  write_token_file(place, "tokens", ids);
  expect_refused(try_train({"data.channels.zh.path=tokens", "guard.damaged_data=off"}), 1,
                 {"tokens", "5000"});
  EXPECT_FALSE(place.exists("runs/t/checkpoints/step_00000012"));
  // By default the sequences that have it are left out, and that is written down.
  EXPECT_EQ(try_train({"data.channels.zh.path=tokens", "train.name=guarded"}).exit_code, 0);
  const std::string decisions = place.read("runs/guarded/decisions.jsonl");
  for (const char* piece : {"quarantine", "tokens", "5000", "\"offset\":2468"})
    EXPECT_NE(decisions.find(piece), std::string::npos) << piece << " in " << decisions;
}

TEST_F(BadInput, DamagedTokenFiles) {
  std::vector<uint16_t> ids(4000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i % 40);
  write_token_file(place, "tokens", ids);
  const std::string idx = place.read("tokens.idx"), bin = place.read("tokens.bin");
  const auto refused = [&](const std::string& what) {
    SCOPED_TRACE(what);
    expect_refused(try_train({"data.channels.zh.path=tokens"}), 1, {"tokens"});
  };
  for (const size_t size : {size_t{0}, size_t{8}, size_t{33}, idx.size() - 1}) {
    place.write("tokens.idx", idx.substr(0, size));
    refused("idx of " + std::to_string(size) + " bytes");
  }
  place.write("tokens.idx", idx + "x");
  refused("idx with a byte more");
  place.write("tokens.idx", idx);
  for (const size_t size : {size_t{0}, bin.size() / 2, bin.size() - 1}) {
    place.write("tokens.bin", bin.substr(0, size));
    refused("bin of " + std::to_string(size) + " bytes");
  }
  place.write("tokens.bin", bin);
  // A bit anywhere in the index: every one of its bytes says something that another one confirms.
  for (size_t byte = 0; byte < idx.size(); byte += 3) {
    place.write("tokens.idx", idx);
    place.flip("tokens.idx", byte, static_cast<int>(byte % 8));
    refused("bit flipped in byte " + std::to_string(byte));
  }
  place.write("tokens.idx", idx);
  place.remove("tokens.bin");
  refused("no bin");
}

TEST_F(BadInput, UnknownCommandsAndOptions) {
  expect_refused(place.run({"trian", "run.toml"}), 2, {"trian", "train"});
  expect_refused(place.run({}), 2, {""});
  expect_refused(place.run({"train", "run.toml", "--stes", "5"}), 2, {"--stes"});
  expect_refused(place.run({"train"}), 2, {"FILE.toml"});
  expect_refused(place.run({"tokenizer"}), 2, {""});
  expect_refused(place.run({"checkpoint", "destroy", "x"}), 2, {"destroy"});
  expect_refused(place.run({"bench", "step", "--preset", "gpt3"}), 2, {"gpt3", "gpt2"});
  expect_refused(place.run({"bench", "step", "--dtype", "f8"}), 2, {"f8"});
}

}  // namespace
}  // namespace athanor::tests::bad_input_test
