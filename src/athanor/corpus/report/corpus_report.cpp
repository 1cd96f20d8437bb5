#include "athanor/corpus/report/corpus_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "athanor/base/human.h"
#include "athanor/corpus/report/samples.h"

namespace athanor::corpus::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kExamples = 3;
constexpr size_t kExampleBytes = 400;

Json amount_json(const Amount& amount) {
  return {{"documents", amount.documents}, {"bytes", amount.bytes}};
}

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json sample_json(const TextSample& sample) {
  Json languages = Json::object();
  for (const auto& [code, share] : sample.languages) languages[code] = share;
  return {{"documents", sample.text.documents},
          {"bytes", sample.text.bytes},
          {"distinct_words", number_or_null(sample.distinct_words)},
          {"compression", number_or_null(sample.compression)},
          {"copies", number_or_null(sample.copies)},
          {"languages", languages}};
}

Json source_json(const CorpusReport& report, const SourceReport& source) {
  Json scores = Json::object();
  for (const auto& [name, means] : means_by_name(report, source))
    scores[name] = {{"read", means.read.value()}, {"kept", number_or_null(means.kept.value())}};
  return {{"name", source.name},
          {"channel", source.channel},
          {"files", source.files},
          {"input", amount_json(source.input)},
          {"kept", amount_json(source.kept)},
          {"shards", source.shards},
          {"scores", scores},
          {"sample", sample_json(source.sample)}};
}

void count_documents(const CorpusConfig& config, const Built& built, CorpusReport& report) {
  const Verdicts& verdicts = built.verdicts;
  std::vector<Amount> by_code(verdicts.reasons().size() + 1);
  for (uint64_t document = 0; document < verdicts.documents(); ++document)
    by_code[verdicts.code(document)].add(verdicts.text_bytes(document));
  report.kept = by_code[0];
  Amount left;
  for (const Amount& amount : by_code) left.documents += amount.documents, left.bytes += amount.bytes;
  report.edited_bytes = report.input.bytes - std::min(left.bytes, report.input.bytes);
  for (size_t stage = 0; stage < config.stages.size(); ++stage) {
    StageReport stage_report{.name = fmt::format("{} {}", stage + 1, config.stages[stage].name()),
                             .left = {}};
    for (size_t code = 1; code < by_code.size(); ++code) {
      const Reason& reason = verdicts.reasons()[code - 1];
      if (reason.stage != stage || by_code[code].documents == 0) continue;
      left.documents -= by_code[code].documents;
      left.bytes -= by_code[code].bytes;
      stage_report.reasons.push_back({.name = reason.name, .dropped = by_code[code]});
    }
    std::stable_sort(stage_report.reasons.begin(), stage_report.reasons.end(),
                     [](const ReasonReport& a, const ReasonReport& b) {
                       return a.dropped.documents > b.dropped.documents;
                     });
    stage_report.left = left;
    report.stages.push_back(std::move(stage_report));
  }
}

void count_scores(Env& env, const CorpusConfig& config, const Built& built, CorpusReport& report,
                  SourceTable& sources) {
  for (const Annotated& segment : built.segments) {
    std::vector<size_t> columns;
    const size_t first = report.scores.size();
    for (size_t stage = segment.segment.begin; stage < segment.segment.end; ++stage) {
      if (config.stages[stage].is_dedup()) continue;
      const std::vector<Score>& scores = config.stages[stage].stage->scores();
      for (size_t i = 0; i < scores.size(); ++i) {
        ScoreReport score{.name = scores[i].name, .formula = scores[i].formula};
        for (const Rule& rule : config.stages[stage].rules)
          if (rule.score == i)
            score.least = std::max(score.least, rule.least), score.most = std::min(score.most, rule.most);
        report.scores.push_back(std::move(score));
        columns.push_back(segment.columns.first[stage - segment.segment.begin] + i);
      }
    }
    if (columns.empty()) continue;
    for (const Part& part : built.parts.parts) {
      const std::vector<double> rows = read_scores(env, segment.scores(part), segment.columns.count);
      for (size_t row = 0; row < rows.size(); row += segment.columns.count) {
        const uint64_t document = part.first + row / segment.columns.count;
        const auto places = sources.of(document);
        for (size_t i = 0; i < columns.size(); ++i) {
          const double value = rows[row + columns[i]];
          report.scores[first + i].histogram.add(value);
          for (SourceReport* place : places)
            place->add_score(first + i, value, built.verdicts.kept(document));
        }
      }
    }
  }
}

}  // namespace

std::vector<DroppedExample> dropped_by(Env& env, const Built& built, const std::string& reason, size_t sample,
                                       size_t most_bytes) {
  Draw draw("examples of what was dropped", std::min(sample, size_t{1} << 40) * Draw::kLeastCost);
  for (uint64_t document = 0; document < built.verdicts.documents(); ++document)
    if (!built.verdicts.kept(document) && built.verdicts.reason(document).name == reason)
      draw.offer(document, Draw::kLeastCost);
  std::vector<DroppedExample> examples;
  read_documents(env, built, draw.documents(), [&](uint64_t number, const Document& document) {
    examples.push_back(
        {number, document.id, document.source, std::string(first_bytes(document.text, most_bytes))});
  });
  return examples;
}

