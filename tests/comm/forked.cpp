#include "comm/forked.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace athanor::tests {
namespace {

// `Member` is Group or World.
template <typename Member>
std::vector<std::string> outcomes_of(const std::vector<std::unique_ptr<Member>>& members,
                                     const std::function<void(Member&)>& body,
                                     std::vector<std::unique_ptr<Member>>* destroy) {
  std::vector<std::string> texts(members.size());
  std::vector<std::thread> threads;
  threads.reserve(members.size());
  for (size_t r = 0; r < members.size(); ++r)
    threads.emplace_back([&, r] {
      texts[r] = outcome_of([&] { body(*members[r]); });
      if (destroy != nullptr) (*destroy)[r].reset();
    });
  for (auto& thread : threads) thread.join();
  return texts;
}

}  // namespace

std::vector<std::string> outcomes_of_ranks(const std::vector<std::unique_ptr<Group>>& groups,
                                           const std::function<void(Group&)>& body,
                                           std::vector<std::unique_ptr<Group>>* destroy) {
  return outcomes_of(groups, body, destroy);
}

std::vector<std::string> outcomes_of_ranks(const std::vector<std::unique_ptr<World>>& worlds,
                                           const std::function<void(World&)>& body,
                                           std::vector<std::unique_ptr<World>>* destroy) {
  return outcomes_of(worlds, body, destroy);
}

TestRanks::TestRanks(int size, const std::function<void(int rank)>& body)
    : ForkedRanks(size, [&body](int rank) {
        body(rank);
        if (::testing::Test::HasFailure()) throw std::runtime_error("an expectation failed");
      }) {}

}  // namespace athanor::tests
