// Agreement on files: the run's folder, the checkpoint to resume from, the initial weights.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/manifest.h"
#include "athanor/models/load.h"
#include "athanor/run/agreement.h"

namespace athanor::run {
namespace {

constexpr const char* kTokenPrefix = ".one_folder_";

std::string base_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string text_of_rank_0(Group& group, std::string text) {
  auto size = static_cast<int64_t>(text.size());
  group.broadcast(&size, 1, Dtype::i64, 0, "agree.size").wait();
  text.resize(static_cast<size_t>(size));
  group.broadcast(text.data(), size, Dtype::u8, 0, "agree.text").wait();
  return text;
}

bool seen_in_time(const std::function<bool()>& seen, double patience_seconds) {
  for (const double deadline = now_seconds() + patience_seconds; !seen();) {
    if (now_seconds() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

void remove_tokens(Env& env, const std::string& folder) {
  for (const std::string& name : env.list(folder))
    if (name.starts_with(kTokenPrefix)) env.remove_all(join_path(folder, name));
}

// Removes a folder that only this refused start has made.
void remove_empty_run(Env& env, const std::string& folder) {
  for (const std::string& name : env.list(folder))
    if (!env.is_folder(join_path(folder, name)) || !env.list(join_path(folder, name)).empty()) return;
  env.remove_all(folder);
}

std::string manifest_hash(Env& env, const std::string& checkpoint) {
  return fmt::format("{:016x}", hash64(env.read_text(join_path(checkpoint, kManifestName))));
}

// Hash of a file: all of it up to some MiB; of larger files evenly spread samples, since different weights differ
// everywhere.
void hash_file(Env& env, const std::string& path, Hash128& hash) {
  constexpr uint64_t kPiece = 1 << 16, kPieces = 64;
  const auto file = env.open(path);
  const uint64_t size = file->size_bytes(), pieces = std::min(kPieces, (size + kPiece - 1) / kPiece);
  hash.update(fmt::format("{} {}\n", base_name(path), size));
  std::string buffer;
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t at = size <= kPieces * kPiece ? i * kPiece : (size - kPiece) / (kPieces - 1) * i;
    buffer.resize(std::min(kPiece, size - at));
    file->read(at, buffer.data(), buffer.size());
    hash.update(buffer);
  }
}

std::string weights_value(Env& env, const std::string& path) try {
  const WeightsPath weights = find_weights(env, path);
  if (weights.kind == WeightsPath::Kind::checkpoint)
    return fmt::format("{} with hash {}", base_name(weights.path), manifest_hash(env, weights.path));
  Hash128 hash;
  for (const std::string& name : env.list(weights.path)) {
    const std::string file = join_path(weights.path, name);
    if (!env.is_folder(file) && (name.ends_with(".safetensors") || name.ends_with(".json")))
      hash_file(env, file, hash);
  }
  return "files with hash " + hash.hex();
} catch (const Failure& error) {
  return fmt::format("none ({})", error.what());
}

}  // namespace

void agree_on_folder(Env& env, Group& group, const std::string& folder, double patience_seconds) {
  if (group.size() == 1) return;
  const bool first = group.rank() == 0;
  std::string token;
  if (first) {
    remove_tokens(env, folder);
    std::random_device random;
    token = fmt::format("{}{:08x}{:08x}", kTokenPrefix, random(), random());
    env.create(join_path(folder, token))->close();
  }
  token = text_of_rank_0(group, std::move(token));
  const std::string file = join_path(folder, token);
  const bool found = first || seen_in_time([&] { return env.exists(file); }, patience_seconds);
  const std::string complaint =
      found ? ""
            : fmt::format("train.runs: got a folder of its own on rank {} ('{}'), expected that of rank 0",
                          group.rank(), std::filesystem::absolute(folder).lexically_normal().string());
  try {
    refuse_together(group, complaint, "train.runs must be one folder that all hosts see");
  } catch (const ConfigError&) {
    if (first) {
      remove_tokens(env, folder);
      remove_empty_run(env, folder);
    }
    throw;
  } catch (const Failure&) {  // after which the run may go on
    if (first) remove_tokens(env, folder);
    throw;
  }
  if (first) remove_tokens(env, folder);
}

std::optional<std::string> agree_on_checkpoint(Env& env, Group& group, const std::string& folder,
                                               std::vector<std::string>* skipped, double patience_seconds) {
  if (group.size() == 1) return newest_checkpoint(env, folder, skipped);
  std::optional<std::string> newest;
  if (group.rank() == 0) newest = newest_checkpoint(env, folder, skipped);
  const std::string chosen =
      text_of_rank_0(group, newest ? base_name(*newest) + "\n" + manifest_hash(env, *newest) : "");
  if (chosen.empty()) return std::nullopt;
  const size_t line_end = chosen.find('\n');
  const std::string name = chosen.substr(0, line_end), path = join_path(folder, name);
  std::string complaint;
  if (!seen_in_time([&] { return env.exists(join_path(path, kManifestName)); }, patience_seconds)) {
    std::vector<std::string> seen;
    if (env.exists(folder)) seen = list_checkpoints(env, folder);
    complaint = fmt::format("checkpoint to resume from: got {} on rank {}, expected {} as on rank 0",
                            seen.empty() ? "none" : base_name(seen.back()), group.rank(), name);
  } else if (manifest_hash(env, path) != chosen.substr(line_end + 1)) {
    complaint = fmt::format(
        "checkpoint to resume from: got another {} on rank {} (hash {}), expected that of rank 0 (hash {})",
        name, group.rank(), manifest_hash(env, path), chosen.substr(line_end + 1));
  }
  refuse_together(group, complaint,
                  "all ranks must see the same checkpoints: wait for the file system, or copy them");
  return path;
}

void agree_on_weights(Env& env, Group& group, const std::string& path) {
  if (group.size() == 1) return;
  agree(group, {{"train.init_from", weights_value(env, path)}},
        "every rank starts from the same weights: copy them to all hosts, or use one folder that all see");
}

}  // namespace athanor::run
