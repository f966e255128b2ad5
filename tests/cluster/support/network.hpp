#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "child_program.hpp"

namespace pharos::cluster {

/// Networks of their own for the nodes of a test: places 1, 2, … share nothing but a bridge, whose ways can be cut,
/// each direction for itself. What is cut is dropped without a word. Owned by the test; one thread. Only root may make
/// one. The destructor ends it; what runs there sees its network go.
class Network {
 public:
  static bool can_be_made();

  /// What each packet takes to or from its place, so that later ones may overtake.
  struct Delay {
    std::string wire{};  ///< the program slow_wire; none: no time at all
    std::chrono::milliseconds middle{};
    std::chrono::milliseconds jitter{};  ///< that much more or less
    std::uint32_t seed = 0;
  };

  explicit Network(int places) : Network{places, Delay{}} {}
  Network(int places, const Delay& delay);
  Network(Network&&) = delete;

  int places() const { return static_cast<int>(places_.size()); }
  static std::string address_of(int place) { return "10.77.0." + std::to_string(10 + place); }
  /// Starts a program at that place.
  std::unique_ptr<ChildProgram> start(int place, const std::string& program, std::vector<std::string> arguments,
                                      const ChildProgram::Variables& variables = {}) const;

  /// Nothing that one sends reaches the other.
  void cut_way(int from, int to) const;
  void cut_both_ways(int one, int other) const;
  /// From all others.
  void cut_off(int place) const;
  /// This share of all packets.
  void lose(double share) const;
  void heal() const;
  /// Limits the rate of what goes to a place and comes from it: "1mbit".
  void bound(int place, const std::string& rate) const;

 private:
  static std::unique_ptr<ChildProgram> new_namespace(const std::string& commands);
  void run_outside(const std::string& commands) const;

  std::unique_ptr<ChildProgram> outside_;  // where the bridge is
  std::vector<std::unique_ptr<ChildProgram>> places_;
  std::vector<std::unique_ptr<ChildProgram>> wires_;
};

}  // namespace pharos::cluster
