// The known schedules, one file each, and how long their bubbles are.
//
//   Schedule schedule = zb_h1(4, 8);
//   zb_h1_bubble(4, 8, {.forward = 1, .input = 1, .weight = 1})   // 3
//
// A bubble is the time that a rank does nothing: the makespan less the rank's work. The closed forms are
// for stages of one length (F, I, W: forward, gradient of the input, of the weights; B = I + W), links that
// take no time, and the conditions beside them: nothing where these do not hold. Tests hold the simulator
// to them, exactly. `p` ranks, `m` micro-batches, `v` stages of a rank. Peaks are activations held at a
// time, each of a micro-batch and a stage. Errors: counts are the caller's to check (make_schedule does).
// Thread rule: pure functions.
#pragma once

#include <optional>

#include "athanor/pipeline/schedule.h"
#include "athanor/pipeline/simulate.h"

namespace athanor {

// GPipe (Huang et al., 2019): all forwards, then all backwards. Bubble (p-1)(F+B), peak m.
Schedule gpipe(int p, int m);
std::optional<double> gpipe_bubble(int p, const StageCost& t);

// 1F1B (PipeDream-Flush; Narayanan et al., 2021): one forward, one backward. Bubble (p-1)(F+B), peak of
// rank r min(m, p-r).
Schedule one_f_one_b(int p, int m);
std::optional<double> one_f_one_b_bubble(int p, const StageCost& t);

// Interleaved 1F1B (Narayanan et al., 2021): v stages of a rank in a loop over the ranks. Where m is a
// multiple of p bubble (p-1)(F+B), a v-th of that of 1F1B with stages v times as long; peak of rank r, with
// enough micro-batches, (v-1)p + 2(p-1-r) + 1.
Schedule interleaved(int p, int m, int v);
std::optional<double> interleaved_bubble(int p, int m, const StageCost& t);

// Breadth-first (Lamy-Poirier, 2023): all micro-batches of one stage, then of the next, so that a rank's
// gradients are complete stage by stage. Bubble (p-1)(F+B) + (v-1) max(0, p-m) (F+B), peak v m.
Schedule breadth_first(int p, int m, int v);
std::optional<double> breadth_first_bubble(int p, int m, int v, const StageCost& t);

// ZB-H1 (Qi et al., "Zero bubble pipeline parallelism", 2023): 1F1B whose weight gradients fill the gaps at
// the end. Where m >= p and W <= min(F, I) bubble (p-1)(F+I-W). Peak min(m, p) on every rank, that of rank
// 0 in 1F1B.
Schedule zb_h1(int p, int m);
std::optional<double> zb_h1_bubble(int p, int m, const StageCost& t);

// ZB-V (Qi et al., "Pipeline parallelism with controllable memory", 2024): two stages of a rank in a V, so
// that the loss comes back to where the tokens went in. Where m >= 2p-1, F = I and F/2 <= W <= F, bubble
// (p-1)F: rank r starts rF later than rank 0 and ends as much later; with F = I = W no rank waits in
// between. Peak 2p stages of half the size: that of 1F1B.
Schedule zb_v(int p, int m);
std::optional<double> zb_v_bubble(int p, int m, const StageCost& t);

// DualPipeV (DeepSeek-AI, 2025): the same V, with forwards beside backwards of the other direction, for
// systems that overlap the communication of one with the other. DeepSeek counts such a pair as one action,
// F&B, and has the bubble (p-1)(F&B + B - 3W). Here actions run one by one: where m >= 2p and I <= F <=
// I+W, (p-1)(F + max(0, I-W)). Peak 2p+1.
Schedule dualpipe_v(int p, int m);
std::optional<double> dualpipe_v_bubble(int p, int m, const StageCost& t);

// By name, of the shape that make_schedule() takes; nothing too for other names ("auto", a file's).
std::optional<double> closed_form_bubble(const std::string& name, ScheduleShape shape, const StageCost& t);

}  // namespace athanor
