#include "athanor/run/processor_share.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "athanor/base/hash.h"
#include "athanor/run/report.h"

namespace athanor::run {
namespace {

constexpr size_t kBits = 64, kMaskWords = 64;  // processors above 4,095 count as one that nobody shares

struct Said {
  uint64_t host = 0;
  std::array<uint64_t, kMaskWords> mask{};
};
constexpr int64_t kSaidWords = sizeof(Said) / sizeof(int64_t);

bool overlap(const Said& a, const Said& b) {
  bool both = false;
  for (size_t i = 0; i < kMaskWords; ++i) both = both || (a.mask[i] & b.mask[i]) != 0;
  return a.host == b.host && both;
}

}  // namespace

ProcessorShare share_of_processors(Group& group, std::string_view host, std::span<const Core> mine) {
  Said said{.host = hash64(host)};
  if (mine.empty()) said.mask.fill(~uint64_t{0});
  for (const Core& core : mine)
    for (const int processor : core.processors) {
      const auto bit = static_cast<size_t>(processor);
      if (bit < kBits * kMaskWords) said.mask[bit / kBits] |= uint64_t{1} << (bit % kBits);
    }
  std::vector<Said> all(static_cast<size_t>(group.size()));
  group.all_gather(&said, all.data(), kSaidWords, Dtype::i64, "processors").wait();
  ProcessorShare share{.ranks = 0};
  for (int rank = 0; rank < group.size(); ++rank) {
    const bool shares = rank == group.rank() || overlap(said, all[static_cast<size_t>(rank)]);
    if (shares && rank < group.rank()) ++share.rank;
    if (shares) ++share.ranks;
  }
  return share;
}

std::string host_identity() {
  std::string kernel;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), kernel);
  return host_name() + " " + kernel;
}

}  // namespace athanor::run
