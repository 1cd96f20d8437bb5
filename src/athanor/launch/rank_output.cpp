#include "athanor/launch/rank_output.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace athanor::launch {

namespace {

constexpr int64_t kHoldNs = 300'000'000;
constexpr size_t kLatestLines = 100;
constexpr size_t kLineBytes = 8192;  // longer lines are cut in pieces
constexpr size_t kLastLines = 5;
constexpr std::string_view kErrorPrefix = "athanor: error: ", kHintPrefix = "  hint: ";

// [rank 3], [ranks 1-3], [ranks 1,3]
std::string mark(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text += end - i > 1 ? fmt::format("{}-{}", ranks[i], ranks[end - 1]) : std::to_string(ranks[i]);
    i = end;
  }
  return fmt::format("[{} {}] ", ranks.size() == 1 ? "rank" : "ranks", text);
}

}  // namespace

RankOutput::RankOutput(int num_ranks, std::function<void(std::string_view)> write)
    : write_(std::move(write)),
      unfinished_(static_cast<size_t>(num_ranks)),
      latest_(static_cast<size_t>(num_ranks)) {}

void RankOutput::add(int rank, std::string_view bytes, int64_t now_ns) {
  if (rank == 0) write_(bytes);
  std::string& line = unfinished_[static_cast<size_t>(rank)];
  for (const char c : bytes) {
    if (c == '\n' || line.size() >= kLineBytes) add_line(rank, std::exchange(line, ""), now_ns);
    if (c == '\r') line.clear();  // what follows overwrites it
    if (c != '\n' && c != '\r') line += c;
  }
}

void RankOutput::end_of(int rank, int64_t now_ns) {
  std::string& line = unfinished_[static_cast<size_t>(rank)];
  if (!line.empty()) add_line(rank, std::exchange(line, ""), now_ns);
}

void RankOutput::begin(int rank, int64_t now_ns) {
  const auto size = static_cast<size_t>(rank) + 1;
  if (latest_.size() < size) latest_.resize(size);
  if (unfinished_.size() < size) unfinished_.resize(size);
  end_of(rank, now_ns);
  latest_[size - 1].clear();
}

void RankOutput::add_line(int rank, std::string line, int64_t now_ns) {
  auto& latest = latest_[static_cast<size_t>(rank)];
  latest.push_back(line);
  if (latest.size() > kLatestLines) latest.pop_front();
  if (rank == 0) return;
  for (auto& held : held_) {
    const bool new_rank = std::find(held.ranks.begin(), held.ranks.end(), rank) == held.ranks.end();
    if (new_rank && held.line == line) {
      held.ranks.push_back(rank);
      return;
    }
  }
  held_.push_back({std::move(line), {rank}, now_ns});
}

void RankOutput::flush(int64_t now_ns, bool everything) {
  while (!held_.empty() && (everything || now_ns - held_.front().since_ns >= kHoldNs)) {
    const Held& held = held_.front();
    const auto& first = latest_[0];
    if (std::find(first.begin(), first.end(), held.line) == first.end())
      write_(mark(held.ranks) + held.line + "\n");
    held_.pop_front();
  }
}

RankOutput::LastWords RankOutput::last_words(int rank) const {
  const auto& latest = latest_[static_cast<size_t>(rank)];
  LastWords words;
  for (size_t i = latest.size(); i-- > 0 && words.error.empty();) {
    if (!latest[i].starts_with(kErrorPrefix)) continue;
    words.error = latest[i].substr(kErrorPrefix.size());
    if (i + 1 < latest.size() && latest[i + 1].starts_with(kHintPrefix))
      words.hint = latest[i + 1].substr(kHintPrefix.size());
  }
  const size_t first = latest.size() - std::min(latest.size(), kLastLines);
  words.lines.assign(latest.begin() + static_cast<std::ptrdiff_t>(first), latest.end());
  return words;
}

}  // namespace athanor::launch
