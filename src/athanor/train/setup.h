// The parts of a training run, put together from its config: model, optimizer, data parallelism and step.
// Used by the trainer, by `bench step` and, on the null device, by the memory plan: they all run the same
// code.
//
//   Training training(config, num_channels, data_group(mesh), arena, trace, stop);   // declared, nothing allocated
//   training.lay_out(mesh);                        // the layout of the config; or its parts, one by one
//   training.allocate();                           // then initialize() or load()
//   training.runner->run(state, next_batch);
//   evaluate_channels(*training.model, arena, channels, group, {.passes = training.held_out_passes()});
//
// The group of the constructor are the ranks that share out the grains and, neighbours, the tokens of each (dp x cp);
// the ranks of a tensor group (tp) compute the same tokens, each its part of every layer, those of a pipeline (pp) each
// some layers. The config must be
// resolved (config/presets.h) and fit the ranks (train/layout.h). Thread rule: one thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/config.h"
#include "athanor/models/sharding.h"
#include "athanor/parallel/compression/onebit_adam.h"
#include "athanor/parallel/expert_parallel.h"
#include "athanor/parallel/parameter_server/server.h"
#include "athanor/parallel/parameter_server/worker.h"
#include "athanor/train/islands.h"
#include "athanor/train/layout.h"
#include "athanor/train/offload.h"
#include "athanor/train/served.h"
#include "athanor/train/step.h"

namespace athanor {

struct Training {
  Training(const Config& config, int64_t num_channels, Group& group, Arena& arena, Trace* trace,
           const std::atomic<int>* stop, const std::function<double()>& clock = now_seconds);
  void lay_out(Mesh& mesh);                                   // before allocate(), as the following
  void split(const Sharding& sharding, Group& tensor_group);  // tensor parallelism
  // Expert and tensor parallelism: layers of experts are shared by the ranks of `experts` (ep, perhaps one alone), each of
  // which computes other tokens; `copies` (edp) are the ranks that have the same experts, `parts` neighbours of them with
  // the same grains (MeshShape::expert_parts()).
  void split_experts(Group& experts, Group& copies, int parts);
  void share_sequences(Group& context_group);  // context parallelism
  // Pipeline parallelism. `ends`: the ranks of the first and the last stage, on these two where embeddings are tied.
  // Losses are summed over `losses`, the ranks of all stages and of all grains.
  void cut(Group& pipeline, Group* ends, Group& losses);
  // Two-speed synchronisation: this island's ranks, and those with this one's number in all of them. Before
  // split_experts(), whose copies are then those of the island.
  void split_islands(IslandGroups groups);
  // The ranks whose gradients are one sum: of this island, or all.
  Group& island_group() const { return islands_.inner != nullptr ? *islands_.inner : group_; }
  int64_t grains_of_island() const;  // of a step; after allocate()
  const IslandGroups& islands() const { return islands_; }
  // Hybrid sharding: ZeRO within `inner`, one of several sets of shards, those of one island. After split_islands() and
  // split_experts(), whose copies are cut into sets likewise.
  void share_shards(IslandGroups groups, IslandGroups expert_groups = {});
  // Of a plan that takes fewer grains for all of them.
  void pack_weights(bool once_a_step) { step_options_.pass.pack_weights = once_a_step; }
  // Parameter servers (train/served.h): this rank is one, or a worker. The group of the constructor are those of its
  // kind. Before lay_out(), which is of the workers.
  void serve(const ServerPlaces& places, ServerLogs logs = {});
  // Parameters, optimizer state, gradient buckets; on disk, made by `env`, what the config puts there.
  void allocate(Env& env = system_env());
  // Whether this rank has the parameter's values of its own: a worker gets weights from servers, and it alone has what is
  // a state.
  bool keeps(const Param& param) const { return client ? param.is_state() : !server || !param.is_state(); }
  void initialize(uint64_t seed);           // what it keeps
  void publish(const TrainState& state);    // the ranks tell each other the values that they have set
  void settle();                            // with servers: at the end, all that is on its way arrives
  std::vector<int64_t> own_grains() const;  // of a step, this rank's
  // How many of them each unit takes from the next step on, the same on all of grain_dealers(): ranks with one place in
  // dp are a unit.
  void share_grains(const std::vector<int64_t>& counts);
  const GrainDealers& grain_dealers() const { return dealers_; }  // after lay_out(), of balance = "speed"
  uint64_t gradient_buffer_bytes() const;                         // of one further partial sum in the tree
  bool needs_equal_passes() const {
    return parallel_options_.stage == 3 || exchange_;
  }  // they are collectives
  const HeldOutPasses* held_out_passes() const { return passes_ ? &*passes_ : nullptr; }
  // This rank's slices of weights and optimizer state as the logical tensors of a checkpoint: "model.NAME",
  // "adam.m.NAME", ...
  std::vector<NamedTensor> tensors() const;
  void load(const Checkpoint& checkpoint);  // all of them

 private:
  // Of two-speed synchronisation, of hybrid sharding; what follows uses them.
  IslandGroups islands_, shards_, expert_shards_;

 public:
  Dtype compute;
  int64_t num_grains;
  Arena& arena;
  std::unique_ptr<HostMemory> host;  // null: nothing of a device's run lies in the host's memory
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<DataParallel> parallel;        // null with parameter servers
  std::unique_ptr<ServerClient> client;          // of a worker
  std::unique_ptr<ParameterServer> server;       // of a server, which has no steps to run
  std::unique_ptr<ActivationStore> activations;  // null: they stay in memory
  std::unique_ptr<PipelineRunner> pipeline;      // null: without
  std::unique_ptr<OuterSync> outer;              // of islands
  std::unique_ptr<Steps> runner;

 private:
  void allocate_served();
  void make_pipeline();
  std::vector<Optimizer::State> states_of_optimizer() const;
  std::vector<CompressionState> compression_states() const;

  Config config_;
  Group& group_;  // all that share out grains and tokens
  OuterOptions outer_options_;
  OneBitAdam* onebit_ = nullptr;  // the optimizer, where it is one
  Group* losses_ = nullptr;       // null: group_
  std::unique_ptr<Group> ends_;
  GrainDealers dealers_;
  OptimizerOptions optimizer_options_;
  std::unique_ptr<ExpertParallel> exchange_;
  std::vector<ModelPart> parts_;  // of all stages
  std::optional<HeldOutPasses> passes_;
  DataParallelOptions parallel_options_;
  std::unique_ptr<ContextParallel> context_;
  StepOptions step_options_;
  const ServerPlaces* places_ = nullptr;
  ServerLogs logs_;
};

// Whether a rank packs its weights once a step (train.pack_weights), of a step of `grains` that so many ranks share out.
bool packs_weights(const Config& config, int64_t grains, int ranks);

// The ranks that share out the grains and their tokens; where these are all, the world's own group, whose messages need
// no translation.
Group& data_group(Mesh& mesh);

TrainState first_state(const Config& config);

LrSchedule lr_schedule(const Config& config);

}  // namespace athanor
