#include "athanor/corpus/passes/annotate_pass.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/cut.h"
#include "athanor/corpus/dedup/record.h"
#include "athanor/corpus/passes/limits.h"
#include "athanor/corpus/passes/record.h"
#include "athanor/corpus/passes/verdicts.h"
#include "athanor/corpus/passes/workers.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/zstd_output.h"

namespace athanor::corpus::passes {
namespace {

constexpr const char* kAnnotateVersion = "annotate 2";

template <typename T>
std::string_view bytes_of(const T* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

std::string without(const std::string& text, std::span<const Cut> cuts) {
  std::vector<TextRange> ranges;
  for (const Cut& each : cuts) ranges.push_back(each.range);
  return cut(text, ranges);
}

class PartAnnotator {
 public:
  PartAnnotator(Env& env, const CorpusConfig& config, const Annotated& to, const Part& part)
      : config_(config), to_(to), part_(part), scores_(env, to.scores(part)), row_(to.columns.count) {
    for (size_t i = to.segment.begin; i < to.segment.end; ++i)
      if (config.stages[i].keys != nullptr)
        keys_.emplace_back(i, std::make_unique<ZstdOutput>(env, to.keys(part, i)));
  }

  // `document` is number `index` of the part. Returns whether the rules keep it.
  bool take(Document& document, uint64_t index, bool was_cut) {
    std::fill(row_.begin(), row_.end(), std::numeric_limits<double>::quiet_NaN());
    if (was_cut) {
      const Stage& left = *config_.stages[static_cast<size_t>(to_.segment.cut_by)].stage;
      left.annotate(document, std::span(row_).subspan(1, left.scores().size()));
    }
    for (size_t i = to_.segment.begin; i < to_.segment.end; ++i) {
      const StageConfig& stage = config_.stages[i];
      if (stage.is_dedup() || !stage.takes(part_.channel)) continue;
      stage.stage->annotate(document, std::span(row_).subspan(to_.columns.first[i - to_.segment.begin],
                                                              stage.stage->scores().size()));
    }
    row_[0] = static_cast<double>(document.text.size());
    scores_.append(bytes_of(row_.data(), row_.size()));
    for (const auto& [stage, out] : keys_) {
      if (!config_.stages[stage].takes(part_.channel)) continue;
      spans_.clear();
      config_.stages[stage].keys->keys(document, spans_);
      records_.clear();
      for (const SpanKey& span : spans_)
        records_.push_back({span.key, kFirstKeyNumber + part_.first + index, span.begin, span.end});
      out->append(bytes_of(records_.data(), records_.size()));
    }
    return rules_keep(config_, to_.segment, to_.columns, row_);
  }

  void finish() {
    scores_.finish();
    for (const auto& [stage, out] : keys_) out->finish();
  }

 private:
  const CorpusConfig& config_;
  const Annotated& to_;
  const Part& part_;
  ZstdOutput scores_;
  std::vector<std::pair<size_t, std::unique_ptr<ZstdOutput>>> keys_;
  std::vector<double> row_;
  std::vector<SpanKey> spans_;
  std::vector<KeyRecord> records_;
};

struct AnnotatedPart {
  bool changed = false;         // a text
  uint64_t kept_documents = 0;  // by the rules so far
};

AnnotatedPart annotate_part(Env& env, const CorpusConfig& config, const Annotated& to, const Part& part,
                            const std::string& from, std::span<const Cut> cuts, const Verdicts* verdicts,
                            const WorkDone& done) {
  PartAnnotator annotator(env, config, to, part);
  RecordReader reader(env, from);
  ZstdOutput texts(env, to.folder.file(part.name + ".jsonl.zst"));
  Document document{.channel = part.channel};
  std::string line, before;
  AnnotatedPart result;
  uint64_t told = 0, read = 0;
  for (uint64_t index = 0; index < part.documents; ++index) {
    check(reader.next(document), "'{}': ends after {} of {} documents", from, index, part.documents);
    read += document.text.size();
    before = document.text;
    size_t here = 0;
    while (here < cuts.size() && cuts[here].document == part.first + index) ++here;
    if (here > 0) document.text = without(document.text, cuts.first(here));
    cuts = cuts.subspan(here);
    const bool was_kept = verdicts == nullptr || verdicts->kept(part.first + index);
    if (annotator.take(document, index, here > 0) && was_kept) ++result.kept_documents;
    result.changed = result.changed || document.text != before;
    line.clear();
    append_record(line, document);
    texts.append(line);
    if (read > told + (uint64_t{1} << 18)) done(read - told), told = read;
  }
  annotator.finish();
  if (result.changed) texts.finish();
  done(read - told);
  return result;
}

std::string key_of_segment(const CorpusConfig& config, const Segment& segment, const Texts& texts) {
  std::vector<std::string> parts = {kAnnotateVersion, texts.key};
  for (size_t i = segment.begin; i < segment.end; ++i) {
    const StageConfig& stage = config.stages[i];
    parts.push_back(stage.kind);
    parts.push_back(stage.settings);
    for (const std::string& channel : stage.channels) parts.push_back("channel " + channel);
  }
  return key_of(parts);
}

// Those of one part, which are neighbours.
std::span<const Cut> cuts_of(const Texts& texts, const Part& part) {
  if (texts.cuts == nullptr) return {};
  const auto before = [](const Cut& each, uint64_t document) { return each.document < document; };
  const auto begin = std::lower_bound(texts.cuts->begin(), texts.cuts->end(), part.first, before);
  const auto end = std::lower_bound(begin, texts.cuts->end(), part.first + part.documents, before);
  return {begin, end};
}

}  // namespace

Annotated annotate(Env& env, const CorpusConfig& config, const Segment& segment, const Parts& parts,
                   const Texts& texts, WorkFolder& work, const Progress& progress) {
  const std::string key = key_of_segment(config, segment, texts);
  Annotated result{.key = key,
                   .folder = work.pass("annotate", key),
                   .segment = segment,
                   .columns = columns_of(config, segment),
                   .texts = {}};
  const auto marker = [](const Part& part) { return part.name + ".json"; };
  PassProgress state{.what = "annotating", .total_bytes = parts.text_bytes};
  std::vector<size_t> left;
  for (size_t i = 0; i < parts.parts.size(); ++i) {
    if (result.folder.has(marker(parts.parts[i])))
      state.done_bytes += parts.parts[i].text_bytes;
    else
      left.push_back(i);
  }
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const size_t index = left[static_cast<size_t>(task)];
        const Part& part = parts.parts[index];
        const AnnotatedPart annotated = annotate_part(env, config, result, part, texts.files[index],
                                                      cuts_of(texts, part), texts.verdicts, done);
        result.folder.write(marker(part), nlohmann::json{{"changed", annotated.changed}}.dump());
        return std::to_string(annotated.kept_documents);
      },
      [&](int64_t task, const std::string& kept) {
        state.seen_documents += parts.parts[left[static_cast<size_t>(task)]].documents;
        state.kept_documents += std::stoull(kept);
        progress(state);
      },
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  for (size_t i = 0; i < parts.parts.size(); ++i) {
    const Part& part = parts.parts[i];
    const bool changed = nlohmann::json::parse(result.folder.read(marker(part)))["changed"];
    result.texts.push_back(changed ? result.folder.file(part.name + ".jsonl.zst") : texts.files[i]);
  }
  return result;
}

std::vector<double> read_scores(Env& env, const std::string& path, size_t columns) {
  const auto source = open_bytes(env, path);
  std::vector<double> values;
  std::vector<char> chunk(size_t{1} << 18);
  size_t filled = 0;  // bytes of values
  while (const size_t got = source->read(chunk.data(), chunk.size())) {
    values.resize((filled + got + sizeof(double) - 1) / sizeof(double));
    std::memcpy(reinterpret_cast<char*>(values.data()) + filled, chunk.data(), got);
    filled += got;
  }
  check(filled % (columns * sizeof(double)) == 0, "'{}': has {} bytes, expected rows of {} scores", path,
        filled, columns);
  return values;
}

}  // namespace athanor::corpus::passes
