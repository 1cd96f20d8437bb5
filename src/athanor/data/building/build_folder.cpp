#include "athanor/data/building/build_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor::data::building {
namespace {

constexpr const char* kDoor = "door.lock";
constexpr const char* kAtWork = "at_work.lock";
constexpr const char* kKey = "key";
constexpr uint64_t kMaxRecordBytes = uint64_t{256} << 20;  // of a group; left-out files are listed in it

}  // namespace

BuildFolder::BuildFolder(Env& env, std::string folder, const std::string& key,
                         const BuildFolderOptions& options)
    : env_(env), folder_(std::move(folder)), options_(options) {
  while (!enter(key)) {
    // Whoever works there needs the door to leave, so it is not held while waiting.
    if (env_.is_folder(folder_)) const FileLock all_have_left(path(kAtWork), options_.on_wait, options_.stop);
  }
}

// False where others must leave first, or the folder was removed meanwhile.
bool BuildFolder::enter(const std::string& key) {
  env_.create_folders(folder_);
  env_.sync_folder(parent_folder(folder_));  // or a power cut takes the folder with all parts in it
  const FileLock door(path(kDoor), {}, options_.stop);
  if (!door.is_current()) return false;
  const bool has_key = env_.exists(path(kKey));
  if (!key.empty() && has_key && !is_published() && env_.read_text(path(kKey)) == key) {
    at_work_ = FileLock::try_lock(path(kAtWork), FileLock::Mode::shared);
    if (at_work_ != nullptr) begin_ = Begin::goes_on;
    return at_work_ != nullptr;
  }
  at_work_ = FileLock::try_lock(path(kAtWork));
  if (at_work_ == nullptr) return false;
  begin_ = has_key && !is_published() && num_parts_done() > 0 ? Begin::anew : Begin::fresh;
  empty();
  if (key.empty()) return true;
  env_.write_atomically(path(kKey), key);
  at_work_.reset();
  at_work_ = std::make_unique<FileLock>(path(kAtWork), std::function<void()>(), options_.stop,
                                        FileLock::Mode::shared);
  return true;
}

// The key goes first: what is left by a kill meanwhile is nobody's.
void BuildFolder::empty() const {
  env_.remove_all(path(kKey));
  for (const std::string& name : env_.list(folder_))
    if (name != kDoor && name != kAtWork) env_.remove_all(path(name));
}

BuildFolder::~BuildFolder() {
  try {
    const FileLock door(path(kDoor), {});
    at_work_.reset();
    const auto alone = FileLock::try_lock(path(kAtWork));
    const bool is_worth_keeping = env_.exists(path(kKey)) && !is_published() && num_parts_done() > 0;
    if (alone != nullptr && !is_worth_keeping) env_.remove_all(folder_);
  } catch (const Failure&) {  // the next build finds it and goes on from there
  }
}

int64_t BuildFolder::num_parts_done() const {
  int64_t count = 0;
  for (const std::string& name : env_.list(folder_))
    count += name.starts_with("part-") && name.ends_with(".idx");
  return count;
}

std::string BuildFolder::part_prefix(int64_t group, int64_t part) const {
  return path(fmt::format("part-{:06}-{:06}", group, part));
}

std::string BuildFolder::group_name(int64_t group) const {
  return path(fmt::format("group-{:06}", group));
}

std::unique_ptr<FileLock> BuildFolder::try_part(int64_t group, int64_t part) const {
  return FileLock::try_lock(part_prefix(group, part) + ".lock");
}

void BuildFolder::wait_for_part(int64_t group, int64_t part) const {
  const FileLock lock(part_prefix(group, part) + ".lock", options_.on_wait, options_.stop);
}

std::unique_ptr<FileLock> BuildFolder::try_group(int64_t group) const {
  return FileLock::try_lock(group_name(group) + ".lock");
}

FileLock BuildFolder::lock_publishing() const {
  return {path("publish.lock"), options_.on_wait, options_.stop};
}

std::optional<GroupRecord> BuildFolder::group(int64_t group) const {
  const std::string name = group_name(group) + ".json";
  if (!env_.exists(name)) return std::nullopt;
  const std::string text = env_.read_text(name, kMaxRecordBytes);
  try {
    const auto json = nlohmann::json::parse(text);
    return GroupRecord{json.at("parts").get<int64_t>(),
                       parse_token_file_info(json.at("info").get<std::string>(), name)};
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("'{}': is damaged: {}", name, error.what()),
                fmt::format("remove the folder {} and build again", folder_));
  }
}

void BuildFolder::save_group(int64_t group, const GroupRecord& record) const {
  const nlohmann::json json = {{"parts", record.parts}, {"info", token_file_info_json(record.info)}};
  env_.write_atomically(group_name(group) + ".json", json.dump() + "\n");
}

void BuildFolder::mark_published() const {
  env_.create(path("published"))->close();
}

}  // namespace athanor::data::building
