#include "athanor/data/spool/spool_folder.h"

#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/file_lock.h"

namespace athanor::data::spool {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{1} << 20;

std::string name_of(const std::string& folder, int64_t window) {
  return window_prefix(folder, window) + ".json";
}

Json read_json(Env& env, const std::string& path) {
  Json json = Json::parse(env.read_text(path, kMostBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw Error(fmt::format("'{}': is no JSON object", path), "remove the folder of the spool");
  return json;
}

int64_t number_in(const Json& json, const char* key, const std::string& path) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer() || found->get<int64_t>() < 0)
    throw Error(fmt::format("'{}': '{}' is no number from 0", path, key), "remove the folder of the spool");
  return found->get<int64_t>();
}

}  // namespace

std::string window_prefix(const std::string& folder, int64_t window) {
  return join_path(folder, fmt::format("window-{:06}", window));
}

std::optional<int64_t> window_of(const std::string& file_name) {
  constexpr std::string_view kName = "window-";
  if (!file_name.starts_with(kName)) return std::nullopt;
  int64_t window = 0;
  const char* const last = file_name.data() + file_name.size();
  const auto [end, error] = std::from_chars(file_name.data() + kName.size(), last, window);
  if (error != std::errc() || std::string_view(end, last) != ".bin") return std::nullopt;
  return window;
}

std::optional<SpoolWindow> read_window(Env& env, const std::string& folder, int64_t window) {
  const std::string path = name_of(folder, window);
  if (!env.exists(path)) return std::nullopt;
  const Json json = read_json(env, path);
  return SpoolWindow{.sequences = number_in(json, "sequences", path),
                     .next = {.source = number_in(json, "next_source", path),
                              .record = number_in(json, "next_record", path),
                              .token = number_in(json, "next_token", path)}};
}

void write_window(Env& env, const std::string& folder, int64_t window, const SpoolWindow& written) {
  env.write_atomically(name_of(folder, window), Json{{"sequences", written.sequences},
                                                     {"next_source", written.next.source},
                                                     {"next_record", written.next.record},
                                                     {"next_token", written.next.token}}
                                                    .dump());
}

std::optional<SpoolEnd> read_end(Env& env, const std::string& folder) {
  const std::string path = join_path(folder, "end.json");
  if (!env.exists(path)) return std::nullopt;
  const Json json = read_json(env, path);
  return SpoolEnd{.windows = number_in(json, "windows", path),
                  .sequences = number_in(json, "sequences", path)};
}

void write_end(Env& env, const std::string& folder, const SpoolEnd& end) {
  env.write_atomically(join_path(folder, "end.json"),
                       Json{{"windows", end.windows}, {"sequences", end.sequences}}.dump());
}

void open_spool_folder(Env& env, const std::string& folder, const SpoolShape& shape) {
  const std::string path = join_path(folder, "spool.json");
  const Json json{{"format", 1},
                  {"data.shuffle_window", shape.window},
                  {"data.seq_len", shape.seq_len},
                  {"tokenizer", shape.tokenizer_hash},
                  {"source", shape.source}};
  env.create_folders(folder);
  const FileLock lock(join_path(folder, "shape.lock"), [] {});  // the ranks of a job open it at the same time
  if (!env.exists(path)) {
    env.write_atomically(path, json.dump());
    return;
  }
  const Json there = read_json(env, path);
  for (const auto& [key, value] : json.items())
    if (!there.contains(key) || there.at(key) != value)
      throw ConfigError(fmt::format("{}: got {}, but '{}' was written with {}", key, value.dump(), folder,
                                    there.contains(key) ? there.at(key).dump() : "none"),
                        "go on with what it was, or give the run a new name");
}

}  // namespace athanor::data::spool
