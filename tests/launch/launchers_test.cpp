// Environments as launchers were seen to set them, and what is read out of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "athanor/base/error.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/launch/environment/slurm.h"

namespace athanor::tests::launchers_test {
namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

VariableLookup lookup(const Environment& environment) {
  return [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

// A task of srun -N2 -n4, which Slurm puts 3 + 1.
Environment srun_task(int task, int local, int node) {
  return {{"SLURM_JOB_ID", "4242"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", std::to_string(task)},
          {"SLURM_LOCALID", std::to_string(local)},
          {"SLURM_NODEID", std::to_string(node)},
          {"SLURM_NTASKS", "4"},
          {"SLURM_NNODES", "2"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
          {"SLURM_STEP_NODELIST", "gpu[07-08]"},
          {"SLURM_GTIDS", "0,1,2"}};
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

const Environment kSbatchBody = {{"SLURM_JOB_ID", "7"},
                                 {"SLURM_JOB_NODELIST", "n[1-2]"},
                                 {"SLURM_NNODES", "2"},
                                 {"SLURM_NTASKS", "4"},
                                 {"SLURM_TASKS_PER_NODE", "2(x2)"},
                                 {"SLURM_NTASKS_PER_NODE", "2"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_LOCALID", "0"},
                                 {"SLURM_NODEID", "0"}};

struct Recorded {
  const char* what;
  Environment environment;
  int rank, world_size, local_rank, local_world_size;
  std::string address;
  int port;
  std::string believed;  // a part of it; "": nothing is said
};

const int kJob4242 = 15000 + 7 * 4242 % 15000;

const Recorded kRecorded[] = {
    {"the body of sbatch is one process", kSbatchBody, 0, 1, 0, 1, "", 29500,
     "no task of srun: it trains alone"},
    {"a shell of salloc",
     {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "1"}, {"SLURM_JOB_NODELIST", "n1"}},
     0,
     1,
     0,
     1,
     "",
     29500,
     ""},
    {"srun, first of uneven nodes", srun_task(2, 2, 0), 2, 4, 2, 3, "gpu07", kJob4242,
     "SLURM_PROCID 2, SLURM_STEP_NUM_TASKS 4"},
    {"srun, second of uneven nodes", srun_task(3, 0, 1), 3, 4, 0, 1, "gpu07", kJob4242, "as Slurm says"},
    {"srun, with an address of the user's",
     with(srun_task(3, 0, 1), {{"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "1234"}}), 3, 4, 0, 1, "10.0.0.7",
     1234, "Slurm"},
    {"srun of one task", with(srun_task(0, 0, 0), {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "1"}}), 0,
     1, 0, 1, "", 29500, ""},
    {"srun with little said, on one node",
     {{"SLURM_PROCID", "1"},
      {"SLURM_NTASKS", "2"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_STEP_NODELIST", "localhost"}},
     1,
     2,
     1,
     2,
     "127.0.0.1",
     29500,
     "SLURM_PROCID 1"},
    {"srun --mpi=pmix", with(srun_task(1, 1, 0), {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}}),
     1, 4, 1, 3, "gpu07", kJob4242, "PMIX_RANK 1"},
    {"srun --mpi=pmi2", with(srun_task(3, 0, 1), {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), 3, 4, 0, 1, "gpu07",
     kJob4242, "PMI_RANK 3"},
    {"mpirun of Open MPI",
     {{"OMPI_COMM_WORLD_RANK", "3"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"OMPI_COMM_WORLD_NODE_RANK", "1"},
      {"PMIX_RANK", "3"}},
     3,
     4,
     1,
     2,
     "",
     29500,
     "Open MPI"},
    {"mpirun inside Slurm, whose PROCID is the node",
     with(srun_task(1, 0, 1), {{"SLURM_STEP_NUM_TASKS", "2"},
                               {"SLURM_NTASKS", "2"},
                               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                               {"OMPI_COMM_WORLD_RANK", "2"},
                               {"OMPI_COMM_WORLD_SIZE", "4"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
     2, 4, 0, 2, "gpu07", kJob4242, "OMPI_COMM_WORLD_RANK 2"},
    {"mpiexec of MPICH on one host",
     {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
     1,
     2,
     1,
     2,
     "127.0.0.1",
     29500,
     "PMI_RANK 1"},
    {"Intel MPI on several",
     {{"PMI_RANK", "4"},  // partitioned to two hosts in turn
      {"PMI_SIZE", "6"},
      {"MPI_LOCALRANKID", "2"},
      {"MPI_LOCALNRANKS", "3"},
      {"MASTER_ADDR", "h0"}},
     4,
     6,
     2,
     3,
     "h0",
     29500,
     "PMI"},
    {"Flux",
     {{"FLUX_TASK_RANK", "2"},
      {"FLUX_JOB_SIZE", "3"},
      {"FLUX_TASK_LOCAL_ID", "0"},
      {"FLUX_JOB_NNODES", "2"},
      {"PMI_RANK", "2"},
      {"PMI_SIZE", "3"},
      {"MASTER_ADDR", "f0"}},
     2,
     3,
     0,
     2,
     "f0",
     29500,
     "PMI"},
    {"LSF's jsrun",
     {{"JSM_NAMESPACE_RANK", "1"},
      {"JSM_NAMESPACE_SIZE", "2"},
      {"JSM_NAMESPACE_LOCAL_RANK", "1"},
      {"JSM_NAMESPACE_LOCAL_SIZE", "2"}},
     1,
     2,
     1,
     2,
     "127.0.0.1",
     29500,
     "LSF"},
    {"torchrun, whose agent has the port",
     {{"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "1"},
      {"MASTER_ADDR", "t0"},
      {"MASTER_PORT", "29400"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     3,
     4,
     1,
     2,
     "t0",
     29401,
     "RANK 3, WORLD_SIZE 4"},
    {"torchrun in each task of srun",
     with(srun_task(1, 0, 1), {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "t0"}}),
     5, 8, 1, 4, "t0", 29500, "RANK 5"},
    {"a script that took RANK from Slurm",
     with(srun_task(2, 2, 0), {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "gpu07"}}), 2, 4, 2, 3,
     "gpu07", 29500, "RANK 2"},
    {"a pod of a PyTorchJob",
     {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}},
     1,
     3,
     0,
     1,
     "job-master-0",
     23456,
     "RANK 1"},
    {"a pod of Volcano's pytorch plug-in",
     {{"RANK", "2"},
      {"WORLD_SIZE", "3"},
      {"VC_TASK_INDEX", "1"},
      {"VC_WORKER_NUM", "2"},
      {"MASTER_ADDR", "vc-master-0"}},
     2,
     3,
     0,
     1,
     "vc-master-0",
     29500,
     "WORLD_SIZE 3"},
    {"a pod of a TrainJob, with one rank",
     {{"PET_NNODES", "2"},
      {"PET_NODE_RANK", "1"},
      {"PET_NPROC_PER_NODE", "1"},
      {"JOB_COMPLETION_INDEX", "1"},
      {"PET_MASTER_ADDR", "a-node-0-0.a"},
      {"PET_MASTER_PORT", "29500"}},
     1,
     2,
     0,
     1,
     "a-node-0-0.a",
     29500,
     "PET_NODE_RANK 1"},
    {"a TrainJob of one pod",
     {{"PET_NNODES", "1:1"}, {"PET_NPROC_PER_NODE", "auto"}, {"JOB_COMPLETION_INDEX", "0"}},
     0,
     1,
     0,
     1,
     "",
     29500,
     ""},
};

TEST(Launchers, AreReadAsRecorded) {
  for (const Recorded& recorded : kRecorded) {
    SCOPED_TRACE(recorded.what);
    const RankEnvironment place = parse_rank_environment(lookup(recorded.environment));
    EXPECT_EQ(place.rank, recorded.rank);
    EXPECT_EQ(place.world_size, recorded.world_size);
    EXPECT_EQ(place.local_rank, recorded.local_rank);
    EXPECT_EQ(place.local_world_size, recorded.local_world_size);
    EXPECT_EQ(place.master_address, recorded.address);
    if (place.world_size > 1) {
      EXPECT_EQ(place.master_port, recorded.port);
    }
    EXPECT_THAT(place.believed, HasSubstr(recorded.believed));
    EXPECT_EQ(place.believed.empty(), recorded.believed.empty());
  }
}

std::string refusal(const Environment& environment) {
  try {
    parse_rank_environment(lookup(environment));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Launchers, AreRefusedByName) {
  const std::pair<Environment, std::vector<std::string>> cases[] = {
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}, {"SLURM_PROCID is 1", "SLURM_STEP_NUM_TASKS"}},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}, {"SLURM_PROCID is not"}},
      {with(srun_task(1, 1, 0), {{"SLURM_STEP_TASKS_PER_NODE", "2(x2"}}),
       {"SLURM_STEP_TASKS_PER_NODE: got \"2(x2\""}},
      {with(srun_task(1, 1, 0), {{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}),
       {"SLURM_STEP_TASKS_PER_NODE is \"2(x3)\"", "4 tasks on 2 nodes"}},
      {with(srun_task(1, 1, 0), {{"SLURM_HET_SIZE", "2"}}), {"SLURM_HET_SIZE"}},
      {{{"PMIX_RANK", "1"}}, {"PMIX_RANK is 1"}},
      {{{"PMI_RANK", "1"}}, {"PMI_RANK is 1, but PMI_SIZE is not set"}},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {"PMI_RANK 1, PMI_SIZE 2", "MASTER_ADDR"}},
      {{{"PALS_RANKID", "0"}}, {"PALS_RANKID is 0", "PMI_SIZE"}},
      {{{"FLUX_JOB_SIZE", "2"}}, {"FLUX_TASK_RANK is not set"}},
      {{{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, {"OMPI_COMM_WORLD_RANK: got \"4\""}},
      {{{"PET_NNODES", "2:4"}, {"PET_NODE_RANK", "0"}}, {"PET_NNODES: got \"2:4\""}},
      {{{"PET_NNODES", "2"}}, {"PET_NODE_RANK is not"}},
      {{{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_NPROC_PER_NODE", "4"}},
       {"PET_NPROC_PER_NODE is 4"}},
      {{{"JOB_COMPLETION_INDEX", "1"}}, {"JOB_COMPLETION_INDEX is 1"}},
      // Conflicts name both.
      {with(srun_task(1, 1, 0), {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
       {"RANK 0, WORLD_SIZE 2", "SLURM_PROCID 1, SLURM_STEP_NUM_TASKS 4"}},
      {{{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "a"},
        {"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "4"}},
       {"RANK 1, WORLD_SIZE 2", "OMPI_COMM_WORLD_RANK 0"}},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}},
       {"OMPI_COMM_WORLD_RANK 0", "PMI_RANK 1"}},
  };
  for (const auto& [environment, words] : cases)
    for (const std::string& word : words) EXPECT_THAT(refusal(environment), HasSubstr(word));
}

TEST(Launchers, SayWhichNodeALauncherIs) {
  const auto node = [](const Environment& environment) {
    return parse_node_environment(lookup(environment));
  };
  EXPECT_FALSE(node({}));
  EXPECT_FALSE(node(kSbatchBody));
  EXPECT_FALSE(node({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}}))
      << "a rank of another launcher";
  const Environment one_a_node = {
      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  auto found = node(with(srun_task(1, 0, 1), one_a_node));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, 1);
  EXPECT_EQ(found->num_nodes, 2);
  EXPECT_EQ(found->master_address, "gpu07");
  EXPECT_THAT(found->believed, HasSubstr("SLURM_PROCID 1"));
  found = node(
      {{"PET_NNODES", "3"}, {"PET_NODE_RANK", "2"}, {"PET_NPROC_PER_NODE", "4"}, {"PET_MASTER_ADDR", "p0"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, 2);
  EXPECT_EQ(found->num_nodes, 3);
  EXPECT_EQ(found->ranks, 4);
  EXPECT_EQ(found->master_address, "p0");
  found = node({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}, {"MASTER_PORT", "23456"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, 1);
  EXPECT_EQ(found->num_nodes, 2);
  EXPECT_EQ(found->master_port, 23456);
  try {
    node(srun_task(1, 1, 0));
    FAIL() << "three launchers on one node";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Slurm has started 3 processes on this node"));
  }
}

TEST(Slurm, ReadsItsListsOfHosts) {
  const std::pair<const char*, const char*> lists[] = {
      {"localhost", "localhost"},     {"n[1-2]", "n1"},      {"node[01-03,7],other", "node01"},
      {"node[007,1]", "node007"},     {"a,b[01,03],c", "a"}, {"rack[0-1]_blade[4-5]", "rack0_blade4"},
      {"g4-[1-4].site", "g4-1.site"}, {"x[3]", "x3"},        {"n1,n2", "n1"},
  };
  for (const auto& [list, host] : lists) EXPECT_EQ(first_host(list, "L"), host) << list;
  for (const char* list : {"", ",a", "n[", "n[1", "n[]", "n]1", "n[-3]"})
    EXPECT_THROW(first_host(list, "L"), ConfigError) << list;
}

TEST(Slurm, ReadsTasksOfNodes) {
  EXPECT_EQ(parse_tasks_per_node("2(x3),1", "T"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_tasks_per_node("4", "T"), (std::vector<int>{4}));
  EXPECT_EQ(parse_tasks_per_node("3,1(x2),2", "T"), (std::vector<int>{3, 1, 1, 2}));
  for (const char* text : {"", ",", "0", "2(", "2(x", "2(x)", "2(x0)", "2(x1", "2(x2)3", "1,", "x", "-1",
                           "1 ", "99999999999", "1(x9999999)"})
    EXPECT_THROW(parse_tasks_per_node(text, "T"), ConfigError) << text;
}

}  // namespace
}  // namespace athanor::tests::launchers_test
