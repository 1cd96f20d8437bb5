#include "athanor/config/load.h"

#include <cctype>
#include <filesystem>

#include "athanor/config/print.h"
#include "config/config_testing.h"
#include "support/temporary_folder.h"

namespace athanor::tests::load_test {
namespace {

TEST(Load, EmptyFileGivesTheDefaults) {
  const Config config = parse("");
  EXPECT_EQ(config.train.steps, 1000);
  EXPECT_EQ(config.parallel.dp, 0);
  EXPECT_EQ(config.model.model_type, "llama");
  EXPECT_TRUE(config.data.channels.empty());
}

TEST(Load, ReadsEveryKindOfValue) {
  const Config config = parse(R"(
[model]
preset = "gpt2-124m"
tie_word_embeddings = false
[data]
channels = [ {name = "en", path = "data/en", weight = 0.7}, {name = "代码", path = "data/code"} ]
tokenizer = "data/tokenizer.json"
[train]
seed = 9223372036854775807
steps = 1_000
[optimizer]
lr = 1          # an integer where a float is expected
betas = [0, 0.99]
[parallel]
dp = "auto"
)");
  EXPECT_EQ(config.model.preset, "gpt2-124m");
  EXPECT_FALSE(config.model.tie_word_embeddings);
  ASSERT_EQ(config.data.channels.size(), 2u);
  EXPECT_EQ(config.data.channels[0].weight, 0.7);
  EXPECT_EQ(config.data.channels[1].name, "代码");
  EXPECT_EQ(config.data.channels[1].weight, 1.0);
  EXPECT_EQ(config.train.seed, 9223372036854775807u);
  EXPECT_EQ(config.train.steps, 1000);
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_EQ(config.optimizer.betas, (std::vector<double>{0, 0.99}));
  EXPECT_EQ(config.parallel.dp, 0);
  EXPECT_EQ(parse("[parallel]\ndp = 3").parallel.dp, 3);
}

TEST(Load, ChannelsMayBeAnArrayOfTables) {
  const Config config =
      parse("[[data.channels]]\nname = 'a'\npath = 'x'\n[[data.channels]]\nname = 'b'\npath = 'y'\n");
  ASSERT_EQ(config.data.channels.size(), 2u);
  EXPECT_EQ(config.data.channels[1].path, "y");
}

TEST(Load, UnknownNamesAreNamedWithTheNearest) {
  expect_error("\n[train]\nstpes = 4",
               {"first.toml:3", "train.stpes", "did you mean 'train.steps'?", "global_batch"});
  expect_error("[trian]\nsteps = 4", {"first.toml:1", "'trian'", "did you mean 'train'?"});
  expect_error("[train]\nlr = 4", {"'train.lr'", "did you mean 'optimizer.lr'?"});
  expect_error("steps = 4", {"first.toml:1", "'steps'", "did you mean 'train.steps'?"});
  expect_error("[data]\nchannels = [{nmae = 'x', path = 'y'}]", {"data.channels[0]", "'nmae'", "'name'"});
  expect_error("[train]\nzzzzzzzzzzzzzz = 4", {"unknown key 'train.zzzzzzzzzzzzzz' | "});
  expect_error("[train]\n\"a\\u001b[2J\" = 4", {"'train.a?[2J'"});
}

TEST(Load, WrongTypesNameKeyGotAndExpected) {
  expect_error("[train]\nsteps = 'ten'",
               {"first.toml:2: train.steps: got the string 'ten', expected an integer"});
  expect_error("[train]\nsteps = 10.0", {"train.steps: got the float 10", "expected an integer"});
  expect_error("[train]\nname = 5", {"train.name: got the integer 5, expected a string", "double quotes"});
  expect_error("[train]\ntrace = 1", {"train.trace: got the integer 1, expected true or false"});
  expect_error("[train]\nseed = -1", {"train.seed: got the integer -1, expected at least 0"});
  expect_error("[train]\nname = 1979-05-27", {"got a date or time, expected a string"});
  expect_error("[optimizer]\nlr = '3e-4'", {"optimizer.lr: got the string '3e-4', expected a number"});
  expect_error("[optimizer]\nbetas = 0.9",
               {"optimizer.betas: got the float 0.9, expected an array of numbers"});
  expect_error("[optimizer]\nbetas = [0.9, 'x']", {"optimizer.betas: got the string 'x'"});
  expect_error("[parallel]\ndp = 'all'",
               {"parallel.dp: got the string 'all', expected \"auto\" or an integer"});
  expect_error("[parallel]\ndp = 0",
               {"parallel.dp: got the integer 0, expected \"auto\" or an integer of at least 1"});
  expect_error("train = 5", {"train: got the integer 5, expected a section [train]"});
  expect_error("[data]\nchannels = 'data/en'",
               {"data.channels: got the string 'data/en', expected an array of tables"});
  expect_error("[data]\nchannels = ['data/en']",
               {"data.channels[0]: got the string 'data/en', expected a table"});
  expect_error("[data]\nchannels = [{name = 'en'}]", {"data.channels[0].path: got none, expected a string"});
  expect_error("[data]\nchannels = [{name = 3, path = 'x'}]", {"data.channels[0].name: got the integer 3"});
}

TEST(Load, BrokenTomlNamesTheLine) {
  expect_error("[train]\nsteps = = 4", {"first.toml:2", "not TOML"});
  expect_error("[train]\nsteps = 4\nsteps = 5", {"first.toml:3"});
  expect_error("[train]\nsteps = 99999999999999999999", {"first.toml:2"});
  expect_error(
      "\x7f"
      "ELF\x02\x01\x01",
      {"first.toml:1", "not TOML"});
  expect_error("[train]\nname = \"\xff\xfe\"", {"first.toml:2"});
  expect_error(std::string(100000, '['), {"not TOML"});
}

// Some releases of the TOML library assert on, or run past, such characters: the one linked must refuse them.
TEST(Load, CharactersThatTomlDoesNotKnowAreRefused) {
  const auto utf8 = [](uint32_t code) {
    const auto byte = [](uint32_t bits) { return static_cast<char>(bits); };
    if (code < 0x80) return std::string{byte(code)};
    if (code < 0x800) return std::string{byte(0xc0 | code >> 6), byte(0x80 | (code & 63))};
    return std::string{byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  };
  for (uint32_t code = 1; code < 0x3000; ++code) {
    const std::string c = utf8(code);
    if (code < 0x80) {
      const bool legal =
          std::isalnum(static_cast<int>(code)) != 0 || c == "-" || c == "_" || c == " " || c == "\t";
      if (!legal) {
        ASSERT_THROW(parse("[" + c + "x]"), ConfigError) << code;
      }
      continue;
    }
    for (const std::string& text :
         {c + "x = 1", "[" + c + "x]", "[[" + c + "x]]", "[train]\nsteps = " + c + "5x"})
      ASSERT_THROW(parse(text), ConfigError) << "U+" << std::hex << code << ": " << text;
    // Behind the backslash that joins lines, any character but white space stays.
    if (code < 0x1000 && code != 0x85 && code != 0xa0) {
      ASSERT_EQ(parse("[data]\ntext_key = \"\"\"\\\n" + c + "\"\"\"").data.text_key, c);
    }
  }
}

TEST(Load, OverridesBeatTheFileInTheirOrder) {
  const Config config =
      parse("[train]\nsteps = 5\nname = 'file'\n[data]\nchannels = [{name = 'a.b', path = 'x'}]",
            {"train.steps=7", "train.steps = 8", "train.name=2024-05-01", "optimizer.lr=1e-3",
             "parallel.reduce=tree", "parallel.dp=auto", "optimizer.betas=[0.8, 0.9]",
             "model={num_hidden_layers=2, hidden_size=64}", "data.channels.a.b.weight=3",
             "data.tokenizer=/x/y=z.json", "train.trace=true", "train.init_from="});
  EXPECT_EQ(config.train.steps, 8);
  EXPECT_EQ(config.train.name, "2024-05-01");
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.parallel.reduce, "tree");
  EXPECT_EQ(config.optimizer.betas, (std::vector<double>{0.8, 0.9}));
  EXPECT_EQ(config.model.num_hidden_layers, 2);
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.data.channels[0].weight, 3.0);
  EXPECT_EQ(config.data.tokenizer, "/x/y=z.json");
  EXPECT_TRUE(config.train.trace);
  EXPECT_EQ(config.train.init_from, "");
  const Config channels = parse("", {"data.channels=[{name=\"zh\", path=\"p\", weight=2}]"});
  ASSERT_EQ(channels.data.channels.size(), 1u);
  EXPECT_EQ(channels.data.channels[0].name, "zh");
}

TEST(Load, BareWordsKeepTheirCharacters) {
  EXPECT_EQ(parse("", {"data.tokenizer=C:\\new\\\"x\""}).data.tokenizer, "C:\\new\\\"x\"");
  EXPECT_EQ(parse("", {"data.tokenizer=数据/t.json"}).data.tokenizer, "数据/t.json");
  EXPECT_EQ(parse("", {"data.text_key='quoted'"}).data.text_key, "quoted");
}

TEST(Load, BadOverridesAreNamed) {
  expect_error("", {"--set train.steps", "no '='"}, {"train.steps"});
  expect_error("", {"--set =4", "no key"}, {"=4"});
  expect_error("", {"--set train.stpes=4", "did you mean 'train.steps'?"}, {"train.stpes=4"});
  expect_error("", {"--set trian.steps=4", "did you mean 'train'?"}, {"trian.steps=4"});
  expect_error("", {"--set train.steps=1e", "got the string '1e', expected an integer"}, {"train.steps=1e"});
  expect_error("", {"--set optimizer.betas=[1,", "not TOML"}, {"optimizer.betas=[1,"});
  expect_error("", {"--set train.steps=5?train.name=9"}, {"train.steps=5\ntrain.name=9"});
  expect_error("", {"--set train=5", "expected a section"}, {"train=5"});
  expect_error("", {"--set train.steps.x=5", "unknown key 'train.steps.x'"}, {"train.steps.x=5"});
  expect_error("", {"--set train.=5", "unknown key 'train.'"}, {"train.=5"});
  expect_error("[data]\nchannels = [{name = 'code', path = 'x'}]",
               {"unknown channel 'cod'", "did you mean 'code'?"}, {"data.channels.cod.weight=5"});
  expect_error(
      "[data]\nchannels = [{name = 'code', path = 'x'}]",
      {"expected name, path, weight, epochs, tokens, valid_path, messages, prompt, answer or template"},
      {"data.channels.code.wieght=5"});
  expect_error("", {"--set train.name=", "not TOML"}, {"train.name=\xff\xfe"});
  expect_error("", {"--set train.steps=0: train.steps: got 0, expected at least 1"}, {"train.steps=0"});
}

TEST(Load, OriginsTellWhereAValueCameFrom) {
  const Config config = parse("[train]\nsteps = 5\n[model]\npreset = 'llama-tiny'", {"optimizer.lr=1e-3"});
  EXPECT_EQ(config.origins.at("train.steps").text, "first.toml:2");
  EXPECT_EQ(config.origins.at("optimizer.lr").text, "--set optimizer.lr=1e-3");
  EXPECT_EQ(config.origins.at("model.hidden_size").text, "preset llama-tiny");
  EXPECT_EQ(config.origins.at("model.head_dim").text, "derived: hidden_size / num_attention_heads");
  EXPECT_FALSE(config.origins.contains("train.seed"));
}

TEST(Load, RelativeDataPathsStartAtTheFolderOfTheFile) {
  const std::string folder = temporary_path("config_load");
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/run.toml";
  system_env().write_atomically(path,
                                "[data]\ntokenizer = 'a/../t.json'\nchannels = [{name = 'x', path = 'text'}, "
                                "{name = 'y', path = '/abs'}]\n");
  const Config config = load_config(system_env(), path);
  const std::string absolute = std::filesystem::path(folder).lexically_normal().string();
  EXPECT_EQ(config.data.tokenizer, absolute + "/t.json");
  EXPECT_EQ(config.data.channels[0].path, absolute + "/text");
  EXPECT_EQ(config.data.channels[1].path, "/abs");
  EXPECT_EQ(config.data.cache, "");
  EXPECT_EQ(join_path(config.folder, config.data.tokenizer), config.data.tokenizer);
  std::filesystem::remove_all(folder);
}

TEST(Load, MissingFileIsAConfigError) {
  for (const std::string path : {"/no/such/run.toml", "/", ""}) {
    try {
      load_config(system_env(), path);
      FAIL() << path;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + path + "'"), std::string::npos) << error.what();
    }
  }
}

