// What a build did: how many documents each stage left, what was dropped by which rule, how scores are spread, examples.
//
//   const CorpusReport report = report_of(env, config, built);
//   env.write_atomically("corpora/mine/report.json", report_json(report));
//   env.write_atomically("corpora/mine/report.html", report_page(report));
//
// Channels and files have their own figures (sources.h). Bytes are of text, as the last stage has it; bytes that edits took from kept documents stand apart. Thread rule: plain
// data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "athanor/corpus/passes/build.h"
#include "athanor/corpus/passes/histogram.h"
#include "athanor/corpus/report/sources.h"

namespace athanor::corpus::report {

struct DroppedExample {
  uint64_t document = 0;
  std::string id, source, text;  // the first characters
};

struct ReasonReport {
  std::string name;
  Amount dropped;
  std::vector<DroppedExample> examples = {};
};

struct StageReport {
  std::string name;  // "2 heuristics"
  Amount left;       // after it
  std::vector<ReasonReport> reasons = {};
};

struct ScoreReport {
  std::string name, formula;
  Histogram histogram = {};
  double least = -INFINITY, most = INFINITY;  // what its rule demands
};

struct CorpusReport {
  std::string name;
  Amount input, kept;
  uint64_t files = 0, raw_bytes = 0, edited_bytes = 0;
  double seconds = 0;
  std::vector<StageReport> stages = {};
  std::vector<ScoreReport> scores = {};
  std::vector<SourceReport> channels = {};
  std::vector<SourceReport> sources = {};  // files with most text, then the other ones as one row
  std::map<std::string, Refused> refused = {};
  std::vector<std::pair<std::string, std::string>> left_out = {};
};

CorpusReport report_of(Env& env, const CorpusConfig& config, const Built& built);
// A document that a rule dropped, with its text at the end of the build.
std::vector<DroppedExample> dropped_by(Env& env, const Built& built, const std::string& reason, size_t sample,
                                       size_t most_bytes);

// The means of each score that a channel or file has. Stages of one kind for several channels have scores of one name.
std::vector<std::pair<std::string, ScoreMeans>> means_by_name(const CorpusReport& report,
                                                              const SourceReport& source);

std::string report_json(const CorpusReport& report);
std::string report_page(const CorpusReport& report);
// The funnel in a line for each stage, for a terminal.
std::vector<std::string> funnel_lines(const CorpusReport& report);

}  // namespace athanor::corpus::report
