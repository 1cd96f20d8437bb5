#include "conversation.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <utility>

#include "apps/command_line/print.h"
#include "athanor/base/human.h"

namespace athanor::apps {
namespace {

using text::chat_template::Message;

std::atomic<bool> answer_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// Ctrl-C ends the answer while one of these lives, and the program at any other time.
class InterruptibleAnswer {
 public:
  InterruptibleAnswer() {
    answer_interrupted = false;
    struct sigaction action {};
    action.sa_handler = [](int) { answer_interrupted = true; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptibleAnswer() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptibleAnswer(const InterruptibleAnswer&) = delete;
  InterruptibleAnswer& operator=(const InterruptibleAnswer&) = delete;

 private:
  struct sigaction before_ {};
};

// The newest messages that the context has room for; at least the last.
ChatPrompt prompt_that_fits(const Loaded& model, const std::string& path, const ChatInput& chat,
                            int64_t max_tokens, std::vector<Message>& said) {
  const int64_t context = model.loaded.config.model.max_position_embeddings;
  const int64_t room = std::max(context - max_tokens, context / 2);
  size_t left_out = 0;
  for (;;) {
    ChatPrompt prompt = make_chat_prompt(*model.tokenizer, path, chat, said);
    if (std::ssize(prompt.ids) <= room || said.size() < 3) {
      if (left_out > 0)
        print_warnings({fmt::format("the context of {} tokens is full: the oldest {} messages are forgotten",
                                    with_commas(context), left_out)});
      if (std::ssize(prompt.ids) > context)
        print_warnings(
            {fmt::format("the message has {} tokens and the model a context of {}: its first {} "
                         "are not read",
                         with_commas(std::ssize(prompt.ids)), with_commas(context),
                         with_commas(std::ssize(prompt.ids) - context))});
      return prompt;
    }
    said.erase(said.begin(), said.begin() + 2);  // a message and its answer
    left_out += 2;
  }
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

}  // namespace

void converse(Loaded& model, const std::string& path, const ChatInput& chat, const WriteRequest& how) {
  std::fputs("/new begins anew, /exit or Ctrl-D ends, Ctrl-C ends an answer\n", stderr);
  const bool remembers = has_chat_template(*model.tokenizer, chat);
  if (!remembers)
    print_warnings({"the tokenizer has no chat template: each message is answered without those before it"});
  std::vector<Message> said;
  uint64_t answers = 0;
  for (std::string line; std::cout << "\n> " << std::flush, std::getline(std::cin, line);) {
    const std::string message = trimmed(line);
    if (message == "/exit") return;
    if (message == "/new") said.clear();
    if (message.starts_with('/') && message != "/new" && message.find(' ') == std::string::npos)
      print_warnings({fmt::format("got {}, expected /new, /exit or a message", message)});
    if (message.empty() || (message.starts_with('/') && message.find(' ') == std::string::npos)) continue;
    if (!remembers) said.clear();
    said.push_back({"user", message});
    ChatPrompt prompt = prompt_that_fits(model, path, chat, how.options.max_tokens, said);
    WriteRequest request = how;
    request.ids = request.before = std::move(prompt.ids);
    request.stops.insert(request.stops.end(), prompt.stops.begin(), prompt.stops.end());
    request.options.stop_ids.insert(request.options.stop_ids.end(), prompt.stop_ids.begin(),
                                    prompt.stop_ids.end());
    request.options.step = answers++;
    const InterruptibleAnswer interruptible;
    const WrittenText answer = write_text(model, request, [](const std::string& piece) {
      std::cout << piece << std::flush;
      return !answer_interrupted;
    });
    std::cout << "\n" << std::flush;
    if (!answer.remark.empty()) print_warnings({answer.remark});
    said.push_back({"assistant", answer.text});
  }
  std::cout << "\n";
}

}  // namespace athanor::apps
