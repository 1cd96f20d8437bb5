#include "athanor/config/field_lists.h"

namespace athanor::config {

std::vector<Field<Config>> run_fields() {
  using C = Config;
  using F = OffloadConfig;
  using K = CheckpointConfig;
  using S = SnapshotConfig;
  using G = GuardConfig;
  using A = LaunchConfig;
  return {
      {"offload", "optimizer", "where optimizer state and master weights are kept",
       "disk (nvme) frees 8 to 12 bytes a parameter, at a read and a write of them every step; host is the "
       "memory of the CPU, for a GPU.",
       at<&C::offload, &F::optimizer>, one_of_with({"memory", "host", "disk"}, {{"nvme", "disk"}})},
      {"offload", "gradients", "where accumulated gradients are kept",
       "disk frees 4 bytes a parameter, at a read and a write of them every micro-batch.",
       at<&C::offload, &F::gradients>, one_of_with({"memory", "disk"}, {{"nvme", "disk"}})},
      {"offload", "parameters", "where the parameter shards of parallel.zero_stage = 3 are kept",
       "disk frees their memory, also on one rank, at two reads of them every micro-batch.",
       at<&C::offload, &F::parameters>, one_of_with({"memory", "disk"}, {{"nvme", "disk"}})},
      {"offload", "activations", "where the activations of blocks are kept between forward and backward",
       "For sequences that do not fit even with parallel.recompute = \"full\"; a write and a read of them "
       "every micro-batch.",
       at<&C::offload, &F::activations>, one_of_with({"memory", "host", "disk"}, {{"nvme", "disk"}})},
      {"offload", "path", "folder on a disk for what is offloaded; empty: the run's",
       "Choose a fast local disk with room. The files are unnamed: they vanish with the process.",
       at<&C::offload, &F::path>, any()},
      {"checkpoint", "every_steps", "steps between checkpoints; 0: only the final one",
       "A killed run loses the steps since the last one. A checkpoint takes 12 bytes a parameter with adamw "
       "and the time to write them.",
       at<&C::checkpoint, &K::every_steps>, at_least(0)},
      {"checkpoint", "keep", "newest checkpoints kept; 0: all",
       "At least 2, so that a damaged newest one costs only every_steps steps.", at<&C::checkpoint, &K::keep>,
       at_least(0)},
      {"checkpoint", "background",
       "whether athanor launch writes checkpoints out of the snapshot slots while the ranks train on: auto, "
       "on, off",
       "A third slot: the bytes of weights and optimizer state once more. auto: where snapshot.mode is slots "
       "and "
       "they fit. The last checkpoint, that of a phase, and all of a lone train are written by the ranks, "
       "who wait.",
       at<&C::checkpoint, &K::background>, one_of({"auto", "on", "off"})},
      {"snapshot", "mode", "the state of every step in memory that a launcher holds: auto, slots, copy, off",
       "slots update out of place: the bytes of weights and optimizer state once more. copy needs them twice "
       "more and copies while the next step computes. auto: slots under athanor launch where they fit, else "
       "off.",
       at<&C::snapshot, &S::mode>, one_of({"auto", "slots", "copy", "off"})},
      {"snapshot", "every_steps", "steps between snapshots of mode copy",
       "More where copying slows steps; a failure then loses up to that many steps.",
       at<&C::snapshot, &S::every_steps>, at_least(1)},
      {"snapshot", "peers", "ranks of other hosts that hold a copy: not there yet",
       "Any value but 0 is refused.", at<&C::snapshot, &S::peers>, at_least(0)},
      {"guard", "loss_spike", "what a spike of a channel's loss does: off, warn, act",
       "act undoes the last rollback_steps steps and leaves their batches out, which decisions.jsonl "
       "records. "
       "A spike is far above the losses of the last steps.",
       at<&C::guard, &G::loss_spike>, one_of({"off", "warn", "act"})},
      {"guard", "grad_norm", "the same for the norm of the gradient before clipping",
       "An alarm is sixteen times the norm of the last steps, and far outside of their spread.",
       at<&C::guard, &G::grad_norm>, one_of({"off", "warn", "act"})},
      {"guard", "update_size", "the same for the size of an update beside the weights, by a sample of them",
       "Known one step later; beside optimizer.lr, so that a schedule is no alarm. On the CPU.",
       at<&C::guard, &G::update_size>, one_of({"off", "warn", "act"})},
      {"guard", "not_finite", "what a loss or gradient that is NaN or infinite does: off, warn, act",
       "off ends the run. warn and act run the step again: a result that is not finite again ends the run, "
       "else act goes on and warn ends it, having told that the fault was transient.",
       at<&C::guard, &G::not_finite>, one_of({"off", "warn", "act"})},
      {"guard", "damaged_data", "what ids outside of the vocabulary in the data do: off, act",
       "off ends the run. act leaves out the sequence, which decisions.jsonl records with file and offset.",
       at<&C::guard, &G::damaged_data>, one_of({"off", "act"})},
      {"guard", "state_hash", "what replicas whose weights or optimizer state differ do: off, warn, act",
       "A bit that flipped in the memory of one rank stays there. act goes back to a snapshot or checkpoint "
       "on which all agreed, and runs the steps since again. Three replicas tell which one is wrong. On the "
       "CPU.",
       at<&C::guard, &G::state_hash>, one_of({"off", "warn", "act"})},
      {"guard", "state_hash_every", "steps between two comparisons of the replicas' state",
       "One read of the state, or nothing with snapshot.mode = \"slots\". Every checkpoint is compared, too.",
       at<&C::guard, &G::state_hash_every>, at_least(1)},
      {"guard", "rollback_steps", "steps that act undoes, and whose batches it leaves out",
       "1 costs nothing where a snapshot holds the step before; more go back to a checkpoint.",
       at<&C::guard, &G::rollback_steps>, at_least(1)},
      {"guard", "max_rollbacks", "times that act goes back before the guard only warns",
       "Counted from the start of the process. With state_hash the run ends then, since its state is "
       "damaged.",
       at<&C::guard, &G::max_rollbacks>, at_least(1)},
      {"launch", "min_ranks", "fewest ranks that a run goes on with when one of them cannot be kept",
       "A rank that fails again and again is given up as long as so many remain; then the run ends. On one "
       "node.",
       at<&C::launch, &A::min_ranks>, at_least(1, 1 << 20)},
      {"launch", "max_ranks", "most ranks that a run may be scaled to; 0: those that it was started with",
       "Each rank more takes memory and processors of the node.", at<&C::launch, &A::max_ranks>,
       at_least(0, 1 << 20)},
      {"launch", "max_restarts",
       "restarts after failures of ranks before one is given up; 0: a failure ends the run",
       "As many again after every 100 steps of progress; the third failure of a rank at one step gives it up "
       "whatever is left. With several nodes a failure ends the run.",
       at<&C::launch, &A::max_restarts>, at_least(0, 1 << 20)},
      {"launch", "hang", "what to do where no rank goes on because all wait for one: off, warn, act",
       "Told after 10 s, or 20 times what a step usually takes, likewise of evaluations and saves. act kills "
       "the rank "
       "at once, warn after launch.timeout_ms; it is started again. On one node.",
       at<&C::launch, &A::hang>, one_of({"off", "warn", "act"})},
      {"launch", "slow",
       "what to do where a rank works longer on steps than it used to, or than others with the same work, "
       "and "
       "they wait: off, warn",
       "Told after 2 s of steps that take 1.5 times as long, or 3 steps if they are longer. Costs two "
       "readings of the clock at each wait for other ranks. On one node.",
       at<&C::launch, &A::slow>, one_of({"off", "warn"})},
      {"launch", "warm_up", "measure the ranks against each other before they first meet: off, warn",
       "Matrix products, memory, and a small file in the run's folder, all ranks at the same time, in less "
       "than "
       "0.1 s. A rank at less than 1/1.5 of the others' speed is named; a disk that cannot be written to "
       "ends "
       "the run before its first step. On one node.",
       at<&C::launch, &A::warm_up>, one_of({"off", "warn"})},
      {"launch", "tune",
       "whether measured steps choose train.micro_batch_size and train.threads: off, propose, apply",
       "propose says which setting the rules of thumb expect to be faster, and its memory. apply tries one "
       "for 12 steps, keeps it if they are clearly faster, and else goes back; decisions.jsonl records it. "
       "Another micro-batch adds in another order: results differ within rounding. Also in a lone train.",
       at<&C::launch, &A::tune>, one_of({"off", "propose", "apply"})},
      {"launch", "allow_inexact", "whether the order of sums may change in mid-run where bits are else kept",
       "With another number of ranks tp, cp and ep may become smaller; with parallel.reduce = \"tree\" "
       "train.micro_batch_size may be set and tuned. Losses then differ within rounding; decisions.jsonl "
       "records it.",
       at<&C::launch, &A::allow_inexact>, any()},
      {"launch", "timeout_ms", "milliseconds until a collective that others have not joined fails",
       "A dead rank is noticed within a second whatever this is; raise it where ranks wait long for a disk.",
       at<&C::launch, &A::timeout_ms>, at_least(1)},
  };
}

}  // namespace athanor::config
