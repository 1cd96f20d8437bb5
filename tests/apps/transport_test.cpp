// Training over the other transports: real mpirun, Gloo's TCP, two launchers as of two hosts. What comes out has the
// bits of ranks that share a segment.
#include <gtest/gtest.h>

#include <cstdlib>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::transport_test {
namespace {

const std::vector<std::string> kShort = {"train.steps=6", "train.eval_every=3"};

class Transport : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    train(place, "shm", kShort, 4);
  }
  void expect_the_bits_of_shm(const std::string& name) {
    EXPECT_EQ(history(place, name), history(place, "shm"));
  }
  Workplace place;
};

TEST_F(Transport, Mpirun) {
  if (std::system("command -v mpirun >/dev/null") != 0)
    GTEST_SKIP() << "no mpirun here: scripts/install-deps.sh installs Open MPI";
  std::string command =
      "cd " + place.path(".") +
      " && timeout 900 env -u RANK -u WORLD_SIZE mpirun --allow-run-as-root --oversubscribe "
      "-np 4 " +
      built("athanor");
  for (const auto& argument : train_arguments("mpi", kShort)) command += " '" + argument + "'";
  EXPECT_EQ(std::system((command + " >mpi.out 2>&1 </dev/null").c_str()), 0) << place.read("mpi.out");
  expect_the_bits_of_shm("mpi");
}

TEST_F(Transport, GlooOnOneHost) {
  auto sets = kShort;
  sets.emplace_back("parallel.transport=gloo");
  ProgramOptions options;
  options.environment = {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + reserved_port()};
  const Outcome outcome = place.run(launch_arguments(4, "gloo", sets), options);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  expect_the_bits_of_shm("gloo");
}

// Two launchers of two ranks: shared memory inside each, Gloo between them.
TEST_F(Transport, TwoNodes) {
  const std::string master = "127.0.0.1:" + reserved_port();
  const auto node = [&](const std::string& number) {
    auto arguments = launch_arguments(2, "nodes", kShort);
    arguments.insert(arguments.begin() + 1, {"--nodes", "2", "--node", number, "--master", master});
    return arguments;
  };
  Program second = place.start(node("1"));
  const Outcome first = place.run(node("0")), other = second.finish();
  EXPECT_EQ(first.exit_code, 0) << first.all();
  EXPECT_EQ(other.exit_code, 0) << other.all();
  expect_the_bits_of_shm("nodes");
}

TEST_F(Transport, WhatIsMissingIsSaid) {
  expect_refused(place.run(launch_arguments(2, "x", {"parallel.transport=mpi"})), 2, {"has no mpirun"});
  expect_refused(place.run(launch_arguments(2, "x", {"parallel.transport=gloo"})), 2, {"has no MASTER_ADDR"});
  expect_refused(place.run(train_arguments("x", {"parallel.transport=tcp"})), 2, {"parallel.transport"});
  auto arguments = launch_arguments(2, "x");
  arguments.insert(arguments.begin() + 1, {"--nodes", "2"});
  expect_refused(place.run(arguments), 2, {"--node -1 of 2, expected 0 to 1"});
  arguments[2] = "2:4";
  expect_refused(place.run(arguments), 2, {"--nodes 2:4, expected a number of nodes"});
}

}  // namespace
}  // namespace athanor::tests::transport_test
