#include "athanor/corpus/passes/build.h"

#include <fmt/core.h>

#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file_lock.h"
#include "athanor/corpus/passes/group_pass.h"
#include "athanor/corpus/passes/read_pass.h"
#include "athanor/corpus/passes/segments.h"
#include "athanor/corpus/passes/substring_pass.h"

namespace athanor::corpus::passes {
namespace {

// Of all that the cuts depend on.
std::string key_of_cuts(const CorpusConfig& config, const Annotated& annotated) {
  std::vector<std::string> key = {"cuts 1", annotated.key};
  for (size_t stage = 0; stage < annotated.segment.end; ++stage)
    for (const Rule& rule : config.stages[stage].rules)
      key.push_back(fmt::format("{} {} {}", rule.name, rule.least, rule.most));
  return key_of(key);
}

// The stages of a segment in order: rules, and comparisons between them. Returns what is cut out, if the last stage does.
std::vector<Cut> decide(Env& env, const CorpusConfig& config, const Parts& parts, const Annotated& annotated,
                        WorkFolder& work, const Progress& progress, Verdicts& verdicts) {
  const Segment& segment = annotated.segment;
  size_t decided = segment.begin;
  for (size_t stage = segment.begin; stage < segment.end; ++stage) {
    if (!config.stages[stage].is_dedup()) continue;
    decide_rules(env, config, parts, annotated, decided, stage, verdicts);
    decided = stage + 1;
    if (config.stages[stage].keys == nullptr)
      return cut_substrings(env, config, stage, parts, annotated, key_of_cuts(config, annotated), verdicts,
                            work, progress);
    const Groups groups = group_keys(env, config, stage, parts, annotated, work, progress);
    if (segment.cuts && stage + 1 == segment.end) return decide_cuts(env, groups, verdicts);
    decide_copies(env, config, groups, verdicts);
  }
  decide_rules(env, config, parts, annotated, decided, segment.end, verdicts);
  return {};
}

}  // namespace

Built build_corpus(Env& env, const CorpusConfig& config, const BuildOptions& options) {
  const Progress& progress = options.progress;
  const double start = now_seconds();
  const std::string folder = config.folder() + "/work";
  env.create_folders(folder);
  const FileLock lock(folder + "/lock", [&] {
    throw Error(
        fmt::format("corpus '{}': is being built by another process, expected one at a time", config.name));
  });
  WorkFolder work(env, folder, options.only_decide);
  ReadInputs read =
      read_inputs(env, config, options.only_decide ? nullptr : options.standard_input, work, progress);
  Built built{.parts = std::move(read.parts), .segments = {}, .verdicts = Verdicts(0), .shards = {}};
  built.verdicts = Verdicts(built.parts.documents);
  Texts texts{.key = read.key, .files = {}};
  for (const Part& part : built.parts.parts)
    texts.files.push_back(read.folder.file(part.name + ".jsonl.zst"));
  for (const Segment& segment : segments_of(config)) {
    built.segments.push_back(annotate(env, config, segment, built.parts, texts, work, progress));
    const Annotated& annotated = built.segments.back();
    std::vector<Cut> cuts = decide(env, config, built.parts, annotated, work, progress, built.verdicts);
    texts = {.key = segment.cuts ? key_of_cuts(config, annotated) : annotated.key, .files = annotated.texts};
    texts.verdicts = &built.verdicts;
    if (segment.cuts) texts.cuts = std::make_shared<const std::vector<Cut>>(std::move(cuts));
  }
  built.shards = write_shards(env, config, built.parts, built.segments, built.verdicts, work, progress);
  work.remove_others();
  built.seconds = now_seconds() - start;
  return built;
}

}  // namespace athanor::corpus::passes
