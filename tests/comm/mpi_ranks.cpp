// One rank of a world that mpirun has started: makes every call, or fails as it is told, and says what came of it.
//
//   mpirun -np 3 mpi_ranks athanor_mpi.so every_call|mismatch|abort
#include <fmt/core.h>

#include <vector>

#include "athanor/base/error.h"
#include "athanor/comm/network/mpi/mpi.h"
#include "athanor/comm/shm/forked_ranks.h"
#include "comm/every_call.h"

namespace athanor::tests {
namespace {

void run(const std::string& module, const std::string& what) {
  GroupOptions options;
  options.timeout_ms = 600'000;
  const auto world = make_mpi_world(module, options);
  Group& group = world->all();
  std::vector<float> data(10);
  group.barrier("start");
  if (what == "every_call") {
    const std::string wrong = try_every_call(group);
    if (!wrong.empty()) throw Error(wrong);
    std::vector<int> members;
    for (int r = group.rank() % 2; r < group.size(); r += 2) members.push_back(r);
    const auto half = world->make_group(members, "half");
    const std::string wrong_half = try_every_call(*half);
    if (!wrong_half.empty()) throw Error("half: " + wrong_half);
  } else if (what == "mismatch" && group.rank() == 1) {
    group.all_gather(data.data(), data.data(), 3, Dtype::f32, "wrong").wait();
  } else {
    if (what == "abort" && group.rank() == 1) group.abort("disk full");
    group.all_reduce(data.data(), 10, Dtype::f32, "grads").wait();
  }
}

}  // namespace
}  // namespace athanor::tests

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string text = athanor::outcome_of([&] { athanor::tests::run(argv[1], argv[2]); });
  fmt::print("outcome: {}\n", text.empty() ? "fine" : text);
  return text.empty() ? 0 : 1;
}
