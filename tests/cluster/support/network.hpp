#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "child_program.hpp"

namespace pharos::cluster {

/// Network namespaces for the nodes of a test. The namespaces are called places and numbered from 1. A bridge connects
/// them, and each direction between two places can be cut separately: packets are then dropped silently.
/// The test owns the object and uses it from one thread. Only root may make one. The destructor removes the network, so
/// programs that still run in a place lose it.
class Network {
 public:
  static bool can_be_made();

  /// The time that each packet takes between its place and the bridge, chosen at random for each packet, so that later
  /// packets may overtake earlier ones.
  struct Delay {
    std::string wire{};  ///< path of the program slow_wire; empty for no delay
    std::chrono::milliseconds middle{};
    std::chrono::milliseconds jitter{};  ///< the time differs from `middle` by at most this
    std::uint32_t seed = 0;
  };

  explicit Network(int places) : Network{places, Delay{}} {}
  Network(int places, const Delay& delay);
  Network(Network&&) = delete;

  int places() const { return static_cast<int>(places_.size()); }
  static std::string address_of(int place) { return "10.77.0." + std::to_string(10 + place); }
  /// Starts a program in this place.
  std::unique_ptr<ChildProgram> start(int place, const std::string& program, std::vector<std::string> arguments,
                                      const ChildProgram::Variables& variables = {}) const;

  /// Drops the packets that go from one place to the other; the opposite direction stays open.
  void cut_way(int from, int to) const;
  void cut_both_ways(int one, int other) const;
  /// Cuts both directions between this place and each other place.
  void cut_off(int place) const;
  /// Drops this share of all packets, at random.
  void lose(double share) const;
  void heal() const;
  /// Limits the rate of the packets to a place and from it. The rate is in the notation of tc, like "1mbit".
  void bound(int place, const std::string& rate) const;

  /// What the kernel has counted at the bridge's ports. Proves that a fault is active, and that packets met it.
  struct Count {
    std::uint64_t sent = 0;     ///< packets that came to the fault's place
    std::uint64_t dropped = 0;  ///< packets that the fault has dropped
    std::uint64_t delayed = 0;  ///< how often the rate's limit held a packet up
  };
  /// The packets that came from all places, and of them those that lose() and the cuts have dropped.
  Count count_lost() const;
  /// The packets to a place whose rate is bound().
  Count count_bound(int place) const;
  /// The packets that the slow wires have carried, and those among them that a later packet has overtaken.
  struct Carried {
    std::uint64_t packets = 0;
    std::uint64_t overtaken = 0;
    std::chrono::milliseconds mean{};  ///< mean time on one wire
  };
  /// Asks the wires of a network with a Delay.
  Carried count_carried() const;

 private:
  static std::unique_ptr<ChildProgram> new_namespace(const std::string& commands);
  /// Returns what the commands print.
  std::string run_outside(const std::string& commands) const;

  std::unique_ptr<ChildProgram> outside_;  // holds the namespace of the bridge
  std::vector<std::unique_ptr<ChildProgram>> places_;
  std::vector<std::unique_ptr<ChildProgram>> wires_;
};

}  // namespace pharos::cluster
