// Builds the engine of a training run from its config: model, optimizer, parallelism and step. Used by the trainer, by
// `bench step` and, on the null device, by the memory plan, so that all of them run the same code.
//
//   Training training(config, num_channels, data_group(mesh), arena, trace, stop);   // declared, nothing allocated
//   training.lay_out(mesh);                        // the layout of the config; or split(), cut(), ... one by one
//   training.allocate();                           // then initialize() or load()
//   training.runner->run(state, next_batch);
//   evaluate_channels(training.held_out_passes(), arena, channels, group, {});
//
// The constructor's group are the data-parallel and context-parallel ranks (dp x cp): they share the micro-batches of a
// step, and cp neighbours split the tokens of each one. Ranks of a tensor group (tp) compute the same tokens, each its
// part of every layer. Ranks of a pipeline (pp) have different layers. The config must be resolved (config/presets.h)
// and fit the ranks (train/plan/layout.h). Errors: ConfigError. Thread rule: one thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/config.h"
#include "athanor/models/sharding.h"
#include "athanor/parallel/compression/onebit_adam.h"
#include "athanor/parallel/expert/expert_parallel.h"
#include "athanor/parallel/parameter_server/server.h"
#include "athanor/parallel/parameter_server/worker.h"
#include "athanor/train/engine/offload.h"
#include "athanor/train/engine/parameter_servers.h"
#include "athanor/train/engine/replica_groups.h"
#include "athanor/train/engine/step.h"
#include "athanor/train/plan/layout.h"

namespace athanor::train::engine {

struct Training {
  Training(const Config& config, int64_t num_channels, Group& group, Arena& arena, Trace* trace,
           const std::atomic<int>* stop, const std::function<double()>& clock = now_seconds);
  void lay_out(Mesh& mesh);                                   // before allocate(), as the following
  void split(const Sharding& sharding, Group& tensor_group);  // tensor parallelism
  // Expert parallelism. `experts` (ep, may be a single rank): the ranks that partition the experts of a layer.
  // `copies` (edp): the ranks with the same experts. `parts`: how many consecutive ranks of `copies` split the tokens
  // of one micro-batch (MeshShape::expert_parts()).
  void split_experts(Group& experts, Group& copies, int parts);
  void share_sequences(Group& context_group);  // context parallelism
  // Pipeline parallelism. `ends`: the embedding group, the ranks of the first and the last stage; on these two ranks
  // where embeddings are tied, else null. `losses`: the ranks over which losses are summed (pp x dp x cp).
  void cut(Group& pipeline, Group* ends, Group& losses);
  // Local SGD: this rank's replica group and its counterparts in the others. Before split_experts(), whose `copies`
  // are then limited to the replica group.
  void split_replica_groups(ReplicaGroups groups);
  // The ranks that sum their gradients every step: this rank's replica group, or all of dp x cp.
  Group& replica_group() const { return replica_groups_.inner != nullptr ? *replica_groups_.inner : group_; }
  int64_t micro_batches_of_replica_group() const;  // micro-batches of its step; after allocate()
  const ReplicaGroups& replica_groups() const { return replica_groups_; }
  // Hybrid sharding (HSDP): ZeRO shards within groups.inner, replicas in groups.across, both within one replica group.
  // `expert_groups`: the same for expert weights. After split_replica_groups() and split_experts().
  void share_shards(ReplicaGroups groups, ReplicaGroups expert_groups = {});
  // Overrides PassOptions::pack_weights: for a memory plan that simulates fewer micro-batches than the step has.
  void pack_weights(bool once_a_step) { step_options_.pass.pack_weights = once_a_step; }
  // Parameter servers (train/engine/parameter_servers.h): gives this rank its role. The constructor's group are then
  // the ranks with the same role. Before lay_out(), which lays out the workers.
  void serve(const ServerPlaces& places, ServerLogs logs = {});
  // Allocates parameters, optimizer state and gradient buckets; offloaded ones in files made by `env`.
  void allocate(Env& env = system_env());
  // Whether this rank owns the parameter's values, so that it initializes, saves and loads them. With parameter
  // servers a worker owns only buffers (Param::is_state), a server everything else.
  bool keeps(const Param& param) const { return client ? param.is_state() : !server || !param.is_state(); }
  void initialize(uint64_t seed);         // draws the parameters that it keeps
  void publish(const TrainState& state);  // collective: every rank gets the values that the others have set
  void settle();                          // at the end, with servers: waits for outstanding pushes and pulls
  std::vector<int64_t> own_micro_batches() const;  // numbers of this rank's micro-batches in a step
  // Sets how many micro-batches each data-parallel rank takes from the next step on, by dp coordinate. The same on all
  // ranks of load_balancers().
  void share_micro_batches(const std::vector<int64_t>& counts);
  const LoadBalancers& load_balancers() const { return dealers_; }  // after lay_out() with balance = "speed"
  uint64_t gradient_buffer_bytes() const;                           // of one more partial sum in the tree
  // Whether a forward pass is a collective, so that all ranks must run equally many (ZeRO stage 3, ep).
  bool needs_equal_passes() const { return parallel_options_.stage == 3 || exchange_; }
  HeldOutPasses held_out_passes() const;
  // This rank's slices of weights and optimizer state as the logical tensors of a checkpoint: "model.NAME",
  // "adam.m.NAME", ...
  std::vector<NamedTensor> tensors() const;
  void load(const Checkpoint& checkpoint);  // reads all of tensors()

