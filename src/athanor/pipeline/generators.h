// The known pipeline schedules, one file each, and closed forms of their bubbles.
//
//   Schedule schedule = zb_h1(4, 8);
//   zb_h1_bubble(4, 8, {.forward = 1, .input = 1, .weight = 1});   // 3
//
// The bubble is the time in which a rank is idle: the makespan minus the rank's work. The closed forms hold for stages
// of equal length (F, I, W: time of the forward, of the input gradient, of the weight gradient; B = I + W), links that
// take no time, and the conditions stated; the functions return none where these do not hold. Tests compare them with
// the simulator exactly. `p` ranks, `m` micro-batches, `v` stages per rank. The peak is the number of activations held
// at once, one activation being that of one micro-batch on one stage. Errors: none; the caller checks the counts, as
// make_schedule() does. Thread rule: pure functions.
#pragma once

#include <optional>

#include "athanor/pipeline/schedule.h"
#include "athanor/pipeline/simulate.h"

namespace athanor::pipeline {

// GPipe (Huang et al., 2019): all forwards, then all backwards. Bubble (p-1)(F+B), peak m.
Schedule gpipe(int p, int m);
std::optional<double> gpipe_bubble(int p, const StageCost& t);

// 1F1B (PipeDream-Flush; Narayanan et al., 2021): one forward, one backward. Bubble (p-1)(F+B), peak
// min(m, p-r) on rank r.
Schedule one_f_one_b(int p, int m);
std::optional<double> one_f_one_b_bubble(int p, const StageCost& t);

// Interleaved 1F1B (Narayanan et al., 2021): v stages per rank, placed in a loop over the ranks. If m is a multiple of
// p: bubble (p-1)(F+B), 1/v of the bubble of 1F1B with stages v times as long. Peak on rank r, with enough
// micro-batches: (v-1)p + 2(p-1-r) + 1.
Schedule interleaved(int p, int m, int v);
std::optional<double> interleaved_bubble(int p, int m, const StageCost& t);

// Breadth-first (Lamy-Poirier, 2023): a rank runs all micro-batches through one of its stages, then through the next,
// so that gradients are complete stage by stage. Bubble (p-1)(F+B) + (v-1) max(0, p-m) (F+B), peak v m.
Schedule breadth_first(int p, int m, int v);
std::optional<double> breadth_first_bubble(int p, int m, int v, const StageCost& t);

// ZB-H1 (Qi et al., "Zero bubble pipeline parallelism", 2023): 1F1B whose weight gradients fill the gaps at the end. If
// m >= p and W <= min(F, I): bubble (p-1)(F+I-W). Peak min(m, p) on every rank, which is rank 0's peak in 1F1B.
Schedule zb_h1(int p, int m);
std::optional<double> zb_h1_bubble(int p, int m, const StageCost& t);

// ZB-V (Qi et al., "Pipeline parallelism with controllable memory", 2024): two stages per rank, placed in a V, so that
// the last stage is on the rank of the first. If m >= 2p-1, F = I and F/2 <= W <= F: bubble (p-1)F. Rank r starts rF
// later than rank 0 and ends rF later; with F = I = W no rank waits in between. Peak 2p; with stages half as large that
// is the memory of 1F1B.
Schedule zb_v(int p, int m);
std::optional<double> zb_v_bubble(int p, int m, const StageCost& t);

// DualPipeV (DeepSeek-AI, 2025): the same V, with forwards next to backwards of the other direction, for systems that
// overlap the communication of one with the computation of the other. DeepSeek counts such a pair as one action, F&B,
// with the bubble (p-1)(F&B + B - 3W). Here actions run one by one: if m >= 2p and I <= F <= I+W, the bubble is
// (p-1)(F + max(0, I-W)). Peak 2p+1.
Schedule dualpipe_v(int p, int m);
std::optional<double> dualpipe_v_bubble(int p, int m, const StageCost& t);

// The bubble of a schedule by name and the shape that make_schedule() takes; none for other names ("solved", a file's).
std::optional<double> closed_form_bubble(const std::string& name, ScheduleShape shape, const StageCost& t);

}  // namespace athanor::pipeline
