#include "athanor/data/spool/followed_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data::spool {
namespace {

constexpr const char* kNoMore = "_SUCCESS";
constexpr uint64_t kMostListBytes = uint64_t{1} << 30;

bool is_unfinished(const std::string& name) {
  return name.ends_with(".tmp") || name.ends_with(".part");
}

}  // namespace

FollowedFolder::FollowedFolder(Env& env, const std::string& spool_folder, std::string folder, ReadOptions how,
                               int64_t first_file)
    : env_(env),
      list_(join_path(spool_folder, "files.json")),
      folder_(std::move(folder)),
      how_(std::move(how)),
      next_(static_cast<size_t>(first_file)) {
  if (!env_.exists(list_)) return;
  const auto json =
      nlohmann::json::parse(env_.read_text(list_, kMostListBytes), nullptr, /*allow_exceptions=*/false);
  check(json.is_array(), "'{}': is no list of files", list_);
  for (const auto& one : json) {
    check(one.is_object() && one.contains("file") && one["file"].is_string() && one.contains("bytes") &&
              one["bytes"].is_number_unsigned(),
          "'{}': has an entry without file and bytes", list_);
    taken_.push_back({one["file"], one["bytes"]});
  }
}

bool FollowedFolder::look_for_more() {
  const bool no_more =
      env_.exists(join_path(folder_, kNoMore));  // before the list: what stood there by then is in it
  std::set<std::string> known;
  for (const Taken& one : taken_) known.insert(one.file);
  const size_t before = taken_.size();
  for (const SourceFile& file : list_sources(env_, folder_).files)
    if (!is_unfinished(file.relative) && file.relative != kNoMore && !known.contains(file.relative))
      taken_.push_back({file.relative, file.size_bytes});
  if (taken_.size() == before) return no_more;
  auto json = nlohmann::ordered_json::array();
  for (const Taken& one : taken_) json.push_back({{"file", one.file}, {"bytes", one.bytes}});
  env_.write_atomically(list_, json.dump());
  return false;
}

SpoolSource::Got FollowedFolder::read(const TakeRecord& take) {
  if (next_ >= taken_.size() && look_for_more()) return Got::end;
  if (next_ >= taken_.size()) return Got::nothing_yet;
  const Taken& one = taken_[next_];
  const std::string path = join_path(folder_, one.file);
  std::error_code code;
  const uint64_t bytes = std::filesystem::file_size(path, code);
  check(!code, "'{}': was taken into '{}' and is gone, expected it to stay until it was read", path, list_);
  check(bytes == one.bytes,
        "'{}': has {} bytes, but had {} when it was taken; write a file under another name and rename it",
        path, bytes, one.bytes);
  read_file_documents(env_,
                      {.path = path, .relative = one.file, .size_bytes = bytes, .may_be_left_out = true},
                      how_, [&](std::string_view text, const DocumentPlace& place) {
                        take(text, {.source = static_cast<int64_t>(next_), .record = place.record},
                             fmt::format("'{}' line {}", path, place.line));
                      });
  ++next_;
  return Got::records;
}

}  // namespace athanor::data::spool
