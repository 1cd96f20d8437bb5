// Threads bound to cores, as /proc shows them while the program runs, and as the program says itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "apps/small_run.h"
#include "athanor/base/topology.h"
#include "support/places.h"

namespace athanor::tests::binding_test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// One for each thread, the main one first: the processors it may run on, "0-1,4".
std::vector<std::string> allowed_of_threads(pid_t process) {
  std::vector<std::string> allowed;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  std::set<int> threads;
  for (const auto& entry : std::filesystem::directory_iterator(tasks))
    threads.insert(std::stoi(entry.path().filename()));
  for (const int thread : threads) {
    std::ifstream status(tasks + "/" + std::to_string(thread) + "/status");
    const std::string key = "Cpus_allowed_list:\t";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(key)) allowed.push_back(line.substr(key.size()));
  }
  return allowed;
}

class Binding : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    for (const Core& core : usable_cores()) first_of_core.push_back(core.processors.front());
    for (const Core& core : usable_cores())
      processors.insert(processors.end(), core.processors.begin(), core.processors.end());
  }
  Workplace place;
  std::vector<int> first_of_core, processors;
};

TEST_F(Binding, EachThreadOfEveryRankHasACoreOfItsOwn) {
  if (first_of_core.size() < 2) GTEST_SKIP() << "needs two cores";
  const BoundThread two({first_of_core.data(), 2});  // the program inherits this
  Program job = place.start(launch_arguments(2, "t", {"train.steps=1000000"}));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 2; }));
  for (const auto& [rank, process] : ranks_of(job.pid()))
    EXPECT_THAT(allowed_of_threads(process), Each(std::to_string(first_of_core[static_cast<size_t>(rank)])));
  job.signal(SIGTERM);
  EXPECT_THAT(job.finish().all(), HasSubstr("pinned to core " + std::to_string(first_of_core[0])));
}

TEST_F(Binding, HelpersOfABoundThreadMayRunOnAllCoresOfTheRank) {
  if (first_of_core.size() < 2) GTEST_SKIP() << "needs two cores";
  const std::vector<int> both = {first_of_core[0], first_of_core[1]};
  const BoundThread two(both);
  Program job = place.start(train_arguments("t", {"train.steps=1000000", "train.threads=2"}));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 2; }));
  const auto allowed = allowed_of_threads(job.pid());
  job.signal(SIGTERM);
  job.finish();
  EXPECT_EQ(allowed[0], std::to_string(both[0]));                     // trains
  EXPECT_THAT(allowed, Contains(std::to_string(both[1])));            // the pool's other thread
  EXPECT_THAT(allowed, Contains(number_ranges({both[0], both[1]})));  // reads data
}

TEST_F(Binding, CanBeLeftOut) {
  const std::string all = allowed_of_threads(getpid())[0];
  Program job = place.start(
      train_arguments("t", {"train.steps=1000000", "train.threads=" + std::to_string(processors.size()),
                            "train.pin_threads=false"}));
  ASSERT_TRUE(job.wait_until([&] { return num_lines(place, "t") >= 2; }));
  EXPECT_THAT(allowed_of_threads(job.pid()), Each(all));
  job.signal(SIGTERM);
  EXPECT_THAT(job.finish().all(), Not(HasSubstr("bound")));
}

TEST_F(Binding, KeepsToTheMaskItIsStartedWith) {
  const BoundThread last({&processors.back(), 1});
  const Json json = Json::parse(place.output_of({"doctor", "--json"}));
  EXPECT_EQ(json["processors"], 1);
  EXPECT_EQ(json["cores"], 1);
  EXPECT_EQ(json["binding"], "pinned to core " + std::to_string(processors.back()));
}

TEST_F(Binding, ARefusalIsAWarning) {
  ProgramOptions options;
  options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"), "ATHANOR_FAULT=bind:none"};
  const Outcome outcome = place.run(
      train_arguments("t", {"train.steps=1", "train.threads=" + std::to_string(processors.size())}), options);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.all(), HasSubstr("cannot bind a thread to"));
  const Json json = Json::parse(place.output_of({"doctor", "--json"}, options));
  EXPECT_THAT(json["binding"].get<std::string>(), HasSubstr("not bound: cannot bind a thread to"));
}

}  // namespace
}  // namespace athanor::tests::binding_test
