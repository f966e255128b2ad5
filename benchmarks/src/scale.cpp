// Measures how the memory and the times of the head grow with the numbers of nodes and actors.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "figures.hpp"
#include "folder.hpp"
#include "many_nodes.hpp"

namespace bench {
namespace {

constexpr std::size_t kNodes[] = {10, 100, 1000, 10'000};
constexpr std::size_t kSizes[] = {1000, 10'000, 100'000};
constexpr int kLosses = 5;
constexpr int kRare = 100;
constexpr int kShapes = 100;
constexpr int kWaiting = 1000;

std::size_t heap() {
  const auto now = ::mallinfo2();
  return now.uordblks + now.hblkhd;
}

double worst(const std::vector<double>& times) {
  return *std::max_element(times.begin(), times.end());
}

/// Measures a cluster of one size. The names of the figures end with the size.
class Size {
 public:
  Size(Report& report, std::size_t nodes, std::size_t actors)
      : report_{report}, nodes_{nodes}, actors_{actors}, name_{std::to_string(nodes) + "x" + std::to_string(actors)} {}

  const std::string& name() const { return name_; }

  void measure() {
    ManyNodes cluster{nodes_, actors_ + kRare + kWaiting + 1, seats()};
    cluster.start_head();
    join_all(cluster);
    create_all(cluster);
    beat(cluster);
    list_all(cluster);
    lose_some(cluster);
    create_rare(cluster);
    wait_and_list(cluster);
    add("end_program_ms", cluster.end_program() * 1e3, "ms");
  }
  void measure_recovery(const std::filesystem::path& state) {
    ManyNodes cluster{nodes_, actors_, seats(), state};
    cluster.start_head();
    for (std::size_t i = 0; i < nodes_; ++i) cluster.join_node();
    cluster.start_program();
    cluster.create_actors(actors_);
    std::vector<double> serves;
    std::vector<double> returns;
    for (int round = 0; round < 3; ++round) {
      cluster.stop_head();
      serves.push_back(cluster.start_head());
      returns.push_back(cluster.return_nodes());
    }
    add("recovery_s", median(serves), "s");
    add("nodes_return_s", median(returns), "s");
  }

 private:
  /// Returns the seats of a node: twice as many as its share of the actors takes, so that the other nodes have room
  /// when some nodes are lost.
  std::uint64_t seats() const { return 2 * std::max<std::uint64_t>(1, (actors_ + nodes_ - 1) / nodes_) + 2; }
  void add(const char* figure, double value, const char* unit) { report_.add(figure + ("_" + name_), value, unit); }

  void join_all(ManyNodes& cluster) {
    const std::size_t before = heap();
    std::vector<double> times;
    for (std::size_t i = 0; i < nodes_; ++i) times.push_back(cluster.join_node());
    cluster.let_a_second_pass(false);  // the nodes confirm what the head has told them, and it forgets that
    add("bytes_per_node", static_cast<double>(heap() - before) / static_cast<double>(nodes_), "B");
    add("join_us", median(times) * 1e6, "us");
    cluster.start_program();
  }
  void create_all(ManyNodes& cluster) {
    std::vector<double> times;
    times.reserve(actors_);
    const std::size_t before = heap();
    for (std::size_t i = 0; i < actors_; ++i) times.push_back(cluster.create_actor("seat"));
    cluster.let_a_second_pass(false);
    add("bytes_per_actor", static_cast<double>(heap() - before) / static_cast<double>(actors_), "B");
    add("create_us", median(times) * 1e6, "us");
    add("create_worst_us", worst(times) * 1e6, "us");
  }
  void beat(ManyNodes& cluster) {
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) seconds.push_back(cluster.let_a_second_pass(true));
    add("second_ms", median(seconds) * 1e3, "ms");
  }
  void list_all(ManyNodes& cluster) {
    add("list_nodes_ms", cluster.list("nodes", 10'000) * 1e3, "ms");
    if (cluster.rows().rows.size() != std::min<std::size_t>(nodes_, 10'000)) std::printf("  no list of nodes came\n");
    add("list_actors_ms", cluster.list("actors", 100) * 1e3, "ms");
    cluster.list("actors", 10'000);
    if (cluster.rows().rows.size() != std::min<std::size_t>(actors_, 10'000)) std::printf("  no list of actors came\n");
  }
  /// Loses the first nodes that have actors, and replaces them. The node of the driver stays.
  void lose_some(ManyNodes& cluster) {
    std::vector<double> times;
    for (std::size_t node = 1; times.size() < kLosses && node < nodes_; ++node) {
      if (cluster.actors_at(node) == 0) continue;
      times.push_back(cluster.lose_node(node));
      cluster.replace_node(node);
    }
    add("node_loss_ms", median(times) * 1e3, "ms");
    add("node_loss_worst_ms", worst(times) * 1e3, "ms");
  }
  /// Creates actors that need a resource which only one node has.
  void create_rare(ManyNodes& cluster) {
    std::vector<double> times;
    for (int i = 0; i < kRare; ++i) times.push_back(cluster.create_actor("rare"));
    add("create_rare_us", median(times) * 1e6, "us");
  }
  /// Lets actors wait for the resource `tape`. Other actors have all tapes and do not end.
  void wait_and_list(ManyNodes& cluster) {
    for (std::size_t i = 0; i < nodes_; ++i) cluster.create_actor("tape");
    std::vector<double> times;
    for (int i = 0; i < kWaiting; ++i) {
      times.push_back(cluster.ask_for_actor("tape=1,seat=0.0" + std::to_string(100 + i % kShapes)));
    }
    add("wait_us", median(times) * 1e6, "us");
    add("list_pending_ms", cluster.list("pending", 20) * 1e3, "ms");
    add("inspect_ms", cluster.inspect() * 1e3, "ms");
    if (cluster.inspected() == 0) std::printf("  nothing was heard of the program\n");
  }

  Report& report_;
  const std::size_t nodes_;
  const std::size_t actors_;
  const std::string name_;
};

}  // namespace

void measure_scale(Report& report, const std::string& only) {
  for (const std::size_t nodes : kNodes) {
    for (const std::size_t actors : kSizes) {
      Size size{report, nodes, actors};
      if (!only.empty() && size.name() != only) continue;
      size.measure();
      const Folder folder;
      size.measure_recovery(folder.path() / "state");
    }
  }
}

}  // namespace bench
