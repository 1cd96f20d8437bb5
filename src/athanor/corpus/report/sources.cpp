#include "athanor/corpus/report/sources.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "athanor/corpus/report/samples.h"
#include "athanor/corpus/report/text_stats.h"

namespace athanor::corpus::report {
namespace {

// Numbers of the sources with most text, these first.
std::vector<size_t> largest(const std::vector<Source>& sources) {
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t number = std::min(kReportedFiles, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(number), order.end(),
                    [&](size_t a, size_t b) {
                      return sources[a].text_bytes != sources[b].text_bytes
                                 ? sources[a].text_bytes > sources[b].text_bytes
                                 : a < b;
                    });
  order.resize(number);
  return order;
}

TextSample summary(const TextStats& stats) {
  TextSample sample{.text = {stats.documents(), stats.bytes()},
                    .distinct_words = stats.distinct_words(),
                    .compression = stats.compression()};
  sample.copies = static_cast<double>(stats.copies()) / static_cast<double>(stats.documents());
  for (const auto& [code, bytes] : stats.languages())
    sample.languages.emplace_back(code, static_cast<double>(bytes) / static_cast<double>(stats.bytes()));
  std::stable_sort(sample.languages.begin(), sample.languages.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sample;
}

}  // namespace

void SourceReport::add_score(size_t score, double value, bool is_kept) {
  if (!std::isfinite(value)) return;
  if (scores.size() <= score) scores.resize(score + 1);
  scores[score].read.add(value);
  if (is_kept) scores[score].kept.add(value);
}

SourceTable::SourceTable(const CorpusConfig& config, const Built& built) : built_(built) {
  const std::vector<Source>& sources = built.parts.sources;
  std::map<std::string, size_t> channels;
  for (const InputConfig& input : config.inputs)
    if (channels.emplace(input.channel, rows_.size()).second)
      rows_.push_back({.name = input.channel, .channel = input.channel});
  num_channels_ = rows_.size();
  for (const Shard& shard : built.shards) ++rows_[channels.at(shard.channel)].shards;

  std::map<size_t, size_t> files;  // rows of sources that have one of their own
  for (const size_t number : largest(sources)) {
    files[number] = rows_.size();
    rows_.push_back({.name = sources[number].name, .channel = sources[number].channel});
  }
  const size_t others = rows_.size();
  if (files.size() < sources.size()) rows_.emplace_back();

  for (size_t number = 0; number < sources.size(); ++number) {
    const Source& source = sources[number];
    const auto own = files.find(number);
    rows_of_sources_.push_back({channels.at(source.channel), own == files.end() ? others : own->second});
    for (const size_t row : rows_of_sources_.back()) {
      ++rows_[row].files;
      rows_[row].input.documents += source.documents;
      rows_[row].input.bytes += source.text_bytes;
    }
    for (uint64_t document = source.first; document < source.first + source.documents; ++document)
      if (built.verdicts.kept(document))
        for (const size_t row : rows_of_sources_.back())
          rows_[row].kept.add(built.verdicts.text_bytes(document));
  }
}

std::array<SourceReport*, 2> SourceTable::of(uint64_t document) {
  const std::vector<Source>& sources = built_.parts.sources;
  const auto behind =
      std::upper_bound(sources.begin(), sources.end(), document,
                       [](uint64_t number, const Source& source) { return number < source.first; });
  const auto& rows = rows_of_sources_[static_cast<size_t>(behind - sources.begin() - 1)];
  return {&rows_[rows[0]], &rows_[rows[1]]};
}

void SourceTable::look_at_samples(Env& env) {
  std::vector<Draw> draws;
  for (size_t row = 0; row < rows_.size(); ++row)
    draws.emplace_back("texts that a report looks at",
                       row < num_channels_ ? kChannelSampleBytes : kFileSampleBytes);
  for (size_t number = 0; number < rows_of_sources_.size(); ++number) {
    const Source& source = built_.parts.sources[number];
    for (uint64_t document = source.first; document < source.first + source.documents; ++document)
      if (built_.verdicts.kept(document))
        for (const size_t row : rows_of_sources_[number])
          draws[row].offer(document, std::min(built_.verdicts.text_bytes(document), kSampleDocumentBytes));
  }
  std::map<uint64_t, std::vector<size_t>> wanted;  // rows of drawn documents
  std::vector<size_t> left(rows_.size());
  for (size_t row = 0; row < rows_.size(); ++row)
    for (const uint64_t document : draws[row].documents()) wanted[document].push_back(row), ++left[row];
  std::vector<uint64_t> documents;
  for (const auto& [document, rows] : wanted) documents.push_back(document);
  // A file's documents are neighbours, so few rows are open at a time.
  std::map<size_t, TextStats> open;
  read_documents(env, built_, documents, [&](uint64_t number, const Document& document) {
    for (const size_t row : wanted.at(number)) {
      open[row].add(first_bytes(document.text, kSampleDocumentBytes));
      if (--left[row] > 0) continue;
      rows_[row].sample = summary(open[row]);
      open.erase(row);
    }
  });
}

std::vector<SourceReport> SourceTable::channels() const {
  return {rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(num_channels_)};
}

std::vector<SourceReport> SourceTable::files() const {
  return {rows_.begin() + static_cast<std::ptrdiff_t>(num_channels_), rows_.end()};
}

}  // namespace athanor::corpus::report
