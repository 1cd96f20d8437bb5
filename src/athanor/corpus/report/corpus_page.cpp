#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "athanor/base/human.h"
#include "athanor/corpus/report/corpus_report.h"
#include "athanor/observe/html/frame.h"
#include "athanor/observe/html/text.h"

namespace athanor::corpus::report {
namespace {

using observe::html::escaped;
using observe::html::short_number;

constexpr size_t kColumns = 48;  // of a histogram

constexpr const char* kCorpusStyle = R"(
.funnel td:nth-child(2){width:34%}.funnel i{display:block;height:.85rem;border-radius:3px;background:var(--c1);min-width:1px}
.funnel tr.reason td{border-bottom-style:dotted;color:var(--muted);font-size:.85rem}.funnel tr.reason i{background:var(--c2);opacity:.75}
.funnel tr.reason td:first-child{padding-left:1.6rem}
.bins{display:flex;align-items:flex-end;height:110px;gap:1px;position:relative;margin:.6rem 0 .2rem}
.bins i{flex:1;background:var(--c1);min-height:0;border-radius:2px 2px 0 0}.bins i.out{background:var(--c2);opacity:.8}
.bins u{position:absolute;top:0;bottom:0;border-left:2px dashed var(--c3)}
.scale{display:flex;justify-content:space-between;color:var(--muted);font-size:.75rem}
.formula{color:var(--muted);font-size:.8rem}details{margin:.4rem 0}summary{cursor:pointer}
.wide{overflow-x:auto}.wide td:first-child{min-width:9rem}.wide th.n{white-space:normal}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--back);border:1px solid var(--rule);border-radius:8px;padding:.6rem;
font:12.5px/1.45 ui-monospace,'DejaVu Sans Mono',monospace;margin:.4rem 0}
)";

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string count(uint64_t value) {
  return with_commas(static_cast<int64_t>(value));
}

std::string bytes(uint64_t value) {
  return human_bytes(static_cast<double>(value));
}

std::string funnel_row(const char* kind, const std::string& name, const Amount& amount, const Amount& input) {
  return fmt::format(
      "<tr class=\"{}\"><td>{}</td><td><i style=\"width:{:.2f}%\"></i></td><td class=\"n\">{}</td>"
      "<td class=\"n\">{}</td><td class=\"n\">{:.1f} %</td></tr>\n",
      kind, escaped(name), share_of(amount.bytes, input.bytes), count(amount.documents), bytes(amount.bytes),
      share_of(amount.bytes, input.bytes));
}

std::string funnel(const CorpusReport& report) {
  std::string text =
      "<h2>Funnel</h2><section class=\"box\"><table class=\"funnel\"><thead><tr><th>after stage; dropped by "
      "rule</th>"
      "<th></th><th class=\"n\">documents</th><th class=\"n\">text</th><th class=\"n\">of the "
      "input</th></tr></thead><tbody>\n";
  text += funnel_row("stage", "read", report.input, report.input);
  for (const StageReport& stage : report.stages) {
    text += funnel_row("stage", stage.name, stage.left, report.input);
    for (const ReasonReport& reason : stage.reasons)
      text += funnel_row("reason", "− " + reason.name, reason.dropped, report.input);
  }
  return text + "</tbody></table></section>\n";
}

std::string languages(const TextSample& sample) {
  constexpr size_t kShownLanguages = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShownLanguages, sample.languages.size()); ++i)
    text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", escaped(sample.languages[i].first),
                        100 * sample.languages[i].second);
  return text;
}

std::string name_of(const SourceReport& source) {
  if (!source.name.empty()) return source.name;
  return fmt::format("{} other file{}", count(source.files), source.files == 1 ? "" : "s");
}

std::string source_row(const SourceReport& source, const std::string& place) {
  const TextSample& sample = source.sample;
  std::string text = fmt::format(
      "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f} %</td>"
      "<td class=\"n\">{} of {}</td>",
      escaped(name_of(source)), escaped(place), bytes(source.input.bytes), bytes(source.kept.bytes),
      share_of(source.kept.bytes, source.input.bytes), count(source.kept.documents),
      count(source.input.documents));
  if (sample.text.documents == 0) return text + "<td></td><td></td><td></td><td></td></tr>\n";
  return text + fmt::format(
                    "<td class=\"n\">{:.1f} %</td><td class=\"n\">{:.2f} ×</td><td class=\"n\">{:.1f} %</td>"
                    "<td>{}</td></tr>\n",
                    100 * sample.distinct_words, sample.compression, 100 * sample.copies, languages(sample));
}

