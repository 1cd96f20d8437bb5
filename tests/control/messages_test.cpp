#include "athanor/control/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "athanor/base/error.h"

namespace athanor::tests::messages_test {
namespace {

using ::testing::HasSubstr;

const std::string kJob = "0123456789abcdef0123456789abcdef";

TEST(Messages, OfWorkersReadAsTheyWereWritten) {
  const WorkerMessage all[] = {
      Hello{.job = kJob, .worker = 7, .pid = 4242},
      Ready{},
      Ready{.generation = 12, .why = "rank 1 was lost: \"killed\"\n"},
      Begun{.generation = 3,
            .step = int64_t{1} << 40,
            .run_folder = "runs/\xc3\xa9t\xc3\xa9",
            .in_place = true},
      Saved{.generation = 2, .step = 7, .path = "runs/t/checkpoints/step_00000007"},
      Saved{.generation = 0, .step = 1, .error = "the disk is full"},
      Persist{.generation = 2,
              .step = 7,
              .files_bytes = 4096,
              .path = "runs/t/checkpoints/step_00000007",
              .metrics = "runs/t/metrics.jsonl"},
      Event{{.event = "guard", .step = 71, .cause = "a spike", .recover_seconds = 0.25, .lost_steps = 1}},
      Event{},
      Progress{.generation = 1,
               .step = 5,
               .kind = ProgressKind::step,
               .count = 9,
               .busy_ns = int64_t{1} << 50,
               .waited_ns = 7},
      Progress{.kind = ProgressKind::evaluation},
      Progress{.kind = ProgressKind::saving},
      Progress{.kind = ProgressKind::tokenizing},
      Progress{.kind = ProgressKind::closing},
      Progress{.kind = ProgressKind::other},
      WarmedUp{},
      WarmedUp{.round = 2, .matrix_gflop_per_s = 61.5, .memory_gb_per_s = 0.125, .disk_mb_per_s = 1e3},
      WarmedUp{.refusal = "no space", .hint = "make room", .warning = "no memory"},
      Farewell{},
      Farewell{.status = Status::interrupted, .cause = Cause::none, .what = "", .hint = ""},
      Farewell{.status = Status::failed, .cause = Cause::config, .what = "a", .hint = "b"},
      Farewell{.status = Status::failed, .cause = Cause::not_finite, .what = "loss", .hint = ""},
      Farewell{.status = Status::failed, .cause = Cause::io, .what = "disk", .hint = ""},
      Farewell{.status = Status::failed, .cause = Cause::peer, .what = "rank 1", .hint = ""},
      Farewell{.status = Status::failed, .cause = Cause::error, .what = "shape", .hint = ""},
      Farewell{.status = Status::failed, .cause = Cause::mismatch, .what = "other calls", .hint = ""},
      Farewell{.status = Status::failed, .cause = Cause::exhausted, .what = "no memory", .hint = ""},
  };
  for (const WorkerMessage& message : all) EXPECT_EQ(decode_worker_message(encode(message)), message);
}

TEST(Messages, OfAgentsReadAsTheyWereWritten) {
  const AgentMessage all[] = {
      Meet{.generation = 0, .rank = 0, .size = 1, .why = "", .left = {}},
      Meet{.generation = 9, .rank = 3, .size = 8, .why = "rank 3 died", .left = {3, 7}},
      Meet{.generation = 9, .rank = 0, .size = 1, .order = {.save = true, .rollback_step = 40}},
      Meet{.generation = 9, .rank = 0, .size = 1, .order = {.set = "optimizer.lr=1e-3"}},
      Stop{.signal = 15},
      End{.why = "the job has failed"},
      WarmUp{.round = 2},
      Persisted{.step = 7, .path = "runs/t/checkpoints/step_00000007"},
      Persisted{.step = 7, .path = "runs/t/checkpoints/step_00000007", .error = "the disk is full"},
  };
  for (const AgentMessage& message : all) EXPECT_EQ(decode_agent_message(encode(message)), message);
}

// The number of a message does not stand where one of its own fields is.
TEST(Messages, WithNumbersReadAsTheyWereWritten) {
  const WorkerMessage all[] = {Ready{}, Begun{},    Saved{},    Persist{},
                               Event{}, Progress{}, WarmedUp{}, Farewell{}};
  for (const WorkerMessage& message : all) {
    const NumberedMessage read = decode_numbered_message(encode(message, 77));
    EXPECT_EQ(read.message, message);
    EXPECT_EQ(read.number, 77);
  }
}

TEST(Messages, FieldsOfOtherVersionsAreIgnored) {
  EXPECT_EQ(decode_agent_message(R"({"message":"end","why":"x","new":[{"a":1}]})"),
            AgentMessage(End{.why = "x"}));
}

TEST(Messages, LongTextsAreCutBetweenCharacters) {
  std::string what(kTextBytes - 1, 'x');
  what += "\xc3\xa9";
  const auto cut = decode_worker_message(encode(Farewell{.status = Status::failed, .what = what}));
  EXPECT_EQ(std::get<Farewell>(cut).what, std::string(kTextBytes - 1, 'x'));
  // What is no UTF-8 must not stop last words.
  const auto bytes = decode_worker_message(encode(Farewell{.status = Status::failed, .what = "a\xff!"}));
  EXPECT_EQ(std::get<Farewell>(bytes).what, "a\xef\xbf\xbd!");
}

std::string refusal(const std::function<void()>& decode) {
  try {
    decode();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Messages, OfWorkersAreRefusedByField) {
  const std::string hello = R"({"message":"hello","version":1,"worker":0,"pid":1,"job":")";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no JSON object"},
      {"{", "no JSON object"},
      {"[]", "no JSON object"},
      {"{\"message\":\"end\",\"why\":\"\xff\"}", "no JSON object"},
      {std::string(60000, '['), "no JSON object"},
      {"{}", "message: is missing"},
      {R"({"message":3})", "message: got number, expected a text"},
      {R"({"message":"end","why":""})", "'end': message: which no worker sends"},
      {R"({"message":"hello"})", "'hello': version: is missing"},
      {R"({"message":"hello","version":2})",
       "'hello': version: got 2, expected 1: the worker is another program"},
      {R"({"message":"hello","version":1})", "job: is missing"},
      {hello + "short\"}", "job: expected 32 hexadecimal digits"},
      {hello + std::string(32, 'G') + "\"}", "job: expected 32 hexadecimal digits"},
      {R"({"message":"hello","version":1,"worker":-1,"pid":1,"job":")" + kJob + "\"}", "worker: got -1"},
      {R"({"message":"hello","version":1,"worker":1e3,"pid":1,"job":")" + kJob + "\"}",
       "worker: got number, expected an integer"},
      {R"({"message":"hello","version":1,"worker":1,"pid":0,"job":")" + kJob + "\"}", "pid: got 0"},
      {R"({"message":"ready","generation":-2,"why":""})", "generation: got -2, expected -1 to"},
      {R"({"message":"ready","generation":18446744073709551615,"why":""})",
       "generation: got 18446744073709551615"},
      {R"({"message":"ready","generation":true,"why":""})", "generation: got boolean"},
      {R"({"message":"ready","generation":1})", "why: is missing"},
      {R"({"message":"ready","generation":1,"why":")" + std::string(kTextBytes + 1, 'x') + "\"}",
       "why: got 4097 bytes, expected at most 4096"},
      {R"({"message":"begun","generation":-1,"step":0,"run_folder":""})", "generation: got -1"},
      {R"({"message":"begun","generation":0,"step":-1,"run_folder":""})", "step: got -1"},
      {R"({"message":"begun","generation":0,"step":0,"run_folder":7})", "run_folder: got number"},
      {R"({"message":"saved","generation":0,"step":1,"path":""})", "error: is missing"},
      {R"({"message":"progress","generation":0,"step":0,"kind":"sleep","count":0})", "kind: got 'sleep'"},
      {R"({"message":"progress","generation":0,"step":0,"kind":"step","count":-1})", "count: got -1"},
      {R"({"message":"progress","generation":0,"step":0,"kind":"step","count":1,"busy_ns":-1,"waited_ns":0})",
       "busy_ns: got -1"},
      {R"({"message":"progress","generation":0,"step":0,"kind":"step","count":1,"busy_ns":1})", "waited_ns"},
      {R"({"message":"warmed-up","round":0,"matrix_gflop_per_s":-2})", "matrix_gflop_per_s: got -2"},
      {R"({"message":"farewell","status":"well","cause":"none","what":"","hint":""})", "status: got 'well'"},
      {R"({"message":"farewell","status":"failed","cause":"bad","what":"","hint":""})", "cause: got 'bad'"},
      {R"({"message":"farewell","status":"failed","cause":"io","what":null,"hint":""})", "what: got null"},
      {R"({"message":"farewell","status":"failed","cause":"io","what":""})", "hint: is missing"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(refusal([&, t = text] { decode_worker_message(t); }), HasSubstr(expected))
        << text.substr(0, 100);
}

