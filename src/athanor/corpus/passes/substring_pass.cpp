#include "athanor/corpus/passes/substring_pass.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/substrings.h"
#include "athanor/corpus/passes/limits.h"
#include "athanor/corpus/passes/record.h"
#include "athanor/corpus/passes/workers.h"

namespace athanor::corpus::passes {
namespace {

constexpr const char* kSubstringVersion = "substring 1";
constexpr uint64_t kSubstringBytesPerByte = 6;  // of a block's text and the work on it, with room for records
constexpr uint64_t kMostBlockBytes = uint64_t{1} << 29;  // two of them stay below 2 GiB

// Neighbouring documents.
struct DocumentBlock {
  uint64_t first = 0, end = 0;
  uint64_t bytes = 0;
};

bool takes_part(const CorpusConfig& config, size_t stage, const Part& part, uint64_t document,
                const Verdicts& verdicts) {
  return verdicts.kept(document) && config.stages[stage].takes(part.channel);
}

std::vector<DocumentBlock> blocks_of(const CorpusConfig& config, size_t stage, const Parts& parts,
                                     const Verdicts& verdicts) {
  const uint64_t most = std::min(worker_bytes(config) / (2 * kSubstringBytesPerByte), kMostBlockBytes);
  std::vector<DocumentBlock> blocks;
  for (const Part& part : parts.parts)
    for (uint64_t document = part.first; document < part.first + part.documents; ++document) {
      if (!takes_part(config, stage, part, document, verdicts)) continue;
      const uint64_t bytes = verdicts.text_bytes(document);
      if (blocks.empty() || blocks.back().bytes + bytes > most) blocks.push_back({.first = document});
      blocks.back().end = document + 1;
      blocks.back().bytes += bytes;
    }
  return blocks;
}

// The texts of a block and the numbers of their documents, behind what is there.
void add_block(Env& env, const CorpusConfig& config, size_t stage, const Parts& parts,
               const Annotated& annotated, const Verdicts& verdicts, const DocumentBlock& block,
               TextBlock& texts, std::vector<uint64_t>& documents) {
  for (size_t p = 0; p < parts.parts.size(); ++p) {
    const Part& part = parts.parts[p];
    if (part.first + part.documents <= block.first || part.first >= block.end) continue;
    RecordReader reader(env, annotated.texts[p]);
    Document document;
    for (uint64_t number = part.first; number < std::min(part.first + part.documents, block.end); ++number) {
      check(reader.next(document), "'{}': has fewer than {} documents", annotated.texts[p], part.documents);
      if (number < block.first || !takes_part(config, stage, part, number, verdicts)) continue;
      texts.add(document.text);
      documents.push_back(number);
    }
  }
}

}  // namespace

std::vector<Cut> cut_substrings(Env& env, const CorpusConfig& config, size_t stage, const Parts& parts,
                                const Annotated& annotated, const std::string& key, const Verdicts& verdicts,
                                WorkFolder& work, const Progress& progress) {
  const std::vector<DocumentBlock> blocks = blocks_of(config, stage, parts, verdicts);
  // The first block with itself, and each later one with all before it; that finds what it repeats of itself, too.
  std::vector<std::pair<size_t, size_t>> pairs;
  if (!blocks.empty()) pairs.emplace_back(0, 0);
  for (size_t later = 1; later < blocks.size(); ++later)
    for (size_t earlier = 0; earlier < later; ++earlier) pairs.emplace_back(earlier, later);
  const PassFolder folder = work.pass(
      "substrings",
      key_of({kSubstringVersion, key, std::to_string(stage),
              std::to_string(config.stages[stage].substring_bytes), std::to_string(worker_bytes(config))}));
  const auto name = [](const std::pair<size_t, size_t>& pair) {
    return fmt::format("{}-{}.json", pair.first, pair.second);
  };
  PassProgress state{.what = "comparing"};
  std::vector<size_t> left;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (folder.has(name(pairs[i]))) continue;
    left.push_back(i);
    state.total_bytes += blocks[pairs[i].first].bytes + blocks[pairs[i].second].bytes;
  }
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const auto [earlier, later] = pairs[left[static_cast<size_t>(task)]];
        TextBlock texts;
        std::vector<uint64_t> documents;
        if (earlier != later)
          add_block(env, config, stage, parts, annotated, verdicts, blocks[earlier], texts, documents);
        const size_t first = documents.size();
        add_block(env, config, stage, parts, annotated, verdicts, blocks[later], texts, documents);
        nlohmann::json cuts = nlohmann::json::array();
        for (const BlockRange& found : repeated_substrings(texts, config.stages[stage].substring_bytes))
          if (found.text >= first)
            cuts.push_back({documents[found.text], found.range.begin, found.range.end});
        folder.write(name({earlier, later}), cuts.dump());
        done(blocks[earlier].bytes + blocks[later].bytes);
        return std::string();
      },
      [](int64_t, const std::string&) {},
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  std::vector<Cut> cuts;
  for (const auto& pair : pairs)
    for (const nlohmann::json& found : nlohmann::json::parse(folder.read(name(pair))))
      cuts.push_back({found[0], {found[1], found[2]}});
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace athanor::corpus::passes
