#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median time of one call of `work`, in microseconds.
template <class Work>
double median_us(int rounds, Work work) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(rounds));
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    work();
    times.push_back(seconds_since(start) * 1e6);
  }
  return median(std::move(times));
}

struct Figure {
  std::string name;
  double value;
  std::string unit;
};

/// What was measured, printed as it comes and written as JSON at the end.
class Report {
 public:
  /// Empty `only`: every figure is wanted.
  explicit Report(std::string only) : only_{std::move(only)} {}

  const std::string& only() const { return only_; }
  bool wants(const std::string& name) const { return only_.empty() || only_ == name; }
  bool wants_any(const std::vector<std::string>& names) const {
    return std::any_of(names.begin(), names.end(), [this](const auto& name) { return wants(name); });
  }
  /// Kept and printed if it is wanted.
  void add(const std::string& name, double value, const std::string& unit);
  const std::vector<Figure>& figures() const { return figures_; }
  /// Whether all figures that have a bound keep to it; says which do not. `whole`: what should have all of its figures
  /// here; only a peer, which may not be set up, may be missing then. Empty: nothing.
  bool holds_gates(const std::string& whole) const;
  /// False when the file cannot be written.
  bool write_json(const std::string& path) const;

 private:
  std::optional<double> value_of(const std::string& name) const;

  std::string only_;
  std::vector<Figure> figures_;
};

/// What the machine allows, measured in the same run.
void measure_limits(Report& report);
/// Those of them that ranks of one machine are measured beside.
void measure_limits_of_ranks(Report& report);
/// The argument with which this program ends at once.
inline constexpr const char* kDoNothing = "do-nothing";
/// Calls by Boost.Asio.
void measure_asio(Report& report);
/// Tasks and actors.
void measure_core(Report& report, int argc, char** argv);
/// Values that are put and got.
void measure_objects(Report& report, int argc, char** argv);
/// The object store beyond that: processes that are new to it, several at once, slices, many objects.
void measure_store(Report& report, int argc, char** argv);
/// Objects from node to node.
void measure_between_nodes(Report& report, int argc, char** argv);
/// Ranks that share memory.
void measure_collective(Report& report);
/// Of a machine each, over TCP.
void measure_ranks_apart(Report& report);
int run_rank_apart();
/// "actors", "ddp", "sharding" or "trainer".
void measure_with_torch(Report& report, const std::string& what);
/// "collective", "ddp", "sharding" or "trainer" of PyTorch; nothing where benchmarks/compare has not set it up, which
/// is said.
std::vector<Figure> figures_of_pytorch(const std::string& what);
/// The same for Optuna's trials, and those of a pool of Python's processes.
std::vector<Figure> figures_of_optuna();
/// Sweeps, and what proposes their trials.
void measure_tune(Report& report, int argc, char** argv);
/// The same, of models that take long.
void measure_boosted_sweep(Report& report, int argc, char** argv);
/// The head's decisions by themselves.
void measure_placement(Report& report);
/// The head by itself, and what it writes down.
void measure_head(Report& report);
/// The head with up to 10 000 nodes and 100 000 actors; `size`: of these ("1000x10000"), or all.
void measure_scale(Report& report, const std::string& size);
/// A cluster of several nodes whose head keeps records.
void measure_several_nodes(Report& report, int argc, char** argv);
/// One of its programs.
int run_broadcast(int argc, char** argv, int nodes);
/// Refs that are waited for, passed on and awaited; encoding.
void measure_refs(Report& report, int argc, char** argv);
/// The run that call_instructions counts: so many calls and nothing else.
int run_counted_calls(int argc, char** argv, int calls);

}  // namespace bench
