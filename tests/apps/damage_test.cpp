// What must never happen to a run: other data, a full disk, damaged files. Each is refused or passed over by
// name, and checkpoints that exist stay as they are, to the byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::damage_test {
namespace {

using ::testing::HasSubstr;

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    train(place, "t");
    checkpoints = place.files("runs/t/checkpoints");
  }
  void expect_untouched() { EXPECT_EQ(place.files("runs/t/checkpoints"), checkpoints); }
  Outcome go_on(const std::vector<std::string>& sets) {
    std::vector<std::string> all = {"train.steps=16"};
    all.insert(all.end(), sets.begin(), sets.end());
    return place.run(train_arguments("t", all));
  }
  Workplace place;
  std::map<std::string, std::string> checkpoints;
};

// What an earlier version of the program left behind is refused by name, and stays as it is.
TEST_F(Damage, ARunOfAnEarlierFormatIsRefusedByName) {
  const std::string environment = run_file("t", "env.json");
  Json json = Json::parse(place.read(environment));
  ASSERT_EQ(json["format"], 2);
  json.erase("format");
  place.write(environment, json.dump());
  const auto before = place.files("runs/t");
  expect_refused(go_on({}), 1,
                 {"'runs/t': format 1, expected 2: an earlier version wrote it", "another train.name"});
  expect_refused(place.run({"plot", "runs/t"}), 1, {"'runs/t': format 1, expected 2"});
  EXPECT_EQ(place.files("runs/t"), before);
  json["format"] = 3;
  place.write(environment, json.dump());
  expect_refused(go_on({}), 1, {"'runs/t': format 3, expected 2: a later version wrote it"});
}

TEST_F(Damage, TokenFilesOfAnEarlierFormatAreRefusedByName) {
  const auto caches = place.files("runs/.cache");
  std::string info;
  for (const auto& [name, text] : caches)
    if (name.ends_with(".meta.json")) info = name;
  ASSERT_NE(info, "");
  Json json = Json::parse(place.read(info));
  ASSERT_EQ(json["format"], 2);
  json["format"] = 1;
  place.write(info, json.dump());
  expect_refused(
      go_on({}), 1,
      {".meta.json': format 1, expected 2: an earlier version wrote it", "tokenize the text again"});
  EXPECT_EQ(place.read(info), json.dump());
  expect_untouched();
}

TEST_F(Damage, AChangedModelDataOrSeedIsRefusedByName) {
  const std::string before = place.read(run_file("t", "metrics.jsonl"));
  expect_refused(go_on({"model.hidden_size=64"}), 2, {"model.hidden_size", "'t'"});
  expect_refused(go_on({"model.num_hidden_layers=3"}), 2, {"model.num_hidden_layers"});
  expect_refused(go_on({"model.dropout=0.1"}), 2, {"model.dropout"});
  expect_refused(go_on({"model.model_type=gpt2", "model.num_key_value_heads=4"}), 2, {"model."});
  expect_refused(go_on({"train.seed=2"}), 2, {"train.seed"});
  expect_refused(go_on({"data.seq_len=16"}), 2, {"data.seq_len"});
  expect_refused(go_on({"train.global_batch_size=20"}), 2, {"train.global_batch_size"});
  expect_refused(go_on({"precision.compute=bf16"}), 2, {"precision.compute"});
  expect_refused(go_on({"data.channels.zh.weight=0.5"}), 2, {"zh"});
  expect_refused(go_on({"data.valid_fraction=0.2"}), 2, {"data.valid_fraction"});
  place.copy("en.txt", "en2.txt");
  place.flip("en.txt", 100);
  expect_refused(go_on({}), 2, {"en"});
  place.copy("en2.txt", "en.txt");
  place.write("other.json", "");
  place.output_of({"tokenizer", "train", "--type", "char", "--special", "<s>", "--special", "<|endoftext|>",
                   "--output", "other.json", "en.txt", "zh.jsonl"});
  expect_refused(go_on({"data.tokenizer=other.json"}), 2, {"tokenizer"});
  expect_untouched();
  EXPECT_EQ(place.read(run_file("t", "metrics.jsonl")), before);
  // What may change does not hinder, the same text in another place included.
  place.copy("en.txt", "moved/en.txt");
  const Outcome fine =
      go_on({"data.channels.en.path=moved/en.txt", "train.eval_every=2", "train.micro_batch_size=5",
             "parallel.reduce=fast", "checkpoint.keep=0", "train.threads=2"});
  EXPECT_EQ(fine.exit_code, 0) << fine.all();
}

