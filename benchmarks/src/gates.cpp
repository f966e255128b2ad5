#include <cstdio>
#include <optional>
#include <string>

#include "figures.hpp"

namespace bench {
namespace {

/// What a figure has to keep to, on a machine with nothing else to do.
struct Gate {
  const char* figure;
  enum { kAtMost, kAtLeast } side;
  double bound;
  const char* times = nullptr;  ///< of this figure of the same run
};

constexpr const char* kRoundTrip = "limit_uds_rtt_unpinned_median";
constexpr const char* kFanOut = "limit_uds_fan_out_8_median";
constexpr const char* kMemcpy = "limit_memcpy_warm_shm_1_thread";
constexpr Gate kGates[] = {
    {"init", Gate::kAtMost, 0.050},
    {"shutdown", Gate::kAtMost, 0.050},
    {"cluster_pss_mib", Gate::kAtMost, 30},
    {"idle_cpu_percent", Gate::kAtMost, 0.5},
    {"task_sync_median", Gate::kAtMost, 4, kRoundTrip},
    {"tasks_async", Gate::kAtLeast, 200'000},
    {"actor_create_first_call", Gate::kAtMost, 0.010},
    {"process_actors_per_s", Gate::kAtLeast, 300},
    {"process_actors_per_s_torch", Gate::kAtLeast, 80},
    {"actor_call_sync_median", Gate::kAtMost, 3, kRoundTrip},
    {"actor_calls_async_1_1", Gate::kAtLeast, 250'000},
    {"call_all_8_median", Gate::kAtMost, 1.3, kFanOut},
    {"actor_private_mib", Gate::kAtMost, 5},
    {"call_instructions", Gate::kAtMost, 6000},
    {"put_64MiB", Gate::kAtLeast, 0.9, kMemcpy},
    {"put_64MiB_fresh", Gate::kAtLeast, 0.65, kMemcpy},
    {"get_1GiB_us", Gate::kAtMost, 10},
    {"bytes_per_object", Gate::kAtMost, 200},
    {"pull_ratio_to_tcp", Gate::kAtLeast, 0.85},
    {"broadcast_8_over_2", Gate::kAtMost, 1.5},
    {"placements_per_s_1000_nodes", Gate::kAtLeast, 50'000},
    {"placements_per_s_1000_shapes", Gate::kAtLeast, 10'000},
    {"placements_per_s_10000_nodes", Gate::kAtLeast, 0.5, "placements_per_s_1000_nodes"},
    {"head_recovery_10000_records_s", Gate::kAtMost, 0.5},
    {"head_bytes_per_actor", Gate::kAtMost, 2048},
    {"head_recovery_nodes_back_s", Gate::kAtMost, 1},
    {"placement_groups_per_s", Gate::kAtLeast, 3000},
    {"worker_death_ms", Gate::kAtMost, 100},
    {"node_death_s", Gate::kAtMost, 10},
    {"bytes_per_actor_10000x100000", Gate::kAtMost, 2048},
    {"node_loss_ms_10000x100000", Gate::kAtMost, 5},
    {"nodes_return_s_10000x100000", Gate::kAtMost, 1},
    {"list_actors_ms_10000x100000", Gate::kAtMost, 100},
    {"allreduce_floor_ratio_16MiB_2", Gate::kAtLeast, 0.95},
    {"allreduce_floor_ratio_32MiB_2", Gate::kAtLeast, 0.95},
    {"allreduce_floor_ratio_256MiB_2", Gate::kAtLeast, 0.95},
    {"allreduce_floor_ratio_16MiB_4", Gate::kAtLeast, 0.8},
    {"allreduce_floor_ratio_32MiB_4", Gate::kAtLeast, 0.8},
    {"allreduce_floor_ratio_256MiB_4", Gate::kAtLeast, 0.8},
    {"allreduce_floor_ratio_16MiB_8", Gate::kAtLeast, 0.8},
    {"allreduce_floor_ratio_32MiB_8", Gate::kAtLeast, 0.8},
    {"allreduce_floor_ratio_256MiB_8", Gate::kAtLeast, 0.8},
    {"allreduce_4KiB_us_2", Gate::kAtMost, 3},
    {"allreduce_4KiB_us_8", Gate::kAtMost, 300},
    {"ddp_step_over_local", Gate::kAtMost, 1.03},
    {"ddp_comm_heavy_excess_over_floor", Gate::kAtMost, 2.5},
    {"fsdp_step_over_local", Gate::kAtMost, 1.05},
    {"zero1_step_over_local", Gate::kAtMost, 1.02},
    {"fsdp_memory_over_formula", Gate::kAtMost, 1.05},
    {"zero1_memory_over_formula", Gate::kAtMost, 1.05},
    {"zero2_memory_over_formula", Gate::kAtMost, 1.05},
    {"recompute_over_plain", Gate::kAtMost, 1.4},
    {"trainer_step_over_plain_loop", Gate::kAtMost, 1.01},
    {"checkpoint_stall_over_memcpy", Gate::kAtMost, 1.2},
    {"recovery_kill_replace_s", Gate::kAtMost, 1},
    {"loader_samples_per_s", Gate::kAtLeast, 2, "torch_loader_by_batches_samples_per_s"},
    {"overlap_hidden_share", Gate::kAtLeast, 0.7},
    {"parked_cpu_percent", Gate::kAtMost, 1},
    {"empty_trials_per_s", Gate::kAtLeast, 20'000},
    {"results_per_s_logged", Gate::kAtLeast, 100'000},
    {"ten_ms_trials_over_ideal", Gate::kAtMost, 1.03},
    {"tpe_ask_us_1000x10", Gate::kAtMost, 100},
    {"tpe_5000x10_s", Gate::kAtMost, 2},
    {"journal_restore_100k_s", Gate::kAtMost, 1},
    {"xgboost_20_over_compute", Gate::kAtMost, 1.05},
    {"puts_small", Gate::kAtLeast, 1'000'000},
    {"gets_small", Gate::kAtLeast, 5'000'000},
    {"wait_1k_refs", Gate::kAtLeast, 70},
    {"wait_10k_refs_over_1k", Gate::kAtMost, 12},
    {"call_with_ref_over_plain", Gate::kAtMost, 1.3},
    {"coroutine_call_over_plain", Gate::kAtMost, 1.05},
};

}  // namespace

std::optional<double> Report::value_of(const std::string& name) const {
  for (const Figure& figure : figures_) {
    if (figure.name == name) return figure.value;
  }
  return std::nullopt;
}

bool Report::holds_gates() const {
  int missed = 0;
  int looked_at = 0;
  for (const Gate& gate : kGates) {
    const auto value = value_of(gate.figure);
    const auto unit = gate.times == nullptr ? std::optional{1.0} : value_of(gate.times);
    if (!value || !unit) continue;  // not wanted, or it could not be measured, which was said
    ++looked_at;
    const double bound = gate.bound * *unit;
    const bool at_most = gate.side == Gate::kAtMost;
    if (at_most ? *value <= bound : *value >= bound) continue;
    ++missed;
    std::printf("missed: %s is %g, and should be at %s %g", gate.figure, *value, at_most ? "most" : "least", bound);
    if (gate.times != nullptr) std::printf(", %g times %s", gate.bound, gate.times);
    std::printf("\n");
  }
  std::printf("%d of %d gates held\n", looked_at - missed, looked_at);
  return missed == 0 && looked_at != 0;
}

}  // namespace bench