 private:
  // Groups of local SGD (replica_groups_) and hybrid sharding. First, since members below hold references to them.
  ReplicaGroups replica_groups_, shards_, expert_shards_;

 public:
  Dtype compute;
  int64_t num_micro_batches;
  Arena& arena;
  std::unique_ptr<HostMemory> host;  // pinned host memory; null: nothing is offloaded to the host
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<DataParallel> parallel;        // null with parameter servers
  std::unique_ptr<ServerClient> client;          // set on workers of parameter servers
  std::unique_ptr<ParameterServer> server;       // set on parameter servers
  std::unique_ptr<ActivationStore> activations;  // activation offload; null: activations stay in memory
  std::unique_ptr<PipelineRunner> pipeline;      // null on parameter servers
  std::unique_ptr<OuterSync> outer;              // outer steps of local SGD; null: without
  std::unique_ptr<Steps> runner;                 // null on parameter servers

 private:
  void allocate_served();
  void make_pipeline();
  std::vector<Optimizer::State> states_of_optimizer() const;
  std::vector<CompressionState> compression_states() const;

  Config config_;
  Group& group_;  // dp x cp
  OuterOptions outer_options_;
  OneBitAdam* onebit_ = nullptr;  // `optimizer` if it is 1-bit Adam, else null
  Group* losses_ = nullptr;       // null: group_
  std::unique_ptr<Group> ends_, alone_;
  LoadBalancers dealers_;
  OptimizerOptions optimizer_options_;
  std::unique_ptr<ExpertParallel> exchange_;
  std::vector<ModelPart> parts_;  // one per stage of the whole pipeline; set by cut()
  RecomputePlan recompute_;
  DataParallelOptions parallel_options_;
  std::unique_ptr<ContextParallel> context_;
  StepOptions step_options_;
  const ServerPlaces* places_ = nullptr;
  ServerLogs logs_;
};

// Whether a rank packs its weights once a step: train.pack_weights is set, and a step of `micro_batches` micro-batches on
// `ranks` data-parallel ranks gives each rank enough of them to pay for it.
bool packs_weights(const Config& config, int64_t micro_batches, int ranks);

// The ranks of dp x cp. Where these are all ranks, the world's own group: its rank numbers need no translation.
Group& data_group(Mesh& mesh);

TrainState first_state(const Config& config);

LrSchedule lr_schedule(const Config& config);

}  // namespace athanor::train::engine
