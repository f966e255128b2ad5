#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

inline constexpr std::size_t kMib = std::size_t{1} << 20;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the median time of one call of `work`, in microseconds.
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

/// The figures of one run. Prints each figure as soon as it is added, and writes all of them as JSON at the end. Used
/// by one thread.
class Report {
 public:
  /// `only` is the name of the one wanted figure. If it is empty, every figure is wanted.
  explicit Report(std::string only) : only_{std::move(only)} {}

  const std::string& only() const { return only_; }
  bool wants(const std::string& name) const { return only_.empty() || only_ == name; }
  bool wants_any(const std::vector<std::string>& names) const {
    return std::any_of(names.begin(), names.end(), [this](const auto& name) { return wants(name); });
  }
  /// Keeps and prints the figure if it is wanted.
  void add(const std::string& name, double value, const std::string& unit);
  const std::vector<Figure>& figures() const { return figures_; }
  /// Returns whether at least one figure has a bound and all figures keep to their bounds. Prints each miss. `whole`
  /// names a suite that was measured as a whole: a missing figure of this suite counts as a miss, and a bound is
  /// skipped only if the peer that it is relative to was not set up. If `whole` is empty, missing figures are skipped.
  bool holds_gates(const std::string& whole) const;
  /// Returns false if the file cannot be written.
  bool write_json(const std::string& path) const;

 private:
  std::optional<double> value_of(const std::string& name) const;

  std::string only_;
  std::vector<Figure> figures_;
};

/// Measures the limits of the machine, in the same run as the other figures.
void measure_limits(Report& report);
/// Measures only the limits that the ranks of one machine are compared with.
void measure_limits_of_ranks(Report& report);
/// The argument with which this program ends at once.
inline constexpr const char* kDoNothing = "do-nothing";
/// Measures calls with Boost.Asio.
void measure_asio(Report& report);
/// Measures tasks and actors.
void measure_core(Report& report, int argc, char** argv);
/// Measures put() and get() of values.
void measure_objects(Report& report, int argc, char** argv);
/// Measures more of the object store: processes that are new to it, several writers, slices, many objects, spilling.
void measure_store(Report& report, int argc, char** argv);
/// Measures objects that go from node to node.
void measure_between_nodes(Report& report, int argc, char** argv);
void measure_locality(Report& report, int argc, char** argv);
/// Measures how soon a program works on a node that lacks one of its libraries.
void measure_shipping(Report& report);
/// Measures ranks that share memory.
void measure_collective(Report& report);
/// Measures two ranks over TCP, in network namespaces of their own.
void measure_ranks_apart(Report& report);
/// Runs one of these two ranks. The script ranks_in_namespaces starts it.
int run_rank_apart();
/// Runs pharos-bench-torch. `what` is "actors", "ddp", "sharding" or "trainer".
void measure_with_torch(Report& report, const std::string& what);
/// Returns PyTorch's figures. `what` is "collective", "ddp", "sharding" or "trainer". Prints a line and returns no
/// figure if benchmarks/compare has not set PyTorch up.
std::vector<Figure> figures_of_pytorch(const std::string& what);
/// Returns the figures of Optuna's trials and of a pool of Python processes. Prints a line and returns no figure if
/// benchmarks/compare has not set Optuna up.
std::vector<Figure> figures_of_optuna();
/// Measures sweeps, and the searchers that propose trials.
void measure_tune(Report& report, int argc, char** argv);
/// Measures a sweep over boosted models, whose trials take long.
void measure_boosted_sweep(Report& report, int argc, char** argv);
/// Measures the placement decisions of the head alone.
void measure_placement(Report& report);
/// Measures the head alone, and its records on disk.
void measure_head(Report& report);
/// Measures the head with up to 10 000 nodes and 100 000 actors. `size` is the one combination to measure
/// ("1000x10000"); if it is empty, all are measured.
void measure_scale(Report& report, const std::string& size);
/// Measures a cluster of several nodes whose head keeps records.
void measure_several_nodes(Report& report, int argc, char** argv);
/// Measures one broadcast to the other nodes of a cluster. The script broadcast_in_namespaces starts it.
int run_broadcast(int argc, char** argv, int nodes);
/// Measures waiting for Refs, Refs as arguments, calls of coroutines, and encoding.
void measure_refs(Report& report, int argc, char** argv);
/// Makes this number of calls and nothing else. The figure call_instructions counts the instructions of such runs.
int run_counted_calls(int argc, char** argv, int calls);

}  // namespace bench
