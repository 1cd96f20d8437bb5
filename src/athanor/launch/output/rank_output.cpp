#include "athanor/launch/output/rank_output.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "athanor/base/human.h"

namespace athanor::launch::output {

namespace {

constexpr int64_t kHoldNs = 300'000'000;
constexpr int64_t kTellNs = 5'000'000'000;  // between two lines about what is left out
constexpr size_t kLatestLines = 100;
constexpr size_t kLastLines = 12;
constexpr size_t kPieceBytes = 4096;  // that are shown or left out as one
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
    : write_(std::move(write)), ranks_(static_cast<size_t>(num_ranks)) {}

void RankOutput::add(int rank, std::string_view bytes, int64_t now_ns) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  one.tail.add(bytes);
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, kPieceBytes);
    if (one.cut_off) {
      const size_t end = piece.find('\n');
      if (end != std::string_view::npos) piece = piece.substr(0, end + 1);
    }
    if (!one.allowance.take(piece, now_ns)) {
      leave_out(rank, bytes.size(), now_ns);
      one.cut_off = bytes.back() != '\n';
      return;
    }
    bytes.remove_prefix(piece.size());
    if (!one.cut_off) {
      show(rank, piece, now_ns);
      continue;
    }
    leave_out(rank, piece.size(), now_ns);
    one.cut_off = piece.back() != '\n';
  }
}

void RankOutput::show(int rank, std::string_view bytes, int64_t now_ns) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  if (rank == 0) {
    write_(bytes);
    one.in_line = bytes.back() != '\n';
  }
  one.lines.add(bytes, [&](std::string line) { add_line(rank, std::move(line), now_ns); });
}

void RankOutput::leave_out(int rank, size_t size_bytes, int64_t now_ns) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  one.lines.end([&](std::string line) { add_line(rank, std::move(line), now_ns); });
  if (one.bytes_left_out == 0) {
    ++num_cut_off_;
    one.tell_at_ns = std::max(one.tell_at_ns, now_ns + kHoldNs);
  }
  one.bytes_left_out += size_bytes;
}

size_t RankOutput::leave_out_of(int rank, size_t size_bytes, int64_t now_ns) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  if (size_bytes <= kTailBytes || std::cmp_less_equal(size_bytes, one.allowance.left(now_ns))) return 0;
  leave_out(rank, size_bytes - kTailBytes, now_ns);
  one.cut_off = true;
  return size_bytes - kTailBytes;
}

void RankOutput::tell_left_out(int rank) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  if (one.bytes_left_out == 0) return;
  --num_cut_off_;
  write_(fmt::format("{}{}{} of its output are not shown: it writes too fast\n",
                     ranks_[0].in_line ? "\n" : "", mark({rank}),
                     human_bytes(static_cast<double>(std::exchange(one.bytes_left_out, 0)))));
  ranks_[0].in_line = false;
}

void RankOutput::end_of(int rank, int64_t now_ns) {
  ranks_[static_cast<size_t>(rank)].lines.end(
      [&](std::string line) { add_line(rank, std::move(line), now_ns); });
}

void RankOutput::begin(int rank, int64_t now_ns) {
  const auto size = static_cast<size_t>(rank) + 1;
  if (ranks_.size() < size) ranks_.resize(size);
  end_of(rank, now_ns);
  ranks_[size - 1].tail.clear();
  ranks_[size - 1].cut_off = false;
  if (rank > 0) return;
  latest_.clear();
  counts_.clear();
}

void RankOutput::add_line(int rank, std::string line, int64_t now_ns) {
  if (rank == 0)
    remember(line);
  else
    held_.add(rank, std::move(line), now_ns);
}

void RankOutput::remember(const std::string& line) {
  const size_t hash = std::hash<std::string>()(line);
  latest_.push_back(hash);
  ++counts_[hash];
  if (latest_.size() <= kLatestLines) return;
  const auto oldest = counts_.find(latest_.front());
  if (--oldest->second == 0) counts_.erase(oldest);
  latest_.pop_front();
}

void RankOutput::flush(int64_t now_ns, bool everything) {
  held_.take(everything ? std::numeric_limits<int64_t>::max() : now_ns - kHoldNs,
             [&](const HeldLines::Line& line) {
               if (counts_.contains(std::hash<std::string>()(*line.text))) return;
               write_(mark(line.ranks) + *line.text + "\n");
             });
  if (num_cut_off_ == 0) return;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    Rank& one = ranks_[static_cast<size_t>(rank)];
    if (!everything && now_ns < one.tell_at_ns) continue;
    tell_left_out(rank);
    one.tell_at_ns = now_ns + kTellNs;
  }
}

int RankOutput::drop_held_but_of(int rank) {
  int count = 0;
  held_.take(std::numeric_limits<int64_t>::max(), [&](const HeldLines::Line& line) {
    const bool is_its = std::find(line.ranks.begin(), line.ranks.end(), rank) != line.ranks.end();
    if (!is_its) ++count;
    if (is_its && !counts_.contains(std::hash<std::string>()(*line.text)))
      write_(mark(line.ranks) + *line.text + "\n");
  });
  return count;
}

std::string RankOutput::tail(int rank) const {
  return ranks_[static_cast<size_t>(rank)].tail.text();
}

RankOutput::LastWords RankOutput::last_words(int rank) const {
  const LogTail& tail = ranks_[static_cast<size_t>(rank)].tail;
  std::vector<std::string> latest;
  LineCutter cutter;
  const auto take = [&](std::string line) { latest.push_back(std::move(line)); };
  cutter.add(tail.text(), take);
  cutter.end(take);
  if (tail.is_cut() && latest.size() > 1) latest.erase(latest.begin());  // the end of a line
  LastWords words;
  for (size_t i = latest.size(); i-- > 0 && words.error.empty();) {
    if (!latest[i].starts_with(kErrorPrefix)) continue;
    words.error = latest[i].substr(kErrorPrefix.size());
    const bool has_hint = i + 1 < latest.size() && latest[i + 1].starts_with(kHintPrefix);
    if (has_hint) words.hint = latest[i + 1].substr(kHintPrefix.size());
    const auto at = latest.begin() + static_cast<std::ptrdiff_t>(i);
    latest.erase(at, at + (has_hint ? 2 : 1));
  }
  const size_t first = latest.size() - std::min(latest.size(), kLastLines);
  words.lines.assign(latest.begin() + static_cast<std::ptrdiff_t>(first), latest.end());
  return words;
}

}  // namespace athanor::launch::output
