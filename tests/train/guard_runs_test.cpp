// Runs whose gradients, losses and data go wrong: what is transient leaves no trace in the bits, what is persistent ends the
// run, and what a guard decides is a list that one process follows to the same bits.
#include <gmock/gmock.h>

#include <cstring>
#include <list>

#include "athanor/base/error.h"
#include "athanor/parallel/data/not_finite.h"
#include "athanor/run/decisions/decision_log.h"
#include "train/held_slots.h"
#include "train/hooked_world.h"
#include "train/replaced_ranks.h"
#include "train/whole_run.h"
#include "train/worlds_in_turn.h"

namespace athanor::tests::guard_runs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// NaN in what a rank gives to some calls of a name: [first, last], from 1.
struct Planted {
  std::string call;
  int rank = 0, first = 1, last = 1;
};

// Of all groups of a rank.
struct Poison {
  Planted planted;
  int calls = 0;
  void act(const std::string& name, const void* given, size_t element) {
    if (!name.starts_with(planted.call) || given == nullptr) return;
    if (++calls < planted.first || calls > planted.last) return;
    std::memset(const_cast<void*>(given), 0xff, element);  // a NaN of any kind
  }
};

class PoisonedGroup final : public Group {
 public:
  PoisonedGroup(Group& real, Poison& poison) : real_(real), poison_(poison) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    poison_.act(call.name, buffers.in != nullptr ? buffers.in : buffers.out, size_of(call.dtype));
    return real_.start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  Group& real_;
  Poison& poison_;
};

class PoisonedWorld final : public World {
 public:
  PoisonedWorld(World& real, Poison& poison) : real_(real), poison_(poison), all_(real.all(), poison) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  int generation() const override { return real_.generation(); }
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return real_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    kept_.push_back(real_.make_group(std::move(members), std::move(name)));
    return std::make_unique<PoisonedGroup>(*kept_.back(), poison_);
  }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  World& real_;
  Poison& poison_;
  PoisonedGroup all_;
  std::list<std::unique_ptr<Group>> kept_;
};

struct Told {
  TrainReport report;
  std::string shown, error;  // by rank 0; by the rank that failed first
};

Told train_with(const WholeRun& run, const Planted& planted = {"no such call"},
                const std::function<void(int rank, TrainIo&)>& change_io = {}) {
  Told told;
  std::vector<Poison> poisons(static_cast<size_t>(run.ranks), Poison{{.call = "no such call"}});
  poisons[static_cast<size_t>(planted.rank)].planted = planted;
  try {
    told.report = run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
      Console console{{.write = [&](std::string_view more) { told.shown += more; }}};
      if (world.rank() == 0) io.console = &console;
      if (change_io) change_io(world.rank(), io);
      PoisonedWorld poisoned(world, poisons[static_cast<size_t>(world.rank())]);
      return athanor::run::train(config, poisoned, io);
    });
  } catch (const std::exception& error) {
    told.error = error.what();
  }
  return told;
}

std::vector<RunEvent> acts_of_guards(const WholeRun& run) {
  std::vector<RunEvent> acts = read_events(system_env().read_text(run.file(kEventsName)));
  std::erase_if(acts, [](const RunEvent& event) { return event.event != "guard"; });
  return acts;
}

struct Case {
  const char* name;
  Planted planted;
  std::function<void(Config& config)> change = [](Config&) {};
  int ranks = 2;
};
void PrintTo(const Case& row, std::ostream* out) {
  *out << row.name;
}

class Transient : public testing::TestWithParam<Case> {};

TEST_P(Transient, RunsTheStepAgainToTheSameBits) {
  const Case& row = GetParam();
  WholeRun calm(row.ranks), disturbed(row.ranks);
  row.change(calm.config);
  row.change(disturbed.config);
  calm.train(system_env());
  const Told told = train_with(disturbed, row.planted);
  ASSERT_EQ(told.error, "");
  EXPECT_EQ(told.report.status, "finished");
  EXPECT_THAT(told.shown, HasSubstr("not finite"));
  EXPECT_THAT(told.shown, HasSubstr("run again, it is finite: the fault was transient"));
  EXPECT_EQ(disturbed.history(), calm.history());
  EXPECT_FALSE(system_env().exists(disturbed.file("decisions.jsonl")) &&
               !system_env().read_text(disturbed.file("decisions.jsonl")).empty());
}