TEST_F(Damage, AFullDiskWhileSaving) {
  ProgramOptions options;
  options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"),
                         "ATHANOR_FAULT=count:" + place.path("count")};
  place.copy("runs/t", "runs/count");
  place.output_of(train_arguments("count", {"train.steps=16", "checkpoint.keep=0"}), options);
  const int64_t operations = std::stoll(place.read("count"));
  ASSERT_GT(operations, 10);
  int refused = 0;
  for (int64_t part = 0; part < 8; ++part) {
    place.remove("runs/u");
    place.copy("runs/t", "runs/u");
    options.environment[1] = "ATHANOR_FAULT=full:" + std::to_string(1 + operations * part / 8);
    const Outcome outcome = place.run(train_arguments("u", {"train.steps=16", "checkpoint.keep=0"}), options);
    // Only the checkpoint must have room: without it nothing was done, and what else is missing does not matter.
    if (outcome.exit_code == 0) {
      EXPECT_EQ(place.run({"checkpoint", "verify", checkpoint_of("u", 16)}).exit_code, 0);
    } else {
      expect_refused(outcome, 1, {"runs/u", "No space left on device"});
      ++refused;
    }
    for (const auto& [file, bytes] : checkpoints) {
      std::string name = file;
      name.replace(name.find("runs/t"), 6, "runs/u");
      ASSERT_TRUE(place.exists(name)) << name;
      EXPECT_EQ(place.read(name), bytes) << name;
    }
    for (const std::string& name : place.list("runs/u/checkpoints"))
      EXPECT_TRUE(name[0] == '.' ||
                  place.run({"checkpoint", "verify", "runs/u/checkpoints/" + name}).exit_code == 0);
    // With room again it goes on.
    EXPECT_EQ(place.run(train_arguments("u", {"train.steps=16"})).exit_code, 0);
  }
  EXPECT_GE(refused, 3);
}

