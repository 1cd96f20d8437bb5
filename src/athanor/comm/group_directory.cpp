#include "athanor/comm/group_directory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/comm/shm/futex.h"
#include "athanor/comm/world.h"

namespace athanor::comm {

namespace {

constexpr int64_t kDirectorySliceMs = 25;
constexpr int kMaxGroups = 4096;

struct RankSet {
  std::array<uint64_t, GroupDirectory::kMaxRanks / 64> words;
  void insert(int rank) { words[static_cast<size_t>(rank / 64)] |= uint64_t{1} << (rank % 64); }
  bool contains(int rank) const { return words[static_cast<size_t>(rank / 64)] >> (rank % 64) & 1; }
  bool intersects(const RankSet& other) const {
    for (size_t i = 0; i < words.size(); ++i)
      if ((words[i] & other.words[i]) != 0) return true;
    return false;
  }
  bool operator==(const RankSet&) const = default;
  std::vector<int> list() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < GroupDirectory::kMaxRanks; ++rank)
      if (contains(rank)) ranks.push_back(rank);
    return ranks;
  }
};

RankSet set_of(const std::vector<int>& ranks) {
  RankSet set{};
  for (const int rank : ranks) set.insert(rank);
  return set;
}

}  // namespace

struct GroupDirectory::Entry {
  uint64_t range;  // + 1; 0: free
  uint64_t name_hash;
  int32_t maker;
  RankSet members, joined, left;
};

struct GroupDirectory::Table {
  std::atomic<uint32_t> owner;  // rank + 1 of the rank that has the lock; a futex
  int32_t num_entries;          // in use or free again
  uint64_t num_ranges;
  Entry entries[kMaxGroups];
};

size_t GroupDirectory::bytes() {
  return sizeof(Table);
}

GroupDirectory::GroupDirectory(void* memory, int rank, Hooks hooks)
    : table_(static_cast<Table*>(memory)), rank_(rank), hooks_(std::move(hooks)) {}

void GroupDirectory::lock() {
  while (true) {
    uint32_t owner = 0;
    if (table_->owner.compare_exchange_strong(owner, static_cast<uint32_t>(rank_) + 1)) return;
    futex_sleep(table_->owner, owner, kDirectorySliceMs);
    const int other = static_cast<int>(owner) - 1;
    const std::string death = hooks_.death_of(other);
    if (!death.empty() && table_->owner.load() == owner)
      throw PeerLost(other, fmt::format("rank {} was lost: {}; it was making a group", other, death));
  }
}

void GroupDirectory::unlock() {
  table_->owner.store(0);
  futex_wake(table_->owner);
}

GroupDirectory::Entry* GroupDirectory::find(uint64_t range) const {
  for (int i = 0; i < table_->num_entries; ++i)
    if (table_->entries[i].range == range + 1) return &table_->entries[i];
  return nullptr;
}

// Looks for groups of this name that share a rank with `members` but have other members. Breaks them and the members'
// own group; returns the text of the conflict, or "".
std::string GroupDirectory::conflict(const std::vector<int>& members, const std::string& name) const {
  const RankSet mine = set_of(members);
  const uint64_t hash = hash64(name);
  std::string text;
  for (int i = 0; i < table_->num_entries; ++i) {
    const Entry& entry = table_->entries[i];
    if (entry.range == 0 || entry.name_hash != hash || entry.members == mine ||
        !entry.members.intersects(mine))
      continue;
    if (text.empty())
      text = fmt::format("group '{}': rank {} says its members are {}; rank {} says {}", name, entry.maker,
                         members_text(entry.members.list()), rank_, members_text(members));
    hooks_.fail(entry.range - 1, static_cast<int>(entry.members.list().size()), text);
  }
  if (text.empty()) return text;
  for (int i = 0; i < table_->num_entries; ++i)
    if (const Entry& entry = table_->entries[i];
        entry.range != 0 && entry.name_hash == hash && entry.members == mine)
      hooks_.fail(entry.range - 1, static_cast<int>(members.size()), text);
  return text;
}

uint64_t GroupDirectory::join(const std::vector<int>& members, const std::string& name) {
  const RankSet mine = set_of(members);
  const uint64_t hash = hash64(name);
  lock();
  const std::shared_ptr<void> unlocked(nullptr, [this](void*) { unlock(); });
  const std::string error = conflict(members, name);
  check(error.empty(), "{}", error);
  Entry* free = nullptr;
  for (int i = 0; i < table_->num_entries; ++i) {
    Entry& entry = table_->entries[i];
    if (entry.range == 0 && free == nullptr) free = &entry;
    if (entry.range == 0 || entry.name_hash != hash || entry.members != mine || entry.left.contains(rank_))
      continue;
    check(!entry.joined.contains(rank_), "group '{}': rank {} has it already, expected another name", name,
          rank_);
    entry.joined.insert(rank_);
    return entry.range - 1;
  }
  if (free == nullptr) {
    check(table_->num_entries < kMaxGroups, "group '{}': more than {} groups at a time", name, kMaxGroups);
    free = &table_->entries[table_->num_entries++];
  }
  const uint64_t range = table_->num_ranges++;
  hooks_.format(range, static_cast<int>(members.size()));
  *free = Entry{range + 1, hash, rank_, mine, {}, {}};
  free->joined.insert(rank_);
  return range;
}

void GroupDirectory::leave(uint64_t range) {
  lock();
  const std::shared_ptr<void> unlocked(nullptr, [this](void*) { unlock(); });
  Entry* entry = find(range);
  if (entry == nullptr) return;
  entry->left.insert(rank_);
  if (entry->left != entry->members) return;
  hooks_.release(range, static_cast<int>(entry->members.list().size()));
  entry->range = 0;
}

}  // namespace athanor::comm