INSTANTIATE_TEST_SUITE_P(
    NotFinite, Transient,
    testing::Values(
        Case{"in_the_first_step", {"gradients", 0, 1, 1}}, Case{"on_another_rank", {"gradients", 1, 3, 3}},
        Case{"in_the_losses", {"losses", 0, 2, 2}},
        Case{"zero_2", {"gradients", 1, 4, 4}, [](Config& c) { c.parallel.zero_stage = 2; }},
        Case{"zero_3", {"gradients", 1, 4, 4}, [](Config& c) { c.parallel.zero_stage = 3; }},
        Case{"with_slots", {"gradients", 0, 3, 3}, [](Config& c) { c.snapshot.mode = "slots"; }},
        Case{"tensor_parallel", {"gradient norm", 0, 2, 2}, [](Config& c) { c.parallel.tp = 2; }},
        Case{"pipeline",
             {"norms of stages", 1, 2, 2},
             [](Config& c) {
               c.model.num_hidden_layers = 2;
               c.parallel.pp = 2;
             }},
        // Error feedback has changed by then: the run goes back to what has the step before.
        Case{"compressed_with_slots",
             {"losses", 0, 3, 3},
             [](Config& c) {
               c.compression.method = "int8";
               c.compression.warmup_steps = 1;
               c.snapshot.mode = "slots";
             }},
        Case{"compressed_to_a_checkpoint",
             {"losses", 0, 4, 4},
             [](Config& c) {
               c.compression.method = "int8";
               c.compression.warmup_steps = 1;
               c.checkpoint.every_steps = 2;
             }},
        Case{"replica_groups", {"losses", 1, 3, 3}, [](Config& c) { c.local_sgd.sync_interval = 2; }},
        Case{"half_precision", {"losses", 0, 3, 3}, [](Config& c) { c.precision.compute = "f16"; }}),
    [](const testing::TestParamInfo<Case>& row) { return row.param.name; });

TEST(NotFinite, WhatIsNotFiniteAgainEndsTheRun) {
  const WholeRun run(2);
  const Told told = train_with(run, {"gradients", 0, 1, 1000});
  EXPECT_THAT(told.error, HasSubstr("step 1: the gradient of '"));
  EXPECT_THAT(told.error, HasSubstr("also when the step ran again"));
  EXPECT_THAT(told.shown, HasSubstr("the step runs again"));
  EXPECT_THAT(told.shown, Not(HasSubstr("transient")));
}

TEST(NotFinite, OffEndsTheRunAtOnce) {
  WholeRun run(2);
  run.config.guard.not_finite = "off";
  const Told told = train_with(run, {"gradients", 0, 3, 3});
  EXPECT_THAT(told.error, HasSubstr("is not finite"));
  EXPECT_THAT(told.error, Not(HasSubstr("again")));
  EXPECT_THAT(told.shown, Not(HasSubstr("again")));
}

TEST(NotFinite, WarnTellsThatItWasTransientAndEndsTheRun) {
  WholeRun run(2);
  run.config.guard.not_finite = "warn";
  const Told told = train_with(run, {"gradients", 0, 3, 3});
  EXPECT_THAT(told.error, HasSubstr("the fault was transient; guard.not_finite = \"act\" would go on"));
}

// What only one rank sees, as where the transport gives it other bits.
TEST(NotFinite, OneRankIsNamed) {
  const WholeRun run(3);
  std::string shown;
  run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
    Console console{{.write = [&](std::string_view more) { shown += more; }}};
    if (world.rank() == 0) io.console = &console;
    HookedWorld hooked(world,
                       {.call = "gradients",
                        .change = [&, calls = std::make_shared<int>(0)](std::span<std::byte> data, size_t) {
                          if (world.rank() == 1 && ++*calls == 1) std::ranges::fill(data, std::byte{0xff});
                        }});
    return athanor::run::train(config, hooked, io);
  });
  EXPECT_THAT(shown, HasSubstr("is not finite on rank 1: the step runs again"));
  const std::vector<RunEvent> acts = acts_of_guards(run);
  ASSERT_THAT(acts, SizeIs(1));
  EXPECT_THAT(acts[0].cause, HasSubstr("is not finite on rank 1: the step runs again"));
  EXPECT_EQ(acts[0].step, 1);
  EXPECT_EQ(acts[0].lost_steps, 1);
  EXPECT_GE(acts[0].recover_seconds, 0.0);
}

