// athanor tokenizer encode | decode | inspect (train, compare, import, render: files of their own)
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/athanor/command.h"
#include "apps/athanor/loaded_tokenizer.h"
#include "apps/athanor/read_remarks.h"
#include "apps/athanor/tokenizer/tokenizer_compare.h"
#include "apps/athanor/tokenizer/tokenizer_import.h"
#include "apps/athanor/tokenizer/tokenizer_render.h"
#include "apps/athanor/tokenizer/tokenizer_train.h"
#include "apps/command_line/print.h"
#include "apps/command_line/progress.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/documents/document_reader.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"
#include "athanor/text/unicode.h"

namespace athanor::apps {
namespace {

constexpr uint64_t kMaxIdsBytes = uint64_t{1} << 32;

std::string read_input(Env& env, const std::string& path) {
  if (path != "-") return env.read_text(path, kMaxIdsBytes);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

// The code points before each byte that a range begins or ends at.
class Characters {
 public:
  explicit Characters(std::string_view text) : text_(text) {}
  int64_t before(uint32_t byte) {
    if (byte < here_.at) {
      here_ = marks_[byte / kBlockBytes];
      if (here_.at > byte) here_ = marks_[byte / kBlockBytes - 1];
    }
    for (; here_.at < byte; ++here_.count) {
      if (here_.at / kBlockBytes >= marks_.size()) marks_.push_back(here_);
      here_.at += text::decode_utf8(text_, here_.at).size;
    }
    return here_.count;
  }

 private:
  static constexpr size_t kBlockBytes = 1024;
  struct Mark {
    size_t at = 0;      // bytes
    int64_t count = 0;  // characters before it
  };
  std::string_view text_;
  Mark here_;
  std::vector<Mark> marks_ = {
      {}};  // the first character that begins in each block, so that going back is cheap
};

struct EncodeCommand {
  std::string tokenizer, input = "-", pair, offsets;
  bool ordinary = false, tokens = false, special = false, json = false;

  void run() const {
    Env& env = system_env();
    const auto loaded = load_tokenizer(tokenizer);
    const std::string text = read_input(env, input);
    if (offsets.empty() && !tokens && !special && pair.empty())
      return print(fmt::format(
          "[{}]\n", fmt::join(ordinary ? loaded->encode_ordinary(text) : loaded->encode(text), ",")));
    const text::EncodeOptions options{.ordinary = ordinary, .tokens = tokens};
    text::Encoding encoding = loaded->encode_with_offsets(text, options);
    count_in_characters(text, encoding);
    std::optional<text::Encoding> second;
    if (!pair.empty()) {
      const std::string other = read_input(env, pair);
      second = loaded->encode_with_offsets(other, options);
      count_in_characters(other, *second);
    }
    if (special || second) encoding = loaded->with_special_tokens(encoding, second);
    print_json(as_json(encoding));
  }

  void count_in_characters(const std::string& text, text::Encoding& encoding) const {
    if (offsets == "bytes") return;
    Characters characters(text);
    for (text::TextRange& range : encoding.ranges)
      range = {static_cast<uint32_t>(characters.before(range.begin)),
               static_cast<uint32_t>(characters.before(range.end))};
  }

  Json as_json(const text::Encoding& encoding) const {
    Json document = {{"ids", encoding.ids}};
    if (tokens) document["tokens"] = encoding.tokens;
    if (!offsets.empty()) {
      document["offsets"] = Json::array();
      for (const text::TextRange& range : encoding.ranges)
        document["offsets"].push_back(Json::array({range.begin, range.end}));
    }
    if (!encoding.types.empty()) {
      document["type_ids"] = encoding.types;
      document["special"] = encoding.special;
    }
    return document;
  }
};

struct DecodeCommand {
  std::string tokenizer, input = "-";
  bool json = false;

  void run() const {
    Env& env = system_env();
    const auto loaded = load_tokenizer(tokenizer);
    const std::string text = loaded->decode(parse_ids(read_input(env, input)));
    if (!json) return print(text);
    print_json(Json{{"text", text}});
  }

  std::vector<int32_t> parse_ids(const std::string& text) const {
    const std::string name = input == "-" ? "standard input" : input;
    const Json array = Json::parse(text, nullptr, false);
    check(array.is_array(), "{}: expected one JSON array of ids", name);
    std::vector<int32_t> ids;
    for (const Json& id : array) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX)
        fail("{}: item {}: got {}, expected an id", name, ids.size(),
             id.is_number() ? id.dump() : id.type_name());
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }
};

std::string part_type(const nlohmann::json& file, const char* part) {
  const auto found = file.find(part);
  if (found == file.end() || found->is_null()) return "none";
  std::string types;
  for (const char* const list : {"normalizers", "pretokenizers", "decoders"})
    if (const auto steps = found->find(list); steps != found->end())
      for (const nlohmann::json& step : *steps)
        types += (types.empty() ? "" : " + ") + step.value("type", "?");
  return types.empty() ? found->value("type", "?") : types;
}

struct TokenizerInspectCommand {
  std::string tokenizer;
  bool json = false;

