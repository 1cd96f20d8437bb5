// The page of a run and its pieces: sound markup, harmless texts, extremes that stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <limits>

#include "athanor/observe/html/page.h"
#include "athanor/observe/html/series.h"
#include "athanor/observe/html/text.h"
#include "athanor/observe/html/timeline.h"

namespace athanor::tests::html_test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace html = observe::html;

constexpr const char* kEvil = "<script>alert('x')</script>\"&";

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

// Every tag is closed in its order, quotes and ampersands are sound; "" if so.
std::string unsound(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&' && text.find(';', at) > at + 6) return "a bare & at " + text.substr(at, 40);
    if (text[at] != '<') continue;
    if (text.compare(at, 2, "<!") == 0) continue;
    size_t end = at + 1;
    char quote = 0;
    for (; end < text.size() && (quote != 0 || text[end] != '>'); ++end) {
      if (text[end] == '<') return "a < within " + text.substr(at, 60);
      if (quote == 0 && text[end] == '"')
        quote = '"';
      else if (text[end] == quote)
        quote = 0;
    }
    if (end == text.size()) return "not closed: " + text.substr(at, 40);
    const bool closes = text[at + 1] == '/';
    size_t last = at + (closes ? 2 : 1);
    const size_t first = last;
    while (last < end && std::isalnum(static_cast<unsigned char>(text[last])) != 0) ++last;
    const std::string name = text.substr(first, last - first);
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
    } else if (text[end - 1] != '/') {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty() ? "" : open.back() + " stays open";
}

void expect_sound(const std::string& text) {
  EXPECT_EQ(unsound(text), "");
  for (const char* word : {"<script", "href=", "src=", "url(", "@import", ">nan<", "inf ", "nan "})
    EXPECT_EQ(count(text, word), 0u) << word;
}

html::Page page_of(const html::Series& series) {
  return {.title = "first", .status = "finished", .charts = series.charts({})};
}

StepMetrics step_of(int64_t step, double loss) {
  return {
      .step = step, .tokens = 10 * step, .loss = loss, .grad_norm = 1, .lr = 0.1, .tokens_per_second = 50};
}

