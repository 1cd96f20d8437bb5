#include "athanor/corpus/passes/write_pass.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "athanor/base/check.h"
#include "athanor/corpus/passes/limits.h"
#include "athanor/corpus/passes/record.h"
#include "athanor/corpus/passes/workers.h"
#include "athanor/documents/zstd_output.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::passes {
namespace {

constexpr const char* kWriteVersion = "write 1";
constexpr int kShardLevel = 3;
constexpr const char* kScoresFolder = "scores/";

std::vector<Shard> plan_shards(const CorpusConfig& config, const Parts& parts, const Verdicts& verdicts) {
  std::vector<Shard> shards;
  std::map<std::string, size_t> open, numbers;  // by channel
  for (const Part& part : parts.parts) {
    for (uint64_t document = part.first; document < part.first + part.documents; ++document) {
      if (!verdicts.kept(document)) continue;
      auto found = open.find(part.channel);
      if (found == open.end()) {
        found = open.emplace(part.channel, shards.size()).first;
        shards.push_back({.channel = part.channel,
                          .name = fmt::format("shard-{:05}", numbers[part.channel]++),
                          .first = document});
      }
      Shard& shard = shards[found->second];
      shard.end = document + 1;
      ++shard.documents;
      shard.text_bytes += verdicts.text_bytes(document);
      if (shard.text_bytes >= static_cast<uint64_t>(config.shard_size)) open.erase(found);
    }
  }
  return shards;
}

// The scores of a part's documents, of all segments.
class PartScores {
 public:
  PartScores(Env& env, const CorpusConfig& config, const std::vector<Annotated>& segments, const Part& part)
      : config_(config), segments_(segments) {
    for (const Annotated& segment : segments)
      rows_.push_back(read_scores(env, segment.scores(part), segment.columns.count));
  }

  void append(std::string& line, const Document& document, uint64_t index) const {
    const int64_t characters = text::count_code_points(document.text);
    line += "{\"id\":";
    append_json_string(line, document.id);
    line += ",\"source\":";
    append_json_string(line, document.source);
    line += ",\"attributes\":{";
    bool is_first = true;
    for (size_t s = 0; s < segments_.size(); ++s) {
      const Annotated& segment = segments_[s];
      for (size_t stage = segment.segment.begin; stage < segment.segment.end; ++stage) {
        if (config_.stages[stage].is_dedup()) continue;
        size_t column = index * segment.columns.count + segment.columns.first[stage - segment.segment.begin];
        for (const Score& score : config_.stages[stage].stage->scores()) {
          const double value = rows_[s][column++];
          if (!std::isfinite(value)) continue;
          if (!is_first) line += ',';
          is_first = false;
          append_json_string(line, score.name);
          fmt::format_to(std::back_inserter(line), ":[[0,{},{}]]", characters, value);
        }
      }
    }
    line += "}}\n";
  }

 private:
  const CorpusConfig& config_;
  const std::vector<Annotated>& segments_;
  std::vector<std::vector<double>> rows_;
};

void write_shard(Env& env, const CorpusConfig& config, const Parts& parts,
                 const std::vector<Annotated>& segments, const Verdicts& verdicts, const Shard& shard,
                 const PassFolder& folder, const WorkDone& done) {
  const std::string name = shard.channel + "/" + shard.name + ".jsonl.zst";
  ZstdOutput records(env, folder.file(name), kShardLevel);
  ZstdOutput scores(env, folder.file(kScoresFolder + name), kShardLevel);
  std::string line;
  for (size_t p = 0; p < parts.parts.size(); ++p) {
    const Part& part = parts.parts[p];
    if (part.channel != shard.channel || part.first + part.documents <= shard.first ||
        part.first >= shard.end)
      continue;
    const PartScores part_scores(env, config, segments, part);
    RecordReader reader(env, segments.back().texts[p]);
    Document document{.channel = part.channel};
    uint64_t written = 0;
    for (uint64_t i = 0; i < part.documents && part.first + i < shard.end; ++i) {
      check(reader.next(document), "'{}': ends after {} of {} documents", segments.back().texts[p], i,
            part.documents);
      if (part.first + i < shard.first || !verdicts.kept(part.first + i)) continue;
      line.clear();
      append_record(line, document);
      records.append(line);
      line.clear();
      part_scores.append(line, document, i);
      scores.append(line);
      written += document.text.size();
    }
    done(written);
  }
  records.finish();
  scores.finish();
}

// A folder takes the place of another by its name, so no reader ever finds shards of two builds in one.
void publish_folder(Env& env, const std::string& from, const std::string& to, const std::string& old,
                    bool has_shards) {
  if (has_shards && !env.exists(from)) return;  // done before the build was killed
  if (env.exists(old)) env.remove_all(old);
  if (env.exists(to)) env.rename(to, old);
  if (has_shards) env.rename(from, to);
  env.sync_folder(parent_folder(to));
  if (env.exists(old)) env.remove_all(old);
}

void publish(Env& env, const CorpusConfig& config, const std::vector<Shard>& shards,
             const PassFolder& folder) {
  std::map<std::string, bool> channels;
  for (const InputConfig& input : config.inputs) channels[input.channel] = false;
  for (const Shard& shard : shards) channels[shard.channel] = true;
  env.create_folders(config.folder() + "/" + kScoresFolder);
  for (const auto& [channel, has_shards] : channels)
    for (const std::string& name : {kScoresFolder + channel, channel})
      publish_folder(env, folder.file(name), config.folder() + "/" + name, folder.file("old"), has_shards);
}

}  // namespace

std::vector<Shard> write_shards(Env& env, const CorpusConfig& config, const Parts& parts,
                                const std::vector<Annotated>& segments, const Verdicts& verdicts,
                                WorkFolder& work, const Progress& progress) {
  std::vector<Shard> shards = plan_shards(config, parts, verdicts);
  std::vector<std::string> key = {kWriteVersion, segments.back().key, std::to_string(config.shard_size)};
  for (const StageConfig& stage : config.stages)
    for (const Rule& rule : stage.rules)
      key.push_back(fmt::format("{} {} {}", rule.name, rule.least, rule.most));
  const PassFolder folder = work.pass("shards", key_of(key));
  constexpr const char* kPublished = "published.json";
  if (folder.has(kPublished)) return shards;

  PassProgress state{.what = "writing", .seen_documents = parts.documents};
  std::vector<size_t> left;
  const auto marker = [](const Shard& shard) { return fmt::format("{} {}.json", shard.name, shard.channel); };
  for (size_t i = 0; i < shards.size(); ++i) {
    state.total_bytes += shards[i].text_bytes;
    state.kept_documents += shards[i].documents;
    if (folder.has(marker(shards[i]))) {
      state.done_bytes += shards[i].text_bytes;
      continue;
    }
    env.create_folders(folder.file(shards[i].channel));
    env.create_folders(folder.file(kScoresFolder + shards[i].channel));
    left.push_back(i);
  }
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const Shard& shard = shards[left[static_cast<size_t>(task)]];
        write_shard(env, config, parts, segments, verdicts, shard, folder, done);
        folder.write(marker(shard), "{}");
        return std::string();
      },
      [](int64_t, const std::string&) {},
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  publish(env, config, shards, folder);
  folder.write(kPublished, "{}");
  return shards;
}

}  // namespace athanor::corpus::passes
