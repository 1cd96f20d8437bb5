// An agent that is killed, or stopped, at any time is replaced by another one, and its ranks hear nothing of it. With real
// processes, below the one that a user starts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/control/operator_messages.h"
#include "athanor/control/packet_channel.h"
#include "athanor/launch/diagnosis/stacks.h"
#include "athanor/launch/job_file.h"
#include "athanor/observe/event_log.h"
#include "child_processes.h"
#include "launcher.h"
#include "support/temporary_folder.h"

namespace athanor::tests::agent_restart_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 3;
const std::string kNothingLeft = "LEFT 0 descriptors, 0 children, 0 sockets\n";

void wait_until(const std::function<bool()>& condition) {
  for (const double deadline = now_seconds() + 120.0; !condition();) {
    if (now_seconds() > deadline) throw std::runtime_error("it never happened");
    usleep(1000);
  }
}

void strike(int64_t process, int signal) {
  if (kill(static_cast<pid_t>(process), signal) != 0) throw std::runtime_error("it has ended already");
}

class AgentRestart : public ::testing::Test {
 protected:
  LauncherOptions options(std::vector<std::string> environment = {},
                          const std::string& steps = "1000000000") const {
    environment.push_back("TEST_FOLDER=" + folder.path(""));
    return {.num_ranks = kRanks,
            .arguments = {"recover", steps, "-2"},
            .environment = std::move(environment),
            .max_restarts = 10,
            .has_agents = true};
  }
  // None: there is no agent that answers.
  std::optional<JobStatus> try_status() const {
    try {
      const auto job = read_job_file(folder.path(""));
      if (!job) return std::nullopt;
      PacketChannel channel = PacketChannel::connect(job->socket);
      channel.send(encode(OperatorRequest(AskStatus{})));
      while (!channel.closed()) {
        pollfd polled{channel.fd(), POLLIN, 0};
        poll(&polled, 1, 100);
        if (const auto packet = channel.receive())
          return std::get<JobStatus>(decode_operator_answer(packet->text));
      }
    } catch (const Failure&) {  // killed meanwhile
    }
    return std::nullopt;
  }
  // All ranks train, and have done a step after this one.
  JobStatus status_after(int64_t step, int ranks = kRanks) const {
    JobStatus job;
    wait_until([&] {
      job = try_status().value_or(JobStatus{});
      return std::ssize(job.ranks) == ranks &&
             std::all_of(job.ranks.begin(), job.ranks.end(), [&](const RankStatus& one) {
               return one.state == RankState::training && one.step > step && one.pid > 0;
             });
    });
    return job;
  }
  // The one that is not `old`, and has a master.
  static pid_t agent_of(const Launcher& launcher, pid_t old = -1) {
    pid_t agent = -1;
    wait_until([&] {
      agent = child_of(launcher.pid(), "agent");
      return agent > 0 && agent != old && child_of(agent, "master") > 0;
    });
    return agent;
  }
  std::vector<RunEvent> events() const {
    std::ifstream file(folder.path("events.jsonl"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::vector<RunEvent> all = read_events(text);
    EXPECT_EQ(std::ssize(all), std::count(text.begin(), text.end(), '\n')) << text;  // each line is whole
    return all;
  }
  int64_t count(const std::string& name) const {
    const std::vector<RunEvent> all = events();
    return std::count_if(all.begin(), all.end(), [&](const RunEvent& one) { return one.event == name; });
  }
  void expect_stops(Launcher& launcher) const {
    strike(launcher.pid(), SIGTERM);
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 75) << launcher.text;
    EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
    EXPECT_FALSE(read_job_file(folder.path("")));
    EXPECT_EQ(count("start"), 1);
    EXPECT_EQ(count("stop"), 1);
    EXPECT_EQ(count("end"), 1);
  }
  static void expect_same_ranks(const JobStatus& now, const JobStatus& before) {
    ASSERT_EQ(now.ranks.size(), before.ranks.size());
    for (size_t i = 0; i < now.ranks.size(); ++i) EXPECT_EQ(now.ranks[i].pid, before.ranks[i].pid);
    EXPECT_EQ(now.generation, before.generation);
  }

  TemporaryFolder folder;
};

// At instants that are drawn, with ranks that train meanwhile.
TEST_F(AgentRestart, KilledWhileTheRanksTrain) {
  Launcher launcher(options({"TEST_EVENT_STEPS=1000"}));
  const JobStatus before = status_after(0);
  JobStatus now = before;
  pid_t agent = -1;
  constexpr int kTimes = 12;
  const RandomStream drawn(7, "instants");
  for (int time = 0; time < kTimes; ++time) {
    agent = agent_of(launcher, agent);
    now = status_after(now.step);
    usleep(static_cast<useconds_t>(20'000.0 *
                                   static_cast<double>(drawn.uniform(static_cast<uint64_t>(time), 0))));
    strike(agent, SIGKILL);
    const JobStatus after = status_after(now.step);
    expect_same_ranks(after, before);
    now = after;
  }
  status_after(1000);  // by then something has been said
  expect_stops(launcher);
  EXPECT_EQ(count("failure"), 0);
  EXPECT_EQ(count("restart"), 0);
  EXPECT_EQ(count("agent"), kTimes);
  // What a rank says is written once, whichever agent was there.
  int64_t step = 0;
  std::vector<RunEvent> said = events();
  std::erase_if(said, [](const RunEvent& one) { return one.event != "checkpoint"; });
  for (const RunEvent& one : said) EXPECT_EQ(one.step, step += 1000);
  EXPECT_GT(step, 0);
  EXPECT_THAT(launcher.text,
              HasSubstr("the agent of the job was killed by signal 9 (SIGKILL): another one takes over"));
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_THAT(launcher.text,
                HasSubstr("process " + std::to_string(before.ranks[static_cast<size_t>(rank)].pid)));
}

// Before it has done all that its master wants: some ranks are started, or have met, and others not. None is started twice.
TEST_F(AgentRestart, KilledWhileItStarts) {
  const RandomStream drawn(7, "instants of the start");
  for (int time = 0; time < 8; ++time) {
    LauncherOptions few = options({}, "5000");
    few.run_folder = folder.path("");
    Launcher launcher(few);
    pid_t agent = -1;
    wait_until([&] { return (agent = child_of(launcher.pid(), "agent")) > 0; });
    const double fraction = static_cast<double>(drawn.uniform(static_cast<uint64_t>(time), 0));
    usleep(static_cast<useconds_t>(30'000.0 * fraction));
    strike(agent, SIGKILL);  // a zombie at the worst, if it has finished
    launcher.finish();
    EXPECT_EQ(launcher.exit_code, 0) << launcher.text;
    EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
    EXPECT_THAT(launcher.text, Not(HasSubstr("started again")));
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string said = "rank " + std::to_string(rank) + ": token ";
      EXPECT_EQ(launcher.text.find(said), launcher.text.rfind(said)) << launcher.text;
    }
    std::filesystem::remove(folder.path("events.jsonl"));
  }
}

// The rank that died is started once, by the one agent or by the other, and has what the one before it left.
TEST_F(AgentRestart, KilledWhileARankRecovers) {
  Launcher launcher(options());
  JobStatus now = status_after(0);
  const JobStatus first = now;
  pid_t agent = -1;
  const RandomStream drawn(7, "instants of a recovery");
  constexpr int kTimes = 10;
  for (int time = 0; time < kTimes; ++time) {
    agent = agent_of(launcher, agent);
    now = status_after(now.step);
    strike(now.ranks[1].pid, SIGKILL);
    usleep(static_cast<useconds_t>(25'000.0 *
                                   static_cast<double>(drawn.uniform(static_cast<uint64_t>(time), 0))));
    strike(agent, SIGKILL);
    JobStatus after;
    wait_until([&] { return (after = status_after(-1)).generation > now.generation; });
    EXPECT_EQ(after.generation, now.generation + 1);
    EXPECT_EQ(after.ranks[0].pid, first.ranks[0].pid);
    EXPECT_NE(after.ranks[1].pid, now.ranks[1].pid);
    EXPECT_EQ(after.ranks[2].pid, first.ranks[2].pid);
    EXPECT_GE(after.step + 1, now.step);
    now = after;
  }
  expect_stops(launcher);
  EXPECT_EQ(count("failure"), kTimes);
  EXPECT_EQ(count("restart"), kTimes);
  EXPECT_EQ(count("recovered"), kTimes);
  EXPECT_EQ(count("agent"), kTimes);
  // Its state is that of its first process, which began with nothing.
  const std::string token = "token " + std::to_string(first.ranks[1].pid);
  EXPECT_THAT(launcher.text,
              HasSubstr("rank 1 of 3: process " + std::to_string(now.ranks[1].pid) + ", " + token));
}

// As is one that hangs: it is killed, whatever it would do when it goes on.
TEST_F(AgentRestart, StoppedForLong) {
  Launcher launcher(options());
  const JobStatus before = status_after(0);
  const pid_t agent = agent_of(launcher);
  const int watched = pidfd_open(agent, 0);
  strike(agent, SIGSTOP);
  pollfd ended{watched, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, -1), 1);
  close(watched);
  expect_same_ranks(status_after(before.step), before);
  expect_stops(launcher);
  EXPECT_EQ(count("failure"), 0);
  EXPECT_THAT(launcher.text, HasSubstr("the agent of the job has been silent for 5"));
}

TEST_F(AgentRestart, KilledTogetherWithItsMaster) {
  Launcher launcher(options());
  const JobStatus before = status_after(0);
  JobStatus now = before;
  pid_t agent = -1;
  for (int time = 0; time < 4; ++time) {
    agent = agent_of(launcher, agent);
    pid_t master = -1;
    wait_until([&] { return (master = child_of(agent, "master")) > 0; });
    strike(time % 2 == 0 ? master : agent, SIGKILL);
    strike(time % 2 == 0 ? agent : master, SIGKILL);
    now = status_after(now.step);
    expect_same_ranks(now, before);
  }
  expect_stops(launcher);
  EXPECT_EQ(count("failure"), 0);
}

// Nobody waits for such a job any more: it is not to train on where nobody sees it.
class WithoutLauncher : public AgentRestart {
 protected:
  void SetUp() override { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  void TearDown() override {
    while (waitpid(-1, nullptr, 0) > 0) continue;  // its masters; none is left that runs
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  static void expect_saved(const JobStatus& job) {
    for (const RankStatus& one : job.ranks) {
      int status = 0;
      EXPECT_EQ(waitpid(static_cast<pid_t>(one.pid), &status, 0), one.pid);
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 75);
    }
  }
};

TEST_F(WithoutLauncher, TheRanksSaveAndEndUnderTheirAgent) {
  Launcher launcher(options());
  const JobStatus job = status_after(0);
  const pid_t agent = agent_of(launcher);
  strike(launcher.pid(), SIGKILL);
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, -SIGKILL);
  expect_saved(job);
  int status = 0;
  EXPECT_EQ(waitpid(agent, &status, 0), agent);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_THAT(launcher.text, HasSubstr("the launcher is gone: the ranks save and end\n"));
  EXPECT_EQ(count("stop"), 1);
  EXPECT_EQ(count("end"), 1);
  EXPECT_EQ(launcher.num_sockets(), 0);
  EXPECT_FALSE(read_job_file(folder.path("")));
}

TEST_F(WithoutLauncher, TheRanksSaveAndEndWithoutAnAgentToo) {
  for (const bool agent_first : {true, false}) {
    const JobStatus job = [&] {
      Launcher launcher(options());
      JobStatus at_work = status_after(0);
      const pid_t agent = agent_of(launcher);
      strike(launcher.pid(), SIGSTOP);  // it replaces nobody
      strike(agent_first ? agent : launcher.pid(), SIGKILL);
      strike(agent_first ? launcher.pid() : agent, SIGKILL);
      launcher.finish();
      return at_work;
    }();
    expect_saved(job);
  }
}

// What is stopped is the launcher's first process; the shell sees that one only.
TEST_F(AgentRestart, StopsAndGoesOnWithTheShell) {
  Launcher launcher(options());
  const JobStatus before = status_after(0);
  const auto all_are = [&](bool stopped) {
    return std::all_of(before.ranks.begin(), before.ranks.end(), [&](const RankStatus& one) {
      return (process_state(static_cast<pid_t>(one.pid)) == 'T') == stopped;
    });
  };
  strike(launcher.pid(), SIGTSTP);
  wait_until([&] { return all_are(true) && process_state(launcher.pid()) == 'T'; });
  strike(launcher.pid(), SIGCONT);
  expect_same_ranks(status_after(before.step), before);
  // And if its agent is killed meanwhile.
  const pid_t agent = agent_of(launcher);
  strike(launcher.pid(), SIGTSTP);
  wait_until([&] { return all_are(true) && process_state(launcher.pid()) == 'T'; });
  strike(agent, SIGKILL);
  strike(launcher.pid(), SIGCONT);
  expect_same_ranks(status_after(before.step), before);
  EXPECT_TRUE(all_are(false));
  expect_stops(launcher);
  EXPECT_EQ(count("stopped"), 0);
}

// Its ranks are told by the next one.
TEST_F(AgentRestart, KilledWhenTheJobIsToStop) {
  for (const bool stop_first : {true, false}) {
    Launcher launcher(options());
    status_after(0);
    const pid_t agent = agent_of(launcher);
    if (stop_first) strike(launcher.pid(), SIGTERM);
    strike(agent, SIGKILL);
    expect_stops(launcher);
    std::filesystem::remove(folder.path("events.jsonl"));
  }
}

TEST_F(AgentRestart, OneAfterTheOtherFailsAndTheRanksSaveAndEnd) {
  Launcher launcher(options());
  JobStatus job = status_after(0);
  pid_t agent = -1;
  for (int time = 0; time < 5; ++time) {
    agent = agent_of(launcher, agent);
    strike(agent, SIGABRT);
  }
  launcher.finish();
  EXPECT_EQ(launcher.exit_code, 75) << launcher.text;
  EXPECT_THAT(launcher.text,
              HasSubstr("5 agents of the job have ended one after the other, the last of which "));
  EXPECT_THAT(launcher.text, HasSubstr(kNothingLeft));
  for (const RankStatus& one : job.ranks) EXPECT_THROW(strike(one.pid, 0), std::runtime_error);
}

}  // namespace
}  // namespace athanor::tests::agent_restart_test