  void run() const {
    const auto loaded = load_tokenizer(tokenizer);
    // Unordered: an ordered object looks for every key before it inserts it, the square of a vocabulary.
    const nlohmann::json file = nlohmann::json::parse(loaded->json());
    const SpecialTokens& special = loaded->special_tokens();
    Json facts = {{"model", part_type(file, "model")},
                  {"vocab_size", loaded->vocab_size()},
                  {"merges", file.at("model").contains("merges") ? file.at("model")["merges"].size() : 0},
                  {"normalizer", part_type(file, "normalizer")},
                  {"pre_tokenizer", part_type(file, "pre_tokenizer")},
                  {"decoder", part_type(file, "decoder")},
                  {"end_of_text", nullptr},
                  {"end_from", special.end ? Json(special.end_from) : Json(nullptr)},
                  {"before_text", special.before},
                  {"stops", special.stops},
                  {"added_tokens", Json::array()}};
    if (special.end) facts["end_of_text"] = *special.end;
    if (const auto added = file.find("added_tokens"); added != file.end() && added->is_array())
      for (const nlohmann::json& token : *added)
        facts["added_tokens"].push_back({{"id", token["id"]}, {"content", token["content"]}});
    if (json) return print(facts.dump() + "\n");
    for (const auto& [key, value] : facts.items())
      if (key != "added_tokens")
        print(fmt::format("{:<14} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump()));
    for (const Json& token : facts["added_tokens"])
      print(fmt::format("added token    {:>6}  {}\n", token["id"].get<int64_t>(),
                        printable(token["content"].get<std::string>())));
  }
};

template <typename Command>
std::shared_ptr<Command> add_tokenizer_command(CLI::App& parent, const std::string& name,
                                               const std::string& help) {
  auto command = std::make_shared<Command>();
  parent.add_subcommand(name, help)->callback([command] { command->run(); });
  return command;
}

constexpr const char* kJsonHelp = "print one JSON document";
constexpr const char* kFileHelp = "tokenizer.json, or a folder that holds one";

}  // namespace

void add_tokenizer(CLI::App& app) {
  CLI::App& tokenizer =
      *app.add_subcommand("tokenizer", "Train, run, inspect, compare and import tokenizers");
  tokenizer.require_subcommand(1);
  add_tokenizer_train(tokenizer);

  const auto encode =
      add_tokenizer_command<EncodeCommand>(tokenizer, "encode", "Print the ids of a text as one JSON array");
  CLI::App& encode_app = *tokenizer.get_subcommand("encode");
  encode_app.add_option("--tokenizer", encode->tokenizer, kFileHelp)->required()->type_name("FILE");
  encode_app.add_option("--input", encode->input, "the text file; - reads standard input")
      ->capture_default_str();
  encode_app
      .add_option("--offsets", encode->offsets,
                  "also print where each token begins and ends in the text, in characters or bytes")
      ->expected(0, 1)
      ->default_str("characters")
      ->check(CLI::IsMember({"characters", "bytes"}));
  encode_app.add_flag("--tokens", encode->tokens, "also print the tokens as the vocabulary writes them");
  encode_app.add_flag("--special", encode->special, "put the tokenizer's special tokens around the text");
  encode_app.add_option("--pair", encode->pair,
                        "a second text file: a pair of texts with its special tokens");
  encode_app.add_flag("--ordinary", encode->ordinary, "read special tokens in the text as ordinary text");
  encode_app.add_flag("--json", encode->json, "the output is JSON with or without it");
  encode_app.footer(
      "Example:\n"
      "  echo 'some text' | athanor tokenizer encode --tokenizer tokenizer.json\n"
      "  athanor tokenizer encode --tokenizer tokenizer.json --input a.txt --offsets --tokens --special\n"
      "\n"
      "Without --special no special token is added. With --offsets, --tokens, --special or --pair the output "
      "is an "
      "object with the keys ids, tokens, offsets, type_ids, special.");

  const auto decode =
      add_tokenizer_command<DecodeCommand>(tokenizer, "decode", "Print the text of a JSON array of ids");
  CLI::App& decode_app = *tokenizer.get_subcommand("decode");
  decode_app.add_option("--tokenizer", decode->tokenizer, kFileHelp)->required()->type_name("FILE");
  decode_app.add_option("--input", decode->input, "the JSON file; - reads standard input")
      ->capture_default_str();
  decode_app.add_flag("--json", decode->json, "print {\"text\": ...}, bytes that are not UTF-8 as U+FFFD");
  decode_app.footer("Example:\n  athanor tokenizer decode --tokenizer tokenizer.json --input ids.json");

  const auto inspect =
      add_tokenizer_command<TokenizerInspectCommand>(tokenizer, "inspect", "Say what a tokenizer.json holds");
  CLI::App& inspect_app = *tokenizer.get_subcommand("inspect");
  inspect_app.add_option("FILE", inspect->tokenizer, kFileHelp)->required();
  inspect_app.add_flag("--json", inspect->json, kJsonHelp);
  inspect_app.footer("Example:\n  athanor tokenizer inspect runs/quickstart/checkpoints/step_00000400");

  add_tokenizer_compare(tokenizer);
  add_tokenizer_import(tokenizer);
  add_tokenizer_render(tokenizer);
}

}  // namespace athanor::apps
