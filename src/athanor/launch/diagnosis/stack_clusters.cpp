#include "athanor/launch/diagnosis/stack_clusters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace athanor::launch::diagnosis {
namespace {

constexpr size_t kInnermost = 2;  // frames that may differ

// Of a state that is the reason in itself; else nothing.
char cause_in(char state) {
  return state == 'T' || state == 't' || state == 'D' || state == 'Z' ? state : '-';
}

// The innermost frames of a rank that waits for others: from the call that entered `in`, by whatever standard function
// in between.
std::ptrdiff_t frames_within(const std::vector<std::string>& frames, const std::string& in) {
  const auto is_within = [&](const std::string& frame) { return frame.find(in) != std::string::npos; };
  const auto first = std::find_if(frames.begin(), frames.end(), is_within);
  if (first == frames.end()) return 0;
  const auto outside = std::find_if(first, frames.end(), [&](const std::string& frame) {
    return !is_within(frame) && !frame.starts_with("std::");
  });
  const auto entry = std::find_if(std::make_reverse_iterator(outside), frames.rend(), is_within);
  return entry.base() - frames.begin();
}

bool are_alike(const std::vector<std::string>& a, const std::vector<std::string>& b,
               const std::string& waits_in) {
  const auto within_a = frames_within(a, waits_in), within_b = frames_within(b, waits_in);
  if (within_a > 0 && within_b > 0)  // from the entry out, for a wait is seen at any depth
    return std::equal(a.begin() + within_a - 1, a.end(), b.begin() + within_b - 1, b.end());
  const auto [end_a, end_b] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  const auto differ = [](auto end, auto last) { return static_cast<size_t>(last - end); };
  const bool nothing_in_common = end_a == a.rbegin() && !(a.empty() && b.empty());
  return !nothing_in_common && differ(end_a, a.rend()) <= kInnermost && differ(end_b, b.rend()) <= kInnermost;
}

bool waits(const StackCluster& cluster, const std::string& in) {
  return cause_in(cluster.state) == '-' && frames_within(cluster.frames, in) > 0;
}

const char* word_of(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
      return "sleeps";
    case 'D':
      return "sleeps uninterruptibly";
    case 'T':
    case 't':
      return "is stopped";
    case 'Z':
      return "has ended";
    default:
      return "is there";
  }
}

}  // namespace

std::vector<StackCluster> cluster_stacks(const std::vector<RankStacks>& ranks, const std::string& waits_in) {
  std::vector<StackCluster> clusters;
  for (const RankStacks& rank : ranks) {
    if (rank.stacks.threads.empty()) continue;
    const ThreadStack& main = rank.stacks.threads.front();
    const auto found = std::find_if(clusters.begin(), clusters.end(), [&](const StackCluster& cluster) {
      return cause_in(cluster.state) == cause_in(main.state) &&
             are_alike(cluster.frames, main.frames, waits_in);
    });
    if (found != clusters.end())
      found->ranks.push_back(rank.rank);
    else
      clusters.push_back({{rank.rank}, main.state, main.wait_channel, main.frames});
  }
  for (StackCluster& cluster : clusters) std::sort(cluster.ranks.begin(), cluster.ranks.end());
  std::sort(clusters.begin(), clusters.end(), [](const StackCluster& a, const StackCluster& b) {
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks.front() < b.ranks.front();
  });
  return clusters;
}

std::optional<int> odd_rank(const std::vector<StackCluster>& clusters, const std::string& waits_in) {
  if (clusters.size() < 2) return std::nullopt;
  if (clusters.size() == 2 && clusters[0].ranks.size() == 1) {
    const bool first = waits(clusters[0], waits_in), second = waits(clusters[1], waits_in);
    if (first == second) return std::nullopt;
    return clusters[first ? 1 : 0].ranks.front();
  }
  const size_t least = clusters.back().ranks.size();
  if (least != 1 || clusters.front().ranks.size() == 1) return std::nullopt;
  // Of several alone, the only one that does not wait for others.
  std::vector<int> alone, at_work;
  for (const StackCluster& cluster : clusters) {
    if (cluster.ranks.size() != 1) continue;
    alone.push_back(cluster.ranks.front());
    if (!waits(cluster, waits_in)) at_work.push_back(cluster.ranks.front());
  }
  if (alone.size() == 1) return alone.front();
  return at_work.size() == 1 ? std::optional(at_work.front()) : std::nullopt;
}

std::string text_of(const std::vector<StackCluster>& clusters, size_t most_frames) {
  std::string text;
  for (const StackCluster& cluster : clusters) {
    const size_t shown = std::min(most_frames, cluster.frames.size());
    const std::vector<std::string> frames(cluster.frames.begin(),
                                          cluster.frames.begin() + static_cast<std::ptrdiff_t>(shown));
    const bool is_one = cluster.ranks.size() == 1;
    text += fmt::format("{}rank{} {}: {}{}{}", text.empty() ? "" : "\n", is_one ? "" : "s",
                        fmt::join(cluster.ranks, ", "), word_of(cluster.state),
                        cluster.wait_channel.empty() ? "" : " (" + cluster.wait_channel + ")",
                        frames.empty() ? "" : fmt::format(" in {}", fmt::join(frames, ", called by ")));
  }
  return text;
}

}  // namespace athanor::launch::diagnosis