// A channel that repeats itself but for one sequence of other tokens, which is one loss far above the others.
struct Spiky : WholeRun {
  static constexpr int64_t kSteps = 60, kOddStep = 45, kSequences = 400;
  explicit Spiky(int num_ranks = 1) : WholeRun(num_ranks) {
    const int64_t odd = Sampler({{"c", 1.0, kSequences}}, config.train.seed, config.train.global_batch_size)
                            .sample(kOddStep, 2)
                            .sequence;
    IndexedWriter writer(system_env(), folder.path("c"), 41);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i <= kSequences * 6; ++i)
      ids.push_back(static_cast<int32_t>(i / 6 == odd && i % 6 > 0 ? 20 + i * 7 % 11 : i % 6));
    writer.add_document(ids);
    writer.finish();
    config.data.channels = {{.name = "c", .path = folder.path("c")}};
    config.data.valid_fraction = 0.0;
    config.train.steps = kSteps;
    config.train.eval_every = 0;
    config.optimizer.lr = 1e-2;
    config.checkpoint.every_steps = 0;
    config.parallel.reduce = "tree";
    config.guard.loss_spike = "act";
  }
  std::vector<Decision> recorded() const {
    return parse_decisions(system_env().read_text(file("decisions.jsonl")), "decisions.jsonl");
  }
  std::vector<int64_t> abandoned() const {
    std::vector<int64_t> steps;
    if (!system_env().exists(file("metrics.abandoned.jsonl"))) return steps;
    for (const StepMetrics& m : read_metrics(system_env(), file("metrics.abandoned.jsonl")))
      steps.push_back(m.step);
    return steps;
  }
};

History rerun_of(const Spiky& run) {
  Spiky again;
  again.config.guard.loss_spike = "off";
  again.config.guard.rollback_steps = 1;
  again.decisions = run.recorded();
  again.train(system_env());
  EXPECT_THAT(again.abandoned(), IsEmpty());
  return again.history();
}

TEST(Spikes, WarnOnceAndLeaveNoOtherTrace) {
  Spiky run(2), off;
  const int64_t at = Spiky::kOddStep;
  run.config.guard.loss_spike = "warn";
  off.config.guard.loss_spike = off.config.guard.grad_norm = off.config.guard.update_size = "off";
  const Told told = train_with(run);
  off.train(system_env());
  EXPECT_EQ(run.history(), off.history());
  const std::string line = fmt::format("step {}: the loss of channel 'c' is ", at);
  ASSERT_THAT(told.shown, HasSubstr(line));
  EXPECT_EQ(told.shown.find("the loss of channel", told.shown.find(line) + line.size()), std::string::npos);
  for (const StepMetrics& m : run.metrics()) EXPECT_EQ(m.alarms.empty(), m.step != at) << m.step;
  EXPECT_THAT(told.report.decisions, IsEmpty());
}

struct Back {
  const char* name;
  int ranks;
  int64_t rollback_steps;
  std::function<void(Config& config)> change;
  bool has_slots = false;
};
void PrintTo(const Back& row, std::ostream* out) {
  *out << row.name;
}

class GoesBack : public testing::TestWithParam<Back> {};

TEST_P(GoesBack, AndARerunWithTheDecisionsHasTheSameBits) {
  const Back& row = GetParam();
  Spiky run(row.ranks);
  run.config.guard.rollback_steps = row.rollback_steps;
  row.change(run.config);
  const int64_t at = Spiky::kOddStep, first = at - row.rollback_steps + 1;
  HeldSlots held(row.ranks);
  const Told told = train_with(run, {"no such call"}, [&](int rank, TrainIo& io) {
    if (row.has_slots) io.snapshot_fd = held.fds[static_cast<size_t>(rank)];
  });
  ASSERT_EQ(told.error, "");
  EXPECT_EQ(told.report.status, "finished");
  const std::vector<Decision> taken = run.recorded();
  ASSERT_THAT(taken, SizeIs(1)) << system_env().read_text(run.file("decisions.jsonl")) << told.shown;
  const std::vector<RunEvent> acts = acts_of_guards(run);
  ASSERT_THAT(acts, SizeIs(1));
  EXPECT_THAT(acts[0].cause, HasSubstr("are undone and their batches left out"));
  EXPECT_GE(acts[0].recover_seconds, 0.0);
  EXPECT_GE(acts[0].lost_steps, 1);
  EXPECT_EQ(taken[0].step, first);
  EXPECT_EQ(taken[0].what, Decision::What(SkipBatches{row.rollback_steps}));
  EXPECT_THAT(taken[0].why, HasSubstr(fmt::format("at step {} the loss of channel 'c' is ", at)));
  EXPECT_EQ(told.report.decisions, taken);
  EXPECT_EQ(run.metrics().size(), static_cast<size_t>(Spiky::kSteps));
  EXPECT_THAT(run.abandoned(), Not(IsEmpty()));
  EXPECT_EQ(run.abandoned().back(), at);
  if (row.has_slots) {
    EXPECT_EQ(run.abandoned().front(), at);  // from memory: nothing is done twice
  }
  for (const StepMetrics& m : run.metrics()) EXPECT_THAT(m.alarms, IsEmpty()) << m.step;
  EXPECT_EQ(run.history(), rerun_of(run));
}