std::string sources_head(const char* name, const char* place) {
  return fmt::format(
      "<table><thead><tr><th>{}</th><th>{}</th><th class=\"n\">read</th><th class=\"n\">kept</th><th "
      "class=\"n\">share</th><th class=\"n\">documents</th><th class=\"n\">distinct words</th><th "
      "class=\"n\">zstd</th><th class=\"n\">copies</th><th>languages</th></tr></thead><tbody>\n",
      name, place);
}

// A row for each score, a column for each channel or file.
std::string means_table(const CorpusReport& report, const std::vector<SourceReport>& sources, bool is_open) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> cells;
  for (size_t i = 0; i < sources.size(); ++i)
    for (const auto& [name, means] : means_by_name(report, sources[i])) {
      auto& row = cells[name];
      if (row.empty()) names.push_back(name), row.resize(sources.size());
      row[i] = short_number(means.read.value()) + " → " + short_number(means.kept.value());
    }
  if (names.empty()) return "";
  std::string text = fmt::format(
      "<details{}><summary>Quality: the mean of each score over the documents read → kept</summary><div "
      "class=\"wide\"><table><thead><tr><th>score</th>",
      is_open ? " open" : "");
  for (const SourceReport& source : sources)
    text += fmt::format("<th class=\"n\">{}</th>", escaped(name_of(source)));
  text += "</tr></thead><tbody>\n";
  for (const std::string& name : names) {
    text += fmt::format("<tr><td>{}</td>", escaped(name));
    for (const std::string& cell : cells[name]) text += fmt::format("<td class=\"n\">{}</td>", cell);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div></details>\n";
}

std::string channels(const CorpusReport& report) {
  std::string text =
      "<h2>Channels</h2><section class=\"box\"><div class=\"wide\">" + sources_head("channel", "shards");
  for (const SourceReport& channel : report.channels) text += source_row(channel, count(channel.shards));
  text += "</tbody></table></div>\n" + means_table(report, report.channels, true);
  return text +
         fmt::format(
             "<p class=\"muted\">Distinct words, how many times smaller zstd makes the text, copies and "
             "languages are those of a sample of the kept texts: at most {} of a channel, {} of a file, "
             "the first {} of a document.</p></section>\n",
             bytes(kChannelSampleBytes), bytes(kFileSampleBytes), bytes(kSampleDocumentBytes));
}

std::string sources(const CorpusReport& report) {
  if (report.sources.empty()) return "";
  std::string text = "<h2>Files with most text</h2><section class=\"box\"><div class=\"wide\">" +
                     sources_head("file", "channel");
  for (const SourceReport& source : report.sources) text += source_row(source, source.channel);
  return text + "</tbody></table></div>\n" + means_table(report, report.sources, false) + "</section>\n";
}

// The range that is shown: nearly all values, and thresholds unless they are far from all of them.
std::pair<double, double> shown_range(const ScoreReport& score) {
  double low = score.histogram.quantile(0.005), high = score.histogram.quantile(0.995);
  for (const double limit : {score.least, score.most}) {
    const double far = 3 * std::max(std::fabs(score.histogram.least()), std::fabs(score.histogram.most()));
    if (!std::isfinite(limit) || (far > 0 && std::fabs(limit) > far)) continue;
    low = std::min(low, limit), high = std::max(high, limit);
  }
  if (high > low) return {low, high};
  return {low - 0.5, high + 0.5};
}

