// athanor tokenizer render TEMPLATE: conversations, one a line, become text by a chat template.
#include "apps/athanor/tokenizer/tokenizer_render.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "apps/command_line/print.h"
#include "athanor/base/check.h"
#include "athanor/text/chat_template/chat_template.h"

namespace athanor::apps {
namespace {

constexpr uint64_t kMaxInputBytes = uint64_t{1} << 32;

struct RenderCommand {
  std::string path, input = "-", now;
  std::vector<std::string> tokens;
  bool prompt = false, json = false;

  std::shared_ptr<const ChatTemplate> load(Env& env) const {
    std::map<std::string, std::string> texts;
    for (const std::string& token : tokens) {
      const size_t equals = token.find('=');
      if (equals == std::string::npos)
        throw ConfigError(
            fmt::format("--token {}: got no '=', expected NAME=TEXT such as bos_token=<s>", token));
      texts[token.substr(0, equals)] = token.substr(equals + 1);
    }
    if (path.ends_with(".jinja"))
      return ChatTemplate::parse(env.read_text(path, kMaxInputBytes), path, std::move(texts));
    const std::string file = env.is_folder(path) ? join_path(path, kTokenizerFile) : path;
    auto found = ChatTemplate::of(read_tokenizer_files(env, parent_folder(file)), file);
    if (!found)
      throw Error(fmt::format("'{}' has no chat template", path), "give a file that ends in .jinja");
    return found;
  }

  std::optional<text::chat_template::TemplateTime> time() const {
    if (now.empty()) return std::nullopt;
    text::chat_template::TemplateTime time;
    int read = 0;
    const int count = std::sscanf(now.c_str(), "%d-%d-%d%n", &time.year, &time.month, &time.day, &read);
    if (count != 3 || static_cast<size_t>(read) != now.size() || time.month < 1 || time.month > 12 ||
        time.day < 1 || time.day > 31)
      throw ConfigError(fmt::format("--now {}: expected a date such as 2024-07-26", now));
    return time;
  }

  void run() const {
    Env& env = system_env();
    const auto chat = load(env);
    const text::chat_template::RenderOptions options{
        .add_generation_prompt = prompt, .find_answers = json && !prompt, .now = time()};
    std::istringstream lines(input == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                          : env.read_text(input, kMaxInputBytes));
    const std::string name = input == "-" ? "standard input" : input;
    std::string line;
    for (int64_t number = 1; std::getline(lines, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const std::string place = fmt::format("{} line {}", name, number);
      if (!json) {
        print(render(*chat, line, options, place).text + "\n");
        continue;
      }
      try {
        const Rendered rendered = render(*chat, line, options, place);
        Json answers = Json::array();
        for (const ByteSpan& span : rendered.answers) answers.push_back({span.begin, span.end});
        print_json(Json{{"text", rendered.text}, {"answers", answers}});
      } catch (const Error& error) {  // a line of output for each line of input
        print_json(Json{{"error", error.what()}});
      }
    }
  }

  static Rendered render(const ChatTemplate& chat, const std::string& line,
                         const text::chat_template::RenderOptions& options, const std::string& place) {
    const Conversation conversation = Conversation::parse(line, place);
    try {
      return chat.render(conversation, options);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", place, error.what()), error.hint());
    }
  }
};

}  // namespace

void add_tokenizer_render(CLI::App& tokenizer) {
  auto command = std::make_shared<RenderCommand>();
  CLI::App& app = *tokenizer.add_subcommand("render", "Turn conversations into text by a chat template");
  app.add_option("TEMPLATE", command->path,
                 "a file that ends in .jinja, a tokenizer.json, or a folder that holds one")
      ->required();
  app.add_option("--input", command->input, "conversations as JSON, one a line; - reads standard input")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_flag("--add-generation-prompt", command->prompt, "end where an answer begins");
  app.add_option("--now", command->now, "the date that strftime_now() tells (default: it is undefined)")
      ->type_name("DATE");
  app.add_option("--token", command->tokens, "a special token of a .jinja file, such as bos_token=<s>")
      ->allow_extra_args(false)
      ->type_name("NAME=TEXT");
  app.add_flag(
      "--json", command->json,
      "print {\"text\": ..., \"answers\": [[begin, end], ...]} a line, in bytes, or {\"error\": ...}");
  app.footer(
      "Example:\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | athanor tokenizer render "
      "llama-3");
  app.callback([command] { command->run(); });
}

}  // namespace athanor::apps