// A small file system that goes away with the object.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path)
      : path_(path), mounted_(mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") == 0) {}
  ~SmallDisk() {
    if (mounted_) umount(path_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

// The same on a file system that is really full; where none can be mounted, with files that may not grow.
TEST_F(Damage, ARealFullDisk) {
  place.write("small/x", "");
  const SmallDisk disk(place.path("small"));
  ProgramOptions options;
  if (!disk.mounted()) options.max_file_bytes = 100'000;
  const Outcome outcome =
      place.run(train_arguments("u", {"train.runs=" + place.path("small"), "train.steps=100",
                                      "checkpoint.every_steps=1", "checkpoint.keep=0"}),
                options);
  expect_refused(outcome, 1, {"small/u", disk.mounted() ? "No space left on device" : "File too large"});
  int64_t whole = 0;
  for (const std::string& name : place.list("small/u/checkpoints"))
    if (name[0] != '.') {
      EXPECT_EQ(place.run({"checkpoint", "verify", "small/u/checkpoints/" + name}).exit_code, 0) << name;
      ++whole;
    }
  EXPECT_EQ(whole > 0, disk.mounted());
}

// Whatever a command was to write is there as before, or not at all.
TEST_F(Damage, AFullDiskForEveryCommandThatWrites) {
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  const std::vector<std::vector<std::string>> commands = {
      {"tokenizer", "train", "--type", "char", "--output", "new", "en.txt"},
      {"dataset", "build", "--tokenizer", "tokenizer.json", "--output", "new", "zh.jsonl"},
      {"checkpoint", "export-hf", "runs/t", "new"},
      {"checkpoint", "import-hf", "hf", "new"},
  };
  ProgramOptions options;
  for (const auto& command : commands) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"),
                           "ATHANOR_FAULT=count:" + place.path("count")};
    place.output_of(command, options);
    const int64_t operations = std::stoll(place.read("count"));
    int64_t refused = 0;
    for (int64_t at = 1; at <= operations; ++at) {
      for (const char* name : {"new", "new.bin", "new.idx", "new.meta.json"}) place.remove(name);
      options.environment[1] = "ATHANOR_FAULT=full:" + std::to_string(at);
      const Outcome outcome = place.run(command, options);
      if (outcome.exit_code == 0) continue;  // nothing needed room after that
      ++refused;
      expect_refused(outcome, 1, {"new", "No space left on device"});
      for (const char* name : {"new", "new.bin", "new.idx"}) EXPECT_FALSE(place.exists(name)) << name;
    }
    EXPECT_GT(refused, 0);
    for (const char* name : {"new", "new.bin", "new.idx", "new.meta.json"}) place.remove(name);
  }
}

TEST_F(Damage, OutputThatNobodyGetsIsAFailure) {
  const std::vector<std::vector<std::string>> commands = {
      {"evaluate", "runs/t", "--json"},
      {"tokenizer", "encode", "--tokenizer", "tokenizer.json", "--input", "en.txt"},
      {"checkpoint", "digest", "runs/t"},
      {"generate", "runs/t", "--prompt", "a"},
      {"train", "run.toml", "--json"}};
  for (const auto& command : commands) {
    const Outcome outcome = place.run(command, {.output_file = "/dev/full"});
    EXPECT_EQ(outcome.exit_code, 1) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("athanor: error: standard output")) << command[0];
  }
}

// Without standard streams their numbers would go to the first files that are opened.
TEST_F(Damage, ClosedStandardStreamsHarmNothing) {
  for (const int ranks : {1, 2}) {
    place.remove("runs/u");
    const Outcome outcome =
        place.run(ranks == 1 ? train_arguments("u") : launch_arguments(2, "u"), {.closed_streams = true});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(history(place, "u"), history(place, "t"));
  }
}

// `ulimit -f`: a signal would end the program without a word.
TEST_F(Damage, FilesThatMayNotGrow) {
  ProgramOptions options;
  options.max_file_bytes = 100'000;
  const Outcome outcome = place.run(train_arguments("u"), options);
  expect_refused(outcome, 1, {"runs/u", "File too large"});
}

TEST_F(Damage, EveryFileOfACheckpointIsChecked) {
  for (const auto& [file, bytes] : place.files(checkpoint_of("t", 12))) {
    const std::string name = file.substr(file.rfind('/') + 1);
    for (const size_t part : {0, 1, 2, 3, 4}) {
      const size_t byte = std::min(bytes.size() - 1, bytes.size() * part / 4);
      place.flip(file, byte, 2);
      expect_refused(place.run({"checkpoint", "verify", checkpoint_of("t", 12)}), 1, {name});
      place.write(file, bytes);
    }
    for (const size_t size : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      place.write(file, bytes.substr(0, size));
      expect_refused(place.run({"checkpoint", "verify", checkpoint_of("t", 12)}), 1, {name});
      place.write(file, bytes);
    }
    place.remove(file);  // a folder without a manifest is no checkpoint
    expect_refused(place.run({"checkpoint", "verify", checkpoint_of("t", 12)}), 1,
                   {name == "manifest.json" ? checkpoint_of("t", 12) : name});
    place.write(file, bytes);
  }
  EXPECT_EQ(place.run({"checkpoint", "verify", checkpoint_of("t", 12)}).exit_code, 0);
  expect_untouched();
}