TEST(Messages, OfAgentsAreRefusedByField) {
  std::string many = R"({"message":"meet","generation":0,"rank":0,"size":1,"why":"","left":[0)";
  for (int i = 0; i < kMostLeft; ++i) many += ",0";
  const std::pair<std::string, std::string> cases[] = {
      {R"({"message":"ready","generation":1,"why":""})", "'ready': message: which no agent sends"},
      {R"({"message":"meet","generation":0,"size":0,"rank":0,"why":"","left":[]})", "size: got 0"},
      {R"({"message":"meet","generation":0,"size":2000000,"rank":0,"why":"","left":[]})",
       "size: got 2000000"},
      {R"({"message":"meet","generation":0,"size":2,"rank":2,"why":"","left":[]})",
       "rank: got 2, expected 0 to 1"},
      {R"({"message":"meet","generation":0,"size":2,"rank":1,"why":"","left":1})", "left: expected an array"},
      {R"({"message":"meet","generation":0,"size":2,"rank":1,"why":"","left":["a"]})", "left: got string"},
      {R"({"message":"meet","generation":0,"size":2,"rank":1,"why":"","left":[-1]})", "left: got -1"},
      {many + "]}", "left: expected an array of at most 240 ranks"},
      {R"({"message":"meet","generation":0,"size":1,"rank":0,"why":"","left":[],"save":1})",
       "save: got number"},
      {R"({"message":"meet","generation":0,"size":1,"rank":0,"why":"","left":[],"save":true,"rollback_step":-2})",
       "rollback_step: got -2"},
      {R"({"message":"stop","signal":0})", "signal: got 0"},
      {R"({"message":"stop","signal":65})", "signal: got 65"},
      {R"({"message":"end"})", "why: is missing"},
      {R"({"message":"warm-up","round":-1})", "round: got -1"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(refusal([&, t = text] { decode_agent_message(t); }), HasSubstr(expected))
        << text.substr(0, 100);
}

}  // namespace
}  // namespace athanor::tests::messages_test
