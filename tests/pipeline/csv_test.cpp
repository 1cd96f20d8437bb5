// Schedules as files and as pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/pipeline/csv.h"
#include "athanor/pipeline/draw.h"

namespace athanor::tests::csv_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Csv, ReadsWhatItWrote) {
  for (const std::string& name : schedule_names())
    for (const int p : {1, 2, 5})
      for (const int m : {1, 4, 13}) {
        const Schedule schedule = make_schedule(name, {p, m, 0});
        EXPECT_EQ(parse_csv(to_csv(schedule), name), schedule) << name;
      }
}

TEST(Csv, TheFormat) {
  const Schedule schedule = make_schedule("zb-h1", {.ranks = 2, .micro_batches = 2});
  EXPECT_THAT(to_csv(schedule), HasSubstr("\n0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"));
  EXPECT_EQ(parse_csv("\n# mine\r\n 0F0 ,,0F1, 0I0,0W0,0I1,0W1,\r\n\n1F0,1I0,1F1,1I1,1W0,1W1", "zb-h1"),
            schedule);
}

std::string refusal_of_text(std::string_view text) {
  try {
    parse_csv(text, "mine.csv");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Csv, RefusalsNameLineAndCell) {
  EXPECT_THAT(refusal_of_text(""), HasSubstr("schedule 'mine.csv': got no ranks"));
  EXPECT_THAT(refusal_of_text("# nothing\n"), HasSubstr("got no ranks"));
  EXPECT_THAT(refusal_of_text("0F0,0B0\n\n1F0,1X0"),
              HasSubstr("line 3: got '1X0', expected an action such as 2F0"));
  for (const char* cell : {"F0", "0F", "0F0x", "-1F0", "0F-1", "0F0.5", "0f0", "99999999999F0",
                           "0F99999999999", "0F5000000", "(0F1;1B0)OVERLAP_F_B", "0", "\x1b[2J"})
    EXPECT_THAT(refusal_of_text(cell), HasSubstr("line 1: got '")) << cell;
  EXPECT_THAT(refusal_of_text("\x1b[2J"), Not(HasSubstr("\x1b")));
  EXPECT_THAT(refusal_of_text(std::string(10000, 'x')), ::testing::SizeIs(::testing::Lt(200)));
  EXPECT_THAT(refusal_of_text("0F0,0B0\n2F0,2B0"), HasSubstr("stage 1 has no actions, the last is 2"));
  EXPECT_THAT(refusal_of_text("0F0,0B0\n1F0"),
              HasSubstr("the B (or I) of stage 1, micro-batch 0 is missing"));
  EXPECT_THAT(refusal_of_text("0F0,0B0,1F0\n1B0,2F0"),
              HasSubstr("rank 1: action 0, 1B0: stage 1 is on rank 0"));
  EXPECT_THAT(refusal_of_text("4000000F4000000"), HasSubstr("stage 0 has no actions"));
  EXPECT_THROW(load_schedule(system_env(), "/nowhere/mine.csv"), IoError);
}

TEST(Draw, TextShowsEveryActionAndEveryWait) {
  const Schedule schedule = make_schedule("1f1b", {.ranks = 3, .micro_batches = 3});
  const Simulation run = simulate(schedule, uniform_costs(schedule, {}));
  EXPECT_EQ(draw_text(schedule, run, 100),
            "rank 0 | F0 F1 F2 ............B0    ...B1    ...B2\n"
            "rank 1 | ...F0 F1 ......B0    F2 B1    ...B2    ......\n"
            "rank 2 | ......F0 B0    F1 B1    F2 B2    ............\n");
}

TEST(Draw, TextGetsNarrow) {
  const Schedule schedule = make_schedule("zb-v", {.ranks = 2, .micro_batches = 120});
  const Simulation run = simulate(schedule, uniform_costs(schedule, {}));
  for (const int columns : {0, 10, 30, 80, 500, 100000}) {
    const std::string text = draw_text(schedule, run, columns);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      EXPECT_LE(end - at, static_cast<size_t>(std::max(columns, 10)));
  }
  EXPECT_THAT(draw_text(schedule, run, 100000), HasSubstr("f119"));  // the second stage of a rank
  EXPECT_THAT(draw_text(schedule, run, 100000), HasSubstr("F119"));
}

TEST(Draw, NothingTakesNoRoom) {
  const Schedule schedule = make_schedule("gpipe", {.ranks = 2, .micro_batches = 2});
  const Simulation run = simulate(schedule, uniform_costs(schedule, {0, 0, 0, 1}));
  EXPECT_EQ(draw_text(schedule, run, 80), "rank 0 | \nrank 1 | \n");
  EXPECT_THAT(draw_svg(schedule, run), HasSubstr("</svg>"));
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(Draw, SvgHasABoxForEachAction) {
  Schedule schedule = make_schedule("dualpipe-v", {.ranks = 3, .micro_batches = 7});
  schedule.name = "<&>";
  const std::string svg = draw_svg(schedule, simulate(schedule, uniform_costs(schedule, {})));
  size_t actions = 0;
  for (const auto& rank : schedule.ranks) actions += rank.size();
  EXPECT_EQ(count(svg, "<title>"), actions);
  EXPECT_EQ(count(svg, "<&>"), 0u);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(svg.find("http", svg.find("w3.org")), std::string::npos);  // no links
}

}  // namespace
}  // namespace athanor::tests::csv_test
