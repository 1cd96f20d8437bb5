// generate --chat at a terminal: what each answer is made from, what is forgotten, and how an answer or the conversation ends.
#include <gmock/gmock.h>
#include <pty.h>
#include <unistd.h>

#include <csignal>

#include "apps/small_run.h"

namespace athanor::tests::conversation_test {
namespace {

using ::testing::HasSubstr;

class Keyboard {
 public:
  Keyboard() {
    if (openpty(&keys_, &terminal_, nullptr, nullptr, nullptr) != 0) throw std::runtime_error("openpty");
  }
  ~Keyboard() {
    ::close(keys_);
    ::close(terminal_);
  }
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;

  int terminal() const { return terminal_; }
  void type(const std::string& text) const {
    EXPECT_EQ(::write(keys_, text.data(), text.size()), std::ssize(text));
  }

 private:
  int keys_ = -1, terminal_ = -1;
};

class ConversationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    train(place, "t", {"train.steps=1"});
    place.write("chat.jinja",
                "{% for m in messages %}{{ m.role[0] }} {{ m.content }} {% endfor %}"
                "{% if add_generation_prompt %}a {% endif %}");
  }
  Program start(std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "runs/t", "--greedy", "--chat"});
    return place.start(more, {.input_fd = keyboard.terminal()});
  }
  // Types a line once the program asks for the number-th one.
  void say(Program& program, int number, const std::string& line) {
    const bool asked = program.wait_until([&] {
      const std::string& out = program.output_so_far();
      int count = 0;
      for (size_t at = out.find("\n> "); at != std::string::npos; at = out.find("\n> ", at + 1)) ++count;
      return count >= number;
    });
    ASSERT_TRUE(asked) << program.output_so_far() << program.errors_so_far();
    keyboard.type(line + "\n");
  }
  // The answer to these messages, and where it is put behind its prompt sign.
  std::string answer(const std::vector<std::pair<std::string, std::string>>& messages, int max_tokens) {
    Json talk = Json::array();
    for (const auto& [role, content] : messages) talk.push_back({{"role", role}, {"content", content}});
    place.write("talk.json", talk.dump());
    return Json::parse(
        place.output_of({"generate", "runs/t", "--greedy", "--messages", "talk.json", "--template",
                         "chat.jinja", "--max-tokens", std::to_string(max_tokens), "--json"}))["text"];
  }
  const Keyboard keyboard;
  const Workplace place;
};

TEST_F(ConversationTest, EachAnswerKnowsWhatWasSaidBefore) {
  Program program = start({"--template", "chat.jinja", "--max-tokens", "4"});
  say(program, 1, "ab");
  say(program, 2, "ba");
  say(program, 3, "/new");
  say(program, 4, "ba");
  say(program, 5, "/nwe");
  say(program, 6, "/exit");
  const Outcome done = program.finish();
  EXPECT_EQ(done.exit_code, 0) << done.all();
  const std::string first = answer({{"user", "ab"}}, 4);
  const std::string second = answer({{"user", "ab"}, {"assistant", first}, {"user", "ba"}}, 4);
  const std::string anew = answer({{"user", "ba"}}, 4);
  EXPECT_EQ(done.out, "\n> " + first + "\n\n> " + second + "\n\n> \n> " + anew + "\n\n> \n> ");
  EXPECT_THAT(done.err, HasSubstr("got /nwe, expected /new, /exit or a message"));
}

TEST_F(ConversationTest, ForgetsTheOldestWhereTheContextIsFull) {
  Program program = start({"--template", "chat.jinja", "--max-tokens", "4"});
  say(program, 1, "abababab");
  say(program, 2, "abbaabba");
  say(program, 3, "ba");
  say(program, 4, "\x04");
  const Outcome done = program.finish();
  EXPECT_EQ(done.exit_code, 0) << done.all();
  EXPECT_THAT(done.err, HasSubstr("the context of 32 tokens is full: the oldest 2 messages are forgotten"));
}

TEST_F(ConversationTest, AnInterruptEndsTheAnswerAndAtThePromptTheProgram) {
  Program program = start({"--template", "chat.jinja", "--max-tokens", "1000000000"});
  say(program, 1, "ab");
  ASSERT_TRUE(program.wait_until([&] { return program.output_so_far().size() > 100; }));
  program.signal(SIGINT);
  say(program, 2, "/new");
  ASSERT_TRUE(program.wait_until([&] { return program.output_so_far().ends_with("\n\n> \n> "); }));
  program.signal(SIGINT);
  EXPECT_EQ(program.finish().signal, SIGINT);
}

TEST_F(ConversationTest, WithoutATemplateEachMessageStandsAlone) {
  Program program = start({"--max-tokens", "3"});
  say(program, 1, "ab");
  say(program, 2, "ab");
  say(program, 3, "/exit");
  const Outcome done = program.finish();
  const std::string each =
      place.output_of({"generate", "runs/t", "--greedy", "--chat", "--prompt", "ab", "--max-tokens", "3"});
  EXPECT_EQ(done.out, "\n> " + each + "\n> " + each + "\n> ");
  EXPECT_THAT(done.err, HasSubstr("the tokenizer has no chat template"));
}

}  // namespace
}  // namespace athanor::tests::conversation_test
