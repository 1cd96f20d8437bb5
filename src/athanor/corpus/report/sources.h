// What each channel and each file of the inputs gave to a corpus: how much, how good, how diverse.
//
//   SourceTable table(config, built);                                     // documents and bytes
//   for (SourceReport* source : table.of(document)) source->add_score(0, value, kept);
//   table.look_at_samples(env);                                           // diversity
//   table.channels()[0].sample.distinct_words;
//
// Diversity is that of a sample of the kept texts, drawn by the numbers of the documents, so that it is the same for any
// number of workers: at most kChannelSampleBytes of text of a channel and kFileSampleBytes of a file, of each document at
// most the first kSampleDocumentBytes. Copies are those within the sample. Languages are CLD2's.
//
// Thread rule: one thread. Errors: those of RecordReader.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/corpus/passes/build.h"

namespace athanor::corpus::report {

constexpr uint64_t kChannelSampleBytes = uint64_t{2} << 20;
constexpr uint64_t kFileSampleBytes = uint64_t{256} << 10;
constexpr uint64_t kSampleDocumentBytes = uint64_t{64} << 10;
constexpr size_t kReportedFiles = 50;  // those with most text; the others are one row

struct Amount {
  uint64_t documents = 0, bytes = 0;

  void add(uint64_t document_bytes) { ++documents, bytes += document_bytes; }
};

struct Mean {
  double sum = 0;
  uint64_t count = 0;

  void add(double value) { sum += value, ++count; }
  void add(const Mean& other) { sum += other.sum, count += other.count; }
  double value() const { return count == 0 ? NAN : sum / static_cast<double>(count); }
};

// Of one score, over the documents that have it.
struct ScoreMeans {
  Mean read, kept;
};

struct TextSample {
  Amount text = {};
  double distinct_words = NAN, compression = NAN;              // text_stats.h
  double copies = NAN;                                         // share of the documents
  std::vector<std::pair<std::string, double>> languages = {};  // shares of the bytes, the largest first
};

struct SourceReport {
  std::string name;  // of the channel or the file; empty: the other files
  std::string channel;
  uint64_t files = 0;   // with a document
  uint64_t shards = 0;  // of a channel
  Amount input = {}, kept = {};
  std::vector<ScoreMeans> scores = {};  // by the number of the score
  TextSample sample = {};

  void add_score(size_t score, double value, bool is_kept);
};

class SourceTable {
 public:
  SourceTable(const CorpusConfig& config, const Built& built);  // which outlives the table
  std::array<SourceReport*, 2> of(uint64_t document);           // its channel and its file
  void look_at_samples(Env& env);
  std::vector<SourceReport> channels() const;  // in the order of the config
  std::vector<SourceReport> files() const;     // those with most text first

 private:
  const Built& built_;
  size_t num_channels_ = 0;
  std::vector<SourceReport> rows_;                           // channels, then files
  std::vector<std::array<size_t, 2>> rows_of_sources_ = {};  // of each of built.parts.sources
};

}  // namespace athanor::corpus::report
