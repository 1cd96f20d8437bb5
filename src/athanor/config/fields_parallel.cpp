#include "athanor/config/field_lists.h"

namespace athanor::config {

std::vector<Field<Config>> parallel_fields() {
  using C = Config;
  using P = ParallelConfig;
  using L = LocalSgdConfig;
  using K = CompressionConfig;
  using S = ParameterServerConfig;
  return {
      {"parallel",
       "dp",
       "data-parallel ranks, each with micro-batches of its own; auto: what the other axes leave",
       "The first axis to use. A rank has all parameters, unless zero_stage shards them; gradients are "
       "reduced every step.",
       at<&C::parallel, &P::dp>,
       {.range = {1, 1 << 20}, .auto_is_zero = true}},
      {"parallel", "tp", "tensor-parallel ranks; every layer is partitioned over them",
       "A rank holds 1/tp of the parameters and of most activations, at four collectives a block: keep it "
       "within a host. It must divide model.num_attention_heads.",
       at<&C::parallel, &P::tp>, at_least(1, 1 << 20)},
      {"parallel", "pp", "pipeline-parallel ranks, each with consecutive blocks",
       "A rank holds 1/pp of the blocks, with little traffic. Ranks are idle at the start and the end of a "
       "step "
       "(the pipeline bubble): have several micro-batches per rank.",
       at<&C::parallel, &P::pp>, at_least(1, 1 << 20)},
      {"parallel", "cp", "context-parallel ranks; the tokens of each sequence are partitioned over them",
       "A rank holds 1/cp of the activations of long sequences, at an exchange of keys and values in every "
       "layer.",
       at<&C::parallel, &P::cp>, at_least(1, 1 << 20)},
      {"parallel", "cp_method", "how attention reaches the tokens of other cp ranks",
       "ring sends keys and values around a ring and works with any number of heads. ulysses exchanges heads "
       "for tokens (all-to-all) with less traffic; cp must divide the heads.",
       at<&C::parallel, &P::cp_method>, one_of({"ring", "ulysses"})},
      {"parallel", "ep",
       "expert-parallel ranks, taken from those of dp, cp and tp; experts are partitioned over them",
       "A rank holds 1/ep of the experts, at two all-to-alls a layer (dispatch and combine). It must divide "
       "model.num_experts.",
       at<&C::parallel, &P::ep>, at_least(1, 1 << 20)},
      {"parallel", "sp", "sequence parallelism within tp",
       "The activations between layers are partitioned over the tp ranks, at no extra traffic; use it "
       "whenever "
       "tp is above 1.",
       at<&C::parallel, &P::sp>, any()},
      {"parallel", "zero_stage",
       "ZeRO stage: 1 shards optimizer state over dp, 2 also gradients, 3 also parameters (FSDP)",
       "1 costs nothing in traffic. 2 reduces every micro-batch. 3 gathers parameters before each use: half "
       "as much traffic again.",
       at<&C::parallel, &P::zero_stage>, within(0, 3)},
      {"parallel", "shard_degree", "dp ranks of one shard group (hybrid sharding, HSDP); 0: all of dp",
       "Set it to the ranks of a host: all-gathers stay within the host, at more memory per rank.",
       at<&C::parallel, &P::shard_degree>, at_least(0, 1 << 20)},
      {"parallel", "load_balance", "how many micro-batches each dp rank takes: even, or by measured speed",
       "speed pays where ranks differ in speed. It needs reduce = \"tree\" and zero_stage 0 or 1.",
       at<&C::parallel, &P::load_balance>, one_of({"even", "speed"})},
      {"parallel", "load_balance_every", "load_balance = \"speed\": steps between two rebalances",
       "A shorter interval follows changes of speed faster. A rebalance costs an exchange of one number per "
       "rank.",
       at<&C::parallel, &P::load_balance_every>, at_least(1)},
      {"parallel", "schedule",
       "pipeline schedule: gpipe, 1f1b, interleaved, bfs, zb-h1, zb-v, dualpipe-v or a CSV file",
       "interleaved and the zb schedules have a smaller bubble and need more memory; 'athanor schedule' "
       "draws "
       "each with both.",
       at<&C::parallel, &P::schedule>, any()},
      {"parallel",
       "virtual_stages",
       "pipeline stages per rank; auto: the schedule's",
       "More stages per rank make the bubble smaller and the traffic larger.",
       at<&C::parallel, &P::virtual_stages>,
       {.range = {1, 10000}, .auto_is_zero = true}},
      {"parallel", "stage_layers", "blocks of each pipeline stage; empty: evenly",
       "Give the first and the last stage fewer, for their embeddings and loss.",
       at<&C::parallel, &P::stage_layers>, at_least(0, 10000)},
      {"parallel", "recompute",
       "activation checkpointing: none, selective, full, group:K or a list like full*4,selective",
       "full keeps one activation a block and costs one forward pass more (a third of the step); selective "
       "recomputes what is cheap. Use it when memory is short.",
       at<&C::parallel, &P::recompute>, any()},
      {"parallel",
       "recompute_budget",
       "bytes a rank may need, or \"2GiB\": picks the cheapest recompute that fits; 0: recompute as set",
       "Set it in place of recompute.",
       at<&C::parallel, &P::recompute_budget>,
       {.range = {0, 1LL << 60}, .is_bytes = true}},
      {"parallel", "reduce",
       "order of gradient sums: fast, or tree, which is bit-identical on any number of ranks",
       "tree is for runs that must reproduce whatever the ranks; it costs some gradient buffers and traffic.",
       at<&C::parallel, &P::reduce>, one_of({"fast", "tree"})},
      {"parallel", "transport", "transport between ranks; auto: what the environment offers",
       "shm within a host, gloo or mpi between hosts, nccl between GPUs (with one of the others beside it).",
       at<&C::parallel, &P::transport>, one_of({"auto", "shm", "gloo", "mpi", "nccl"})},
      {"parallel", "bucket_bytes",
       "bytes of a gradient bucket; it is reduced while the backward pass continues",
       "Larger buckets send fewer, longer messages and overlap less.", at<&C::parallel, &P::bucket_bytes>,
       at_least(4)},
      {"local_sgd", "sync_interval",
       "local SGD (DiLoCo): steps between two outer steps; 0: gradients are reduced every step",
       "For slow links between replica groups: traffic falls by sync_interval, for a somewhat higher loss. "
       "It divides train.steps and train.eval_every.",
       at<&C::local_sgd, &L::sync_interval>, at_least(0)},
      {"local_sgd",
       "group_size",
       "ranks of dp in a replica group, which reduce gradients every step; auto: those of a host",
       "Links within a group should be fast.",
       at<&C::local_sgd, &L::group_size>,
       {.range = {1, 1 << 20}, .auto_is_zero = true}},
      {"local_sgd", "outer_lr",
       "learning rate of the outer optimizer (Nesterov SGD on the mean change of weights)",
       "0.7 is DiLoCo's; 1 with outer_momentum = 0 averages the weights.", at<&C::local_sgd, &L::outer_lr>,
       above(0)},
      {"local_sgd", "outer_momentum", "Nesterov momentum of the outer optimizer",
       "0.9 is DiLoCo's. It costs 4 bytes a parameter, as the weights of the last outer step do.",
       at<&C::local_sgd, &L::outer_momentum>, below(0, 1)},
      {"local_sgd", "compression", "compression of the change of weights between replica groups",
       "int8 sends a quarter of the bytes, with the error carried over if compression.error_feedback.",
       at<&C::local_sgd, &L::compression>, one_of({"none", "bf16", "int8"})},
      {"compression", "method", "compression of gradients between ranks, every step",
       "For slow networks. bf16 and int8 go with everything; topk, powersgd and onebit-adam send far less, "
       "with zero_stage 0 or 1, and change the run more. docs/compression.md compares them.",
       at<&C::compression, &K::method>, one_of({"none", "bf16", "int8", "topk", "powersgd", "onebit-adam"})},
      {"compression",
       "ratio",
       "topk: fraction of the elements that is sent",
       "0.01 to 0.1; smaller sends less and converges more slowly.",
       at<&C::compression, &K::ratio>,
       {.range = {0, 1, true}}},
      {"compression", "rank", "powersgd: rank of the approximation of a gradient matrix",
       "2 to 8; higher sends more and is more exact.", at<&C::compression, &K::rank>, at_least(1, 1024)},
      {"compression", "warmup_steps",
       "steps without compression; default: half of train.steps for topk, a third for onebit-adam",
       "Early gradients compress badly, and onebit-adam needs a settled second moment.",
       at<&C::compression, &K::warmup_steps>, at_least(0)},
      {"compression", "error_feedback", "whether the compression error is carried into the next step",
       "Without it convergence suffers. It costs 4 bytes a parameter.",
       at<&C::compression, &K::error_feedback>, any()},
      {"parameter_server", "servers", "ranks, the last ones, that are parameter servers; 0: none",
       "Workers keep no optimizer state. For workers of unequal or changing speed; on equal ones zero_stage "
       "= 1 is simpler.",
       at<&C::parameter_server, &S::servers>, at_least(0, 1 << 20)},
      {"parameter_server", "consistency",
       "whether an update takes the gradients of all workers (sync) or of one (bounded, async)",
       "sync computes what data parallelism does, to the bit. bounded and async do not wait for slow "
       "workers; "
       "gradients are stale.",
       at<&C::parameter_server, &S::consistency>, one_of({"sync", "bounded", "async"})},
      {"parameter_server", "staleness", "bounded: steps that a worker may be ahead of the slowest one (SSP)",
       "More waits less and converges more slowly.", at<&C::parameter_server, &S::staleness>, at_least(0)},
      {"parameter_server", "replay", "bounded, async: folder of recorded schedules to follow",
       "Give runs/NAME/schedule of an asynchronous run to repeat it bit by bit.",
       at<&C::parameter_server, &S::replay>, any()},
  };
}

}  // namespace athanor::config
