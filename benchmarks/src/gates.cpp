#include <cstdio>
#include <optional>
#include <string>

#include "figures.hpp"

namespace bench {
namespace {

/// What a figure has to keep to, on a machine with nothing else to do.
struct Gate {
  const char* of;  ///< what has to have it; null: it takes what may not be there
  const char* figure;
  enum { kAtMost, kAtLeast } side;
  double bound;
  const char* times = nullptr;  ///< of this figure of the same run
};

constexpr const char* kRoundTrip = "limit_uds_rtt_unpinned_median";
constexpr const char* kFanOut = "limit_uds_fan_out_8_median";
constexpr const char* kMemcpy = "limit_memcpy_warm_shm_1_thread";
constexpr Gate kGates[] = {
    {"core", "init", Gate::kAtMost, 0.050},
    {"core", "shutdown", Gate::kAtMost, 0.050},
    {"core", "cluster_pss_mib", Gate::kAtMost, 30},
    {"core", "idle_cpu_percent", Gate::kAtMost, 0.5},
    {"core", "task_sync_median", Gate::kAtMost, 4, kRoundTrip},
    {"core", "tasks_async", Gate::kAtLeast, 200'000},
    {"core", "actor_create_first_call", Gate::kAtMost, 0.010},
    {"core", "actor_call_sync_median", Gate::kAtMost, 3, kRoundTrip},
    {"core", "actor_calls_async_1_1", Gate::kAtLeast, 250'000},
    {"core", "call_all_8_median", Gate::kAtMost, 1.3, kFanOut},
    {"core", "actor_private_mib", Gate::kAtMost, 5},
    {nullptr, "call_instructions", Gate::kAtMost, 6000},
    {"core", "put_64MiB", Gate::kAtLeast, 0.9, kMemcpy},
    {"core", "puts_small", Gate::kAtLeast, 1'000'000},
    {"core", "gets_small", Gate::kAtLeast, 5'000'000},
    {"core", "wait_1k_refs", Gate::kAtLeast, 70},
    {"core", "wait_10k_refs_over_1k", Gate::kAtMost, 12},
    {"core", "call_with_ref_over_plain", Gate::kAtMost, 1.3},
    {"core", "coroutine_call_over_plain", Gate::kAtMost, 1.05},
    {"store", "put_64MiB_fresh", Gate::kAtLeast, 0.65, kMemcpy},
    {"store", "get_1GiB_us", Gate::kAtMost, 10},
    {"store", "bytes_per_object", Gate::kAtMost, 200},
    {"store", "pull_ratio_to_tcp", Gate::kAtLeast, 0.85},
    {"store", "broadcast_8_over_2", Gate::kAtMost, 1.5},
    {"cluster", "process_actors_per_s", Gate::kAtLeast, 300},
    {nullptr, "process_actors_per_s_torch", Gate::kAtLeast, 80},
    {"cluster", "placements_per_s_1000_nodes", Gate::kAtLeast, 50'000},
    {"cluster", "placements_per_s_1000_shapes", Gate::kAtLeast, 10'000},
    {"cluster", "placements_per_s_10000_nodes", Gate::kAtLeast, 0.5, "placements_per_s_1000_nodes"},
    {"cluster", "head_recovery_10000_records_s", Gate::kAtMost, 0.5},
    {"cluster", "head_bytes_per_actor", Gate::kAtMost, 2048},
    {"cluster", "head_recovery_nodes_back_s", Gate::kAtMost, 1},
    {"cluster", "placement_groups_per_s", Gate::kAtLeast, 3000},
    {"cluster", "worker_death_ms", Gate::kAtMost, 100},
    {"cluster", "node_death_s", Gate::kAtMost, 10},
    {"scale", "bytes_per_actor_10000x100000", Gate::kAtMost, 2048},
    {"scale", "node_loss_ms_10000x100000", Gate::kAtMost, 5},
    {"scale", "nodes_return_s_10000x100000", Gate::kAtMost, 1},
    {"scale", "list_actors_ms_10000x100000", Gate::kAtMost, 100},
    {"collective", "allreduce_floor_ratio_16MiB_2", Gate::kAtLeast, 0.95},
    {"collective", "allreduce_floor_ratio_32MiB_2", Gate::kAtLeast, 0.95},
    {"collective", "allreduce_floor_ratio_256MiB_2", Gate::kAtLeast, 0.95},
    {"collective", "allreduce_floor_ratio_16MiB_4", Gate::kAtLeast, 0.8},
    {"collective", "allreduce_floor_ratio_32MiB_4", Gate::kAtLeast, 0.8},
    {"collective", "allreduce_floor_ratio_256MiB_4", Gate::kAtLeast, 0.8},
    {"collective", "allreduce_floor_ratio_16MiB_8", Gate::kAtLeast, 0.8},
    {"collective", "allreduce_floor_ratio_32MiB_8", Gate::kAtLeast, 0.8},
    {"collective", "allreduce_floor_ratio_256MiB_8", Gate::kAtLeast, 0.8},
    {"collective", "allreduce_4KiB_us_2", Gate::kAtMost, 3},
    {"collective", "allreduce_4KiB_us_8", Gate::kAtMost, 300},
    {"collective", "parked_cpu_percent", Gate::kAtMost, 1},
    {"ddp", "ddp_step_over_local", Gate::kAtMost, 1.03},
    {"ddp", "ddp_comm_heavy_excess_over_floor", Gate::kAtMost, 2.5},
    {"ddp", "overlap_hidden_share", Gate::kAtLeast, 0.7},
    {"sharding", "fsdp_step_over_local", Gate::kAtMost, 1.05},
    {"sharding", "zero1_step_over_local", Gate::kAtMost, 1.02},
    {"sharding", "fsdp_memory_over_formula", Gate::kAtMost, 1.05},
    {"sharding", "zero1_memory_over_formula", Gate::kAtMost, 1.05},
    {"sharding", "zero2_memory_over_formula", Gate::kAtMost, 1.05},
    {"sharding", "recompute_over_plain", Gate::kAtMost, 1.4},
    {"trainer", "trainer_step_over_plain_loop", Gate::kAtMost, 1.01},
    {"trainer", "checkpoint_stall_over_memcpy", Gate::kAtMost, 1.2},
    {"trainer", "recovery_kill_replace_s", Gate::kAtMost, 1},
    {"trainer", "loader_samples_per_s", Gate::kAtLeast, 2, "torch_loader_by_batches_samples_per_s"},
    {"tune", "empty_trials_per_s", Gate::kAtLeast, 20'000},
    {"tune", "results_per_s_logged", Gate::kAtLeast, 100'000},
    {"tune", "ten_ms_trials_over_ideal", Gate::kAtMost, 1.03},
    {"tune", "tpe_ask_us_1000x10", Gate::kAtMost, 100},
    {"tune", "tpe_5000x10_s", Gate::kAtMost, 2},
    {"tune", "journal_restore_100k_s", Gate::kAtMost, 1},
    {nullptr, "xgboost_20_over_compute", Gate::kAtMost, 1.05},
};

}  // namespace

std::optional<double> Report::value_of(const std::string& name) const {
  for (const Figure& figure : figures_) {
    if (figure.name == name) return figure.value;
  }
  return std::nullopt;
}

bool Report::holds_gates(const std::string& whole) const {
  int missed = 0;
  int looked_at = 0;
  for (const Gate& gate : kGates) {
    const auto value = value_of(gate.figure);
    const auto unit = gate.times == nullptr ? std::optional{1.0} : value_of(gate.times);
    if (!value || !unit) {
      if (gate.of == nullptr || gate.of != whole) continue;
      missed += value ? 0 : 1;
      looked_at += value ? 0 : 1;
      std::printf("%s: %s was not measured\n", value ? "not looked at" : "missed", value ? gate.times : gate.figure);
      continue;
    }
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