INSTANTIATE_TEST_SUITE_P(
    Spikes, GoesBack,
    testing::Values(Back{"to_the_start", 1, 1, [](Config&) {}},
                    Back{"to_a_checkpoint", 2, 1, [](Config& c) { c.checkpoint.every_steps = 10; }},
                    Back{"over_a_checkpoint", 2, 4, [](Config& c) { c.checkpoint.every_steps = 1; }},
                    Back{"to_slots", 2, 1, [](Config& c) { c.snapshot.mode = "slots"; }, true},
                    Back{"to_slots_of_shards", 3, 1,
                         [](Config& c) {
                           c.snapshot.mode = "slots";
                           c.parallel.zero_stage = 2;
                         },
                         true}),
    [](const testing::TestParamInfo<Back>& row) { return row.param.name; });

// The same after a rank was lost in the very step that goes on.
TEST(Spikes, ADecisionOutlivesALostRank) {
  Spiky run(2);
  run.config.snapshot.mode = "slots";
  const int64_t at = Spiky::kOddStep;
  WorldsInTurn worlds(2, 2, [&](World& real, size_t generation) -> std::unique_ptr<World> {
    if (generation > 0 || real.rank() != 1) return nullptr;
    return std::make_unique<HookedWorld>(
        real, GroupFault{.call = "losses",
                         .change = [calls = std::make_shared<int64_t>(0)](std::span<std::byte>, size_t) {
                           if (++*calls == at + 1)
                             throw PeerLost(1, "planted");  // the step `at` for the second time
                         }});
  });
  const TrainReport report = run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
    return worlds.train(config, world.rank(), io);
  });
  EXPECT_EQ(report.status, "finished");
  ASSERT_THAT(run.recorded(), SizeIs(1));
  EXPECT_EQ(run.recorded()[0].step, at);
  EXPECT_EQ(run.history(), rerun_of(run));
}

// A process that takes the place of a dead one knows nothing of the steps before, nor of what was decided.
TEST(Spikes, ARankThatJoinsDecidesWithTheOthers) {
  const auto make = [] {
    auto run = std::make_unique<Spiky>(2);
    run->config.snapshot.mode = "slots";
    return run;
  };
  const auto train = [](ReplacedRanks& launcher, const Spiky& run) {
    run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
      return launcher.train(config, world.rank(), io);
    });
  };
  const auto calm = make();
  ReplacedRanks nobody(2, {});
  train(nobody, *calm);
  const History whole = calm->history();
  ASSERT_THAT(calm->recorded(), SizeIs(1));
  const int64_t calls = nobody.num_calls(1);
  for (int64_t call = calls * 7 / 10; call < calls * 8 / 10; call += 3) {
    SCOPED_TRACE(fmt::format("call {} of {}", call, calls));
    const auto run = make();
    ReplacedRanks launcher(2, {{.rank = static_cast<int>(call % 2), .call = call}});
    train(launcher, *run);
    ASSERT_EQ(launcher.killed(), 1);
    EXPECT_EQ(run->history(), whole);
    EXPECT_EQ(run->recorded(), calm->recorded());
  }
}

// Ids outside of the vocabulary in two places of a channel.
struct Damaged : WholeRun {
  explicit Damaged(int num_ranks = 1) : WholeRun(num_ranks) { config.parallel.reduce = "tree"; }
  void damage(int64_t token, uint16_t id = 60000) const {
    const std::string path = folder.path("a.bin");
    std::string bytes = system_env().read_text(path);
    bytes[static_cast<size_t>(2 * token)] = static_cast<char>(id & 0xff);
    bytes[static_cast<size_t>(2 * token + 1)] = static_cast<char>(id >> 8);
    system_env().write_atomically(path, bytes);
  }
  std::vector<Decision> recorded() const {
    return parse_decisions(system_env().read_text(file("decisions.jsonl")), "decisions.jsonl");
  }
};