TEST(LoadConfig, WeightsThatAreTrainedAreEvaluatedLonger) {
  const auto tokens = [](const std::string& text) {
    return parse_config("[train]\n" + text, "t.toml").train.initial_eval_tokens;
  };
  EXPECT_EQ(tokens(""), 1024);
  EXPECT_EQ(tokens("init_from = 'runs/a'"), 4096);
  EXPECT_EQ(tokens("init_from = 'runs/a'\ninitial_eval_tokens = 5"), 5);
}

TEST(Load, AValidPathTakesThePlaceOfTheFraction) {
  const std::string both =
      "channels = [{name = 'a', path = 'x', valid_path = 'v'}, {name = 'b', path = 'y', valid_path = "
      "'w/z'}]\n";
  const std::string one =
      "channels = [{name = 'a', path = 'x', valid_path = 'v'}, {name = 'b', path = 'y'}]\n";
  const Config config = parse_config("[data]\n" + both, "t.toml", "/data");
  EXPECT_EQ(config.data.channels[0].valid_path, "/data/v");
  EXPECT_EQ(config.data.channels[1].valid_path, "/data/w/z");
  EXPECT_EQ(config.data.valid_fraction, 0);
  EXPECT_EQ(parse(print_config(config)).data.channels, config.data.channels);
  EXPECT_EQ(parse("[data]\n" + one).data.valid_fraction, 0.01);
  EXPECT_EQ(parse("[data]\nvalid_fraction = 0.2\n" + one).data.valid_fraction, 0.2);
  EXPECT_EQ(parse("[data]\nvalid_fraction = 0\n" + both).data.valid_fraction, 0);
  expect_error("[data]\nvalid_fraction = 0.2\n" + both, {"data.valid_fraction: got 0.2", "valid_path"});
  EXPECT_EQ(parse("[data]\n" + one, {"data.channels.b.valid_path=u"}).data.channels[1].valid_path, "u");
}

}  // namespace
}  // namespace athanor::tests::load_test