CorpusReport report_of(Env& env, const CorpusConfig& config, const Built& built) {
  CorpusReport report{.name = config.name, .input = {}, .kept = {}};
  report.input = {built.parts.documents, built.parts.text_bytes};
  report.files = built.parts.files;
  report.raw_bytes = built.parts.raw_bytes;
  report.seconds = built.seconds;
  report.refused = built.parts.refused;
  report.left_out = built.parts.left_out;
  count_documents(config, built, report);
  SourceTable sources(config, built);
  count_scores(env, config, built, report, sources);
  sources.look_at_samples(env);
  report.channels = sources.channels();
  report.sources = sources.files();
  for (StageReport& stage : report.stages)
    for (ReasonReport& reason : stage.reasons)
      reason.examples = dropped_by(env, built, reason.name, kExamples, kExampleBytes);
  return report;
}

std::vector<std::pair<std::string, ScoreMeans>> means_by_name(const CorpusReport& report,
                                                              const SourceReport& source) {
  std::vector<std::pair<std::string, ScoreMeans>> means;
  for (size_t i = 0; i < source.scores.size(); ++i) {
    if (source.scores[i].read.count == 0) continue;
    const std::string& name = report.scores[i].name;
    auto same =
        std::find_if(means.begin(), means.end(), [&](const auto& each) { return each.first == name; });
    if (same == means.end()) same = means.insert(means.end(), {name, {}});
    same->second.read.add(source.scores[i].read);
    same->second.kept.add(source.scores[i].kept);
  }
  return means;
}

std::string report_json(const CorpusReport& report) {
  Json json{{"format", "athanor corpus report 1"},
            {"name", report.name},
            {"files", report.files},
            {"raw_bytes", report.raw_bytes},
            {"seconds", report.seconds},
            {"input", amount_json(report.input)},
            {"kept", amount_json(report.kept)},
            {"edited_bytes", report.edited_bytes}};
  for (const StageReport& stage : report.stages) {
    Json reasons = Json::array();
    for (const ReasonReport& reason : stage.reasons) {
      Json examples = Json::array();
      for (const DroppedExample& example : reason.examples)
        examples.push_back({{"id", example.id}, {"source", example.source}, {"text", example.text}});
      reasons.push_back({{"name", reason.name},
                         {"documents", reason.dropped.documents},
                         {"bytes", reason.dropped.bytes},
                         {"examples", examples}});
    }
    json["stages"].push_back({{"name", stage.name}, {"left", amount_json(stage.left)}, {"dropped", reasons}});
  }
  for (const SourceReport& channel : report.channels)
    json["channels"].push_back(source_json(report, channel));
  for (const SourceReport& source : report.sources) json["sources"].push_back(source_json(report, source));
  for (const ScoreReport& score : report.scores) {
    const Histogram& values = score.histogram;
    Json bins = Json::array();
    for (const auto& [low, count] : values.bins()) bins.push_back({low, count});
    json["scores"].push_back({{"name", score.name},
                              {"formula", score.formula},
                              {"documents", values.count()},
                              {"without", values.not_finite()},
                              {"least", number_or_null(values.least())},
                              {"median", number_or_null(values.quantile(0.5))},
                              {"mean", number_or_null(values.mean())},
                              {"most", number_or_null(values.most())},
                              {"rule", {number_or_null(score.least), number_or_null(score.most)}},
                              {"bins", bins}});
  }
  json["refused"] = Json::object();
  for (const auto& [reason, refused] : report.refused) {
    Json examples = Json::array();
    for (const RefusedExample& example : refused.examples)
      examples.push_back({{"file", example.file}, {"line", example.line}, {"detail", example.detail}});
    json["refused"][reason] = {{"count", refused.count}, {"examples", examples}};
  }
  json["left_out"] = Json::array();
  for (const auto& [file, reason] : report.left_out)
    json["left_out"].push_back({{"file", file}, {"reason", reason}});
  // A name of a file may be any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> funnel_lines(const CorpusReport& report) {
  const auto row = [&](const std::string& name, const Amount& left, const std::string& why) {
    const double share = report.input.bytes == 0 ? 0
                                                 : 100.0 * static_cast<double>(left.bytes) /
                                                       static_cast<double>(report.input.bytes);
    return fmt::format("{:<20} {:>12} documents {:>10} {:>6.1f} %{}", fit_columns(name, 20),
                       with_commas(static_cast<int64_t>(left.documents)),
                       human_bytes(static_cast<double>(left.bytes)), share, why);
  };
  std::vector<std::string> lines = {row("read", report.input, "")};
  for (const StageReport& stage : report.stages) {
    std::string why;
    constexpr size_t kShownReasons = 2;
    for (size_t i = 0; i < std::min(kShownReasons, stage.reasons.size()); ++i)
      why += fmt::format("{} {} -{}", i == 0 ? "  " : ",", stage.reasons[i].name,
                         with_commas(static_cast<int64_t>(stage.reasons[i].dropped.documents)));
    lines.push_back(row(stage.name, stage.left, why));
  }
  return lines;
}

}  // namespace athanor::corpus::report