class DamagedData : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DamagedData, testing::Values(1, 2, 3));

TEST_P(DamagedData, IsQuarantinedAndTheOrderOfTheRestStays) {
  Damaged run(GetParam()), sound;
  run.damage(27);
  run.damage(104);
  const Told told = train_with(run);
  ASSERT_EQ(told.error, "");
  const std::vector<Decision> taken = run.recorded();
  ASSERT_THAT(taken, Not(IsEmpty()));
  for (const Decision& decision : taken) {
    const auto& data = std::get<QuarantineData>(decision.what);
    EXPECT_EQ(data.channel, "a");
    EXPECT_EQ(data.file, run.folder.path("a") + ".bin");
    EXPECT_TRUE(data.offset == 54 || data.offset == 208) << data.offset;
    EXPECT_THAT(decision.why, HasSubstr("is id 60000, expected ids below the vocabulary of"));
    EXPECT_THAT(told.shown, HasSubstr(fmt::format("step {}: quarantines the sequences at offset {} of",
                                                  decision.step, data.offset)));
  }
  // One process that is given the list, on the sound file: nothing is found, and the same is left out.
  sound.decisions = taken;
  for (Decision& decision : *sound.decisions)
    std::get<QuarantineData>(decision.what).file = "elsewhere/a.bin";
  sound.train(system_env());
  EXPECT_EQ(sound.history(), run.history());
  // Up to the first such step it is the run without damage; that step has fewer tokens.
  Damaged plain;
  plain.train(system_env());
  const auto at = static_cast<size_t>(taken[0].step - 1);
  for (size_t i = 0; i < at; ++i) EXPECT_EQ(run.history().steps[i], plain.history().steps[i]);
  EXPECT_LT(run.metrics()[at].tokens, plain.metrics()[at].tokens);
  EXPECT_EQ((plain.metrics()[at].tokens - run.metrics()[at].tokens) % 6, 0);
}

// Whatever a rank has of a step, all come to the same decision.
class InALayout : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Guards, InALayout,
                         testing::Values(Case{"tensor", {}, [](Config& c) { c.parallel.tp = 2; }},
                                         Case{"sequence",
                                              {},
                                              [](Config& c) {
                                                c.parallel.tp = 2;
                                                c.parallel.sp = true;
                                              }},
                                         Case{"context", {}, [](Config& c) { c.parallel.cp = 2; }},
                                         Case{"pipeline",
                                              {},
                                              [](Config& c) {
                                                c.model.num_hidden_layers = 2;
                                                c.parallel.pp = 2;
                                              }},
                                         Case{"shards", {}, [](Config& c) { c.parallel.zero_stage = 3; }}),
                         [](const testing::TestParamInfo<Case>& row) { return row.param.name; });

TEST_P(InALayout, ASpikeIsUndoneAndDataAreQuarantined) {
  Damaged one, damaged(2);
  Spiky spiky(2);
  for (Damaged* run : {&one, &damaged}) {
    run->damage(27);
    run->damage(104);
  }
  GetParam().change(damaged.config);
  GetParam().change(spiky.config);
  one.train(system_env());
  ASSERT_EQ(train_with(damaged).error, "");
  const auto places = [](const Damaged& run) {
    std::vector<std::pair<int64_t, int64_t>> all;
    for (const Decision& decision : run.recorded())
      all.emplace_back(decision.step, std::get<QuarantineData>(decision.what).offset);
    return all;
  };
  EXPECT_EQ(places(damaged), places(one));
  ASSERT_EQ(train_with(spiky).error, "");
  ASSERT_THAT(spiky.recorded(), SizeIs(1));
  EXPECT_EQ(spiky.recorded()[0].step, Spiky::kOddStep);
}

TEST(DamagedData, OffEndsTheRun) {
  Damaged run(2);
  run.damage(27);
  run.config.guard.damaged_data = "off";
  EXPECT_THAT(train_with(run).error, HasSubstr("token 27 of "));
}

TEST(DamagedData, AFileThatIsMostlyDamagedEndsTheRun) {
  Damaged run(2);
  for (int64_t token = 0; token < 240; token += 3) run.damage(token);
  run.config.data.channels.pop_back();
  EXPECT_THAT(train_with(run).error,
              HasSubstr("sequences have ids outside of the vocabulary, first: token "));
}

}  // namespace
}  // namespace athanor::tests::guard_runs_test
