#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>

namespace pharos::node {

/// Decides for a head which of its nodes have been silent for too long, and whether the head's own link is down
/// instead. The rules:
/// 1. A node from which nothing has come for more than kTicksMax ticks is lost.
/// 2. There is an exception: all nodes on other machines are silent, they are on two machines at least, and their last
///    messages came within kTogether. Then the head suspects its own link, and none of these nodes is lost.
/// 3. The suspicion ends with the first message from another machine. Each of the others then has kTicksMax ticks from
///    that moment to say something, as if it had just been heard.
/// 4. The suspicion also ends after kSuspicionTicksMax ticks without such a message. Then all of these nodes are lost.
/// A tick is one second of the head's own process: a head that was stopped has not ticked meanwhile.
/// Pure: no clock and no I/O; the owner calls tick() and passes the time. Owned by JoinedNodes; on its strand.
class Silence {
 public:
  static constexpr std::uint32_t kTicksMax = 9;
  static constexpr std::uint32_t kSuspicionTicksMax = 60;
  /// The time between two heartbeats, and half of it for beats that are late.
  static constexpr Duration kTogether = std::chrono::milliseconds{1500};

  using Number = std::uint64_t;
  enum class Change : std::uint8_t { kNone, kSuspicionBegins, kSuspicionEnds };

  /// Adds a node, which counts as heard now. `machine` is empty if it is the head's own.
  void add(Number node, std::string machine, TimePoint now);
  void remove(Number node) { nodes_.erase(node); }
  /// A message has come from the node.
  Change heard(Number node, TimePoint now);
  struct Tick {
    Change change = Change::kNone;
    std::vector<Number> lost{};  ///< nodes in the order of their numbers, each until remove()
  };
  /// One second has passed. Returns the nodes that are lost now. The owner has to remove() them, or hears of them
  /// again.
  Tick tick();

  /// For how many ticks nothing has come from the node; 0 if the node is not known.
  std::uint32_t ticks_of(Number node) const;
  bool suspects_own_link() const { return suspects_; }
  bool is_elsewhere(Number node) const;

 private:
  struct Node {
    std::string machine;
    std::uint32_t ticks = 0;
    TimePoint last_word;
  };
  bool all_fell_silent_together() const;

  std::map<Number, Node> nodes_;
  bool suspects_ = false;
  std::uint32_t suspicion_ticks_ = 0;
};

}  // namespace pharos::node