TEST(HtmlText, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(html::escaped("<a b='c' d=\"e\">&\x1b"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;?");
  EXPECT_EQ(html::short_number(std::nan("")), "–");
  EXPECT_EQ(html::short_number(40062.6), "40,063");
}

TEST(HtmlThinned, KeepsExtremesOfALongSeries) {
  html::Thinned series;
  constexpr int64_t kSteps = 1'000'000, kHigh = 700'001, kLow = 123'457;
  for (int64_t i = 1; i <= kSteps; ++i)
    series.add(static_cast<double>(i), i == kHigh ? 9 : i == kLow ? -9 : std::sin(static_cast<double>(i)));
  const std::vector<CurvePoint> points = series.points();
  EXPECT_LE(points.size(), 2 * html::Thinned::kMostBuckets);
  EXPECT_GE(points.size(), html::Thinned::kMostBuckets / 2);
  double low_x = 0, high_x = 0, before = 0;
  for (const auto& [x, value] : points) {
    EXPECT_GT(x, before);
    before = x;
    if (value == 9) high_x = x;
    if (value == -9) low_x = x;
  }
  EXPECT_EQ(high_x, kHigh);
  EXPECT_EQ(low_x, kLow);
}

TEST(HtmlThinned, AShortSeriesStaysWholeWithItsGaps) {
  html::Thinned series;
  for (const double value : {3.0, std::nan(""), 1.0}) series.add(value == value ? value : 2, value);
  ASSERT_EQ(series.points().size(), 3u);
  EXPECT_TRUE(std::isnan(series.points()[1].value));
  EXPECT_EQ(series.last(), 1.0);
}

TEST(HtmlPage, OfNothingAndOfOneStepIsSound) {
  expect_sound(html::page({}));
  expect_sound(html::page(page_of({})));
  html::Series one;
  one.take(step_of(1, 5.25));
  const std::string text = html::page(page_of(one));
  expect_sound(text);
  EXPECT_THAT(text, HasSubstr("train <b>5.25</b>"));
  EXPECT_THAT(text, HasSubstr("class=\"d c0\""));  // a single point is a dot
}

TEST(HtmlPage, ValuesThatAreNotFiniteLeaveGaps) {
  html::Series series;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double loss : {5.0, 4.0, std::nan(""), infinity, 3.0, 2.0})
    series.take(step_of(series.last_step() + 1, loss));
  const std::string text = html::chart(series.charts({})[0]);
  expect_sound(text);
  const size_t path = text.find("class=\"l c0\"");
  ASSERT_NE(path, std::string::npos);
  EXPECT_EQ(count(text.substr(path, text.find("/>", path) - path), "M"), 2u);
}

TEST(HtmlPage, NamesOfARunAreHarmlessEverywhere) {
  html::Series series;
  for (int64_t step = 1; step <= 3; ++step) {
    StepMetrics m = step_of(step, 4);
    m.channel_loss = {{kEvil, 4}, {"b", 3}};
    m.valid_loss = 4;
    m.valid_channel_loss = m.channel_loss;
    series.take(m);
  }
  const html::Page page{.title = kEvil,
                        .status = kEvil,
                        .reason = kEvil,
                        .time = kEvil,
                        .figures = {{kEvil, kEvil}},
                        .notes = {kEvil},
                        .charts = series.charts({{1, kEvil, true}, {2, kEvil, false}}),
                        .events = {{.event = "start", .time = 1},
                                   {.event = "failure", .cause = kEvil, .time = 2},
                                   {.event = kEvil, .cause = kEvil, .time = 3}},
                        .facts = {{kEvil, {{kEvil, kEvil}}}}};
  const std::string text = html::page(page);
  expect_sound(text);
  EXPECT_GE(count(text, "&lt;script&gt;"), 14u);
}

TEST(HtmlPage, ShowsStepsDoneInVainAndPhases) {
  html::Series series;
  for (int64_t step = 1; step <= 6; ++step) series.take(step_of(step, 4));
  for (const int64_t step : {4, 5, 4}) series.take_abandoned(step_of(step, 3.5));
  const std::string text = html::chart(series.charts({{0, "warm-up", false}, {2.5, "stable", false}})[0]);
  expect_sound(text);
  EXPECT_THAT(text, HasSubstr("done in vain <b>3.5</b>"));
  EXPECT_THAT(text, HasSubstr(">warm-up</span>"));
  EXPECT_THAT(text, HasSubstr("style=\"left:30.00%\">stable</span>"));
}

TEST(HtmlTimeline, TellsIncidentsOfSeveralLaunches) {
  const std::vector<RunEvent> events = {
      {.event = "start", .time = 100},
      {.event = "failure", .step = 41, .rank = 1, .cause = "killed", .detect_seconds = 0.25, .time = 110},
      {.event = "restart", .step = 41, .rank = 1, .time = 110},
      {.event = "recovered", .step = 41, .recover_seconds = 2, .lost_steps = 3, .time = 112},
      {.event = "failure", .step = 50, .rank = 0, .cause = "open", .time = 120},
      {.event = "end", .cause = "failed", .time = 120},
      {.event = "start", .time = 1'000'000},
      {.event = "recovered", .recover_seconds = 7, .time = 1'000'001},
      {.event = "checkpoint", .step = 60, .time = 1'000'020},
      {.event = "end", .cause = "finished", .time = 1'000'020}};
  const std::string table = html::incident_table(events), lanes = html::timeline(events),
                    lost = html::lost_time(events);
  for (const std::string& text : {table, lanes, lost}) expect_sound(text);
  EXPECT_EQ(count(table, "<tr>"), 3u);
  EXPECT_THAT(table, HasSubstr("data-label=\"recovered in\" class=\"n\">2.0s<"));
  EXPECT_THAT(table, HasSubstr("data-label=\"lost steps\" class=\"n\">3<"));
  EXPECT_THAT(lost, Not(HasSubstr("7.0s")));  // the next launch does not end what was open in this one
  EXPECT_THAT(lanes, HasSubstr("failures <b>2</b>"));
  // The days between the launches take little room: the second start lies in the middle.
  EXPECT_THAT(lanes, HasSubstr("left:51.46%\" title=\"1970-01-12"));
}

}  // namespace
}  // namespace athanor::tests::html_test