TEST_F(Damage, NothingComputesWithADamagedCheckpoint) {
  std::string tensors;
  for (const auto& [file, bytes] : checkpoints)
    if (file.find("step_00000012/") != std::string::npos && file.ends_with(".safetensors")) tensors = file;
  ASSERT_FALSE(tensors.empty());
  place.flip(tensors, place.read(tensors).size() - 5, 6);
  place.write("ids.json", "[[1,2,3]]");
  const std::string path = checkpoint_of("t", 12), name = tensors.substr(tensors.rfind('/') + 1);
  const std::vector<std::vector<std::string>> commands = {{"evaluate", path},
                                                          {"evaluate", path, "--ids", "ids.json"},
                                                          {"generate", path, "--prompt", "a"},
                                                          {"checkpoint", "digest", path},
                                                          {"checkpoint", "export-hf", path, "hf"},
                                                          {"checkpoint", "verify", path}};
  for (const auto& command : commands) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    const Outcome outcome = place.run(command);
    // The last tensor of the file may be the optimizer's, which only some commands read.
    if (command[0] == "checkpoint" && command[1] != "export-hf") expect_refused(outcome, 1, {name});
    EXPECT_EQ(outcome.signal, 0);
  }
  place.flip(tensors, 3, 4);  // the length of the header: nothing at all can be read
  for (const auto& command : commands) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    expect_refused(place.run(command), 1, {name});
  }
  expect_refused(place.run(train_arguments("u", {"train.init_from=" + path})), 1, {name});
  EXPECT_FALSE(place.exists("hf/config.json"));
}

TEST_F(Damage, HuggingFaceFolders) {
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  const std::string weights = place.read("hf/model.safetensors"), config = place.read("hf/config.json");
  place.write("ids.json", "[[1,2,3]]");
  const auto refused = [&](const std::string& name) {
    expect_refused(place.run({"evaluate", "hf", "--ids", "ids.json"}), 1, {name});
    expect_refused(place.run({"checkpoint", "import-hf", "hf", "imported"}), 1, {name});
    EXPECT_FALSE(place.exists("imported"));
  };
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, weights.size() / 2, weights.size() - 1}) {
    place.write("hf/model.safetensors", weights.substr(0, size));
    refused("model.safetensors");
  }
  for (const size_t byte : {0, 5, 7, 8, 20}) {
    place.write("hf/model.safetensors", weights);
    place.flip("hf/model.safetensors", byte, 6);
    refused("model.safetensors");
  }
  place.write("hf/model.safetensors", weights + "x");
  refused("model.safetensors");
  place.write("hf/model.safetensors", weights);
  place.write("hf/config.json", config.substr(0, config.size() / 2));
  refused("config.json");
  place.write("hf/config.json", "{}");
  refused("config.json");
  Json changed = Json::parse(config);
  changed["hidden_size"] = 48;
  place.write("hf/config.json", changed.dump());
  refused("48");
  place.remove("hf/config.json");
  refused("config.json");
}

TEST_F(Damage, IdsThatAreNone) {
  for (const auto& [text, piece] : std::vector<std::pair<std::string, std::string>>{
           {"[[1,2,64]]", "64"},
           {"[[1,2,-1]]", "-1"},
           {"[[1,2,1.5]]", "1.5"},
           {"[[1,2,99999999999]]", "99999999999"},
           {"[1,2,3]", "array"},
           {"{}", "array"},
           {"[[1,2", "ids.json"},
           {"", "ids.json"},
           {"[[" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "]]", "array"},
           {"[]", ""},
           {"[[5]]", ""}}) {
    SCOPED_TRACE(text);
    place.write("ids.json", text);
    expect_refused(place.run({"evaluate", "runs/t", "--ids", "ids.json"}), 1, {piece});
  }
  // Longer than the model's context.
  Json ids = Json::array();
  for (int i = 0; i < 40; ++i) ids.push_back(i % 20);
  place.write("ids.json", Json::array({ids}).dump());
  expect_refused(place.run({"evaluate", "runs/t", "--ids", "ids.json"}), 1, {"33"});
}

}  // namespace
}  // namespace athanor::tests::damage_test