std::string histogram(const ScoreReport& score) {
  const auto [low, high] = shown_range(score);
  const std::vector<uint64_t> bins = score.histogram.even_bins(kColumns, low, high);
  const uint64_t tallest = std::max<uint64_t>(1, *std::max_element(bins.begin(), bins.end()));
  std::string text =
      fmt::format("<figure><figcaption>{}</figcaption><div class=\"formula\">{}</div><div class=\"bins\">",
                  escaped(score.name), escaped(score.formula));
  for (size_t i = 0; i < bins.size(); ++i) {
    const double middle = low + (high - low) * (static_cast<double>(i) + 0.5) / static_cast<double>(kColumns);
    const bool out = middle < score.least || middle > score.most;
    // A bin that holds anything is seen.
    const double height = bins[i] == 0 ? 0 : std::max(1.5, share_of(bins[i], tallest));
    text += fmt::format("<i class=\"{}\" style=\"height:{:.1f}%\" title=\"{} documents near {}\"></i>",
                        out ? "out" : "in", height, count(bins[i]), short_number(middle));
  }
  for (const double limit : {score.least, score.most})
    if (limit >= low && limit <= high)
      text += fmt::format("<u style=\"left:{:.2f}%\"></u>", 100 * (limit - low) / (high - low));
  std::string rule;
  if (std::isfinite(score.least)) rule += " at least " + short_number(score.least);
  if (std::isfinite(score.most))
    rule += (rule.empty() ? " at most " : ", at most ") + short_number(score.most);
  return text + fmt::format(
                    "</div><div class=\"scale\"><span>{}</span><span>median "
                    "{}{}</span><span>{}</span></div></figure>\n",
                    short_number(low), short_number(score.histogram.quantile(0.5)),
                    rule.empty() ? "" : "; kept:" + rule, short_number(high));
}

std::string examples(const CorpusReport& report) {
  std::string text = "<h2>What was dropped</h2><section class=\"box\">\n";
  bool any = false;
  for (const StageReport& stage : report.stages)
    for (const ReasonReport& reason : stage.reasons) {
      any = true;
      text += fmt::format("<details><summary>{} <span class=\"muted\">{} documents, {}</span></summary>\n",
                          escaped(reason.name), count(reason.dropped.documents), bytes(reason.dropped.bytes));
      for (const DroppedExample& example : reason.examples)
        text += "<div class=\"formula\">" + escaped(example.id) + "</div><pre>" + escaped(example.text) +
                "</pre>\n";
      text += "</details>\n";
    }
  if (!any) text += "<p class=\"none\">nothing</p>";
  return text + "</section>\n";
}

std::string refused(const CorpusReport& report) {
  if (report.refused.empty() && report.left_out.empty()) return "";
  std::string text =
      "<h2>What is no document</h2><section class=\"box\"><table><thead><tr><th>reason</th><th "
      "class=\"n\">records</th>"
      "<th>first places</th></tr></thead><tbody>\n";
  for (const auto& [reason, entry] : report.refused) {
    std::string places;
    for (const RefusedExample& example : entry.examples)
      places +=
          fmt::format("{}{}:{} {}", places.empty() ? "" : "; ", example.file, example.line, example.detail);
    text += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n", escaped(reason),
                        with_commas(entry.count), escaped(places));
  }
  for (const auto& [file, reason] : report.left_out)
    text += "<tr><td>left out: " + escaped(reason) + "</td><td></td><td>" + escaped(file) + "</td></tr>\n";
  return text + "</tbody></table></section>\n";
}

}  // namespace

std::string report_page(const CorpusReport& report) {
  std::string text = observe::html::page_start("corpus " + report.name, "finished", "", kCorpusStyle);
  text += observe::html::figures(
      {{"kept", fmt::format("{:.1f} %", share_of(report.kept.bytes, report.input.bytes))},
       {"text", bytes(report.kept.bytes)},
       {"documents", count(report.kept.documents)},
       {"read", bytes(report.input.bytes)},
       {"files", count(report.files)},
       {"taken out of texts", bytes(report.edited_bytes)},
       {"time", human_seconds(report.seconds)}});
  text += funnel(report) + channels(report) + sources(report);
  text += "<h2>Scores</h2><section class=\"charts\">\n";
  for (const ScoreReport& score : report.scores)
    if (score.histogram.count() > 0) text += histogram(score);
  return text + "</section>\n" + examples(report) + refused(report) + observe::html::page_end();
}

}  // namespace athanor::corpus::report
