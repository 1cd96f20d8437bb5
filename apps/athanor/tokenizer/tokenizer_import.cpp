// athanor tokenizer import: other files of tokenizers as a tokenizer.json.
#include "apps/athanor/tokenizer/tokenizer_import.h"
#include "apps/athanor/loaded_tokenizer.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <nlohmann/json.hpp>

#include "apps/command_line/print.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/human.h"
#include "athanor/text/formats/bert_vocabulary.h"
#include "athanor/text/formats/gpt2.h"
#include "athanor/text/formats/sentencepiece.h"
#include "athanor/text/formats/tiktoken.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"

namespace athanor::apps {
namespace {

struct TokenizerImportCommand {
  std::string vocab, merges, ranks, model, output, pattern = "gpt2";
  std::vector<std::string> special;
  bool json = false;

  void run() const {
    Env& env = system_env();
    const std::string text = converted(env);
    TokenizerFiles beside = read_tokenizer_files(env, parent_folder(vocab + ranks + model));
    beside.erase(kTokenizerFile);
    const auto alone = Tokenizer::parse(text, output);
    const auto in_company = Tokenizer::parse(text, output, std::move(beside));
    env.create_folders(parent_folder(output));
    env.write_atomically(output, text);
    say_warnings(alone.get());
    const auto end = alone->end_of_text();
    const std::string note = end_note(*alone, *in_company);
    if (json)
      return print(Json{{"output", output},
                        {"vocab_size", alone->vocab_size()},
                        {"end_of_text", end ? Json(*end) : Json(nullptr)},
                        {"note", note}}
                       .dump() +
                   "\n");
    print(fmt::format("{}: {} tokens, {}\n", output, with_commas(alone->vocab_size()), note));
  }

 private:
  std::string converted(Env& env) const {
    if (!special.empty() && ranks.empty())
      throw ConfigError("--special: is for --ranks, whose file names no special tokens");
    if (!model.empty()) return sentencepiece_json(env.read_text(model, uint64_t{1} << 28), model);
    if (!ranks.empty()) return import_tiktoken(env, ranks, pattern, special_tokens());
    return merges.empty() ? import_bert_vocabulary(env, vocab) : import_gpt2(env, vocab, merges, pattern);
  }

  // NAME=ID; a name may hold '=' itself.
  text::TokenIds special_tokens() const {
    text::TokenIds tokens;
    for (const std::string& token : special) {
      const size_t sign = token.rfind('=');
      int64_t id = -1;
      const char* const end = token.data() + token.size();
      if (sign != std::string::npos && std::from_chars(token.data() + sign + 1, end, id).ptr != end) id = -1;
      if (sign == 0 || id < 0)
        throw ConfigError(fmt::format(
            "--special: got '{}', expected a token and its id, as in '<|endoftext|>=100257'", token));
      tokens.emplace_back(token.substr(0, sign), id);
    }
    return tokens;
  }

  // Which token ends a text, as far as the new file says that by itself.
  std::string end_note(const Tokenizer& alone, const Tokenizer& in_company) const {
    const auto end = alone.end_of_text(), named = in_company.end_of_text();
    const SpecialTokens& named_by = in_company.special_tokens();
    if (named && named != end)
      return fmt::format("the end of text '{}' is named by {} alone: copy that file beside a tokenizer.json",
                         printable(in_company.token_of(*named)), named_by.end_from);
    if (!end)
      return "no end of text: documents will follow each other directly, unless a tokenizer_config.json "
             "beside it "
             "names an eos_token";
    return fmt::format("end of text '{}' ({})", printable(alone.token_of(*end)), *end);
  }
};

}  // namespace

void add_tokenizer_import(CLI::App& parent) {
  auto command = std::make_shared<TokenizerImportCommand>();
  CLI::App* const import = parent.add_subcommand(
      "import", "Turn files of GPT-2, BERT, tiktoken or SentencePiece into a tokenizer.json");
  import->callback([command] { command->run();
});
auto* const source = import->add_option_group("source");
auto* const vocab =
    source->add_option("--vocab", command->vocab, "vocab.json (GPT-2, with --merges) or vocab.txt (BERT)")
        -> type_name("FILE");
source->add_option("--ranks", command->ranks, "tiktoken's ranks, such as cl100k_base.tiktoken")
    ->type_name("FILE");
source->add_option("--model", command->model, "SentencePiece's .model")->type_name("FILE");
source->require_option(1);
import->add_option("--merges", command->merges, "merges.txt")->needs(vocab)->type_name("FILE");
import->add_option("--output,-o", command->output, "the file to write")->required()->type_name("FILE");
import
    ->add_option("--pattern", command->pattern,
                 fmt::format("how text is cut into words: {}, for --ranks also o200k or a regular expression",
                             fmt::join(tokenizer_patterns(), ", ")))
    ->capture_default_str();
import->add_option("--special", command->special, "for --ranks: a special token and its id, as TOKEN=ID")
    ->allow_extra_args(false);
import->add_flag("--json", command->json, "print one JSON document");
import->footer(
    "Examples:\n"
    "  athanor tokenizer import --vocab vocab.json --merges merges.txt --output tokenizer.json\n"
    "  athanor tokenizer import --vocab vocab.txt --output tokenizer.json\n"
    "  athanor tokenizer import --model spm.model --output tokenizer.json\n"
    "  athanor tokenizer import --ranks cl100k_base.tiktoken --pattern cl100k --special "
    "'<|endoftext|>=100257' "
    "--output tokenizer.json\n"
    "\n"
    "Tokens that only added_tokens.json or tokenizer_config.json beside vocab.json has are taken too.");
}  // namespace athanor::apps

}  // namespace athanor::apps
