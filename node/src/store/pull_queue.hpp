#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/store_book.hpp>

namespace pharos::node {

/// The pulls of imported objects that have not begun, and how many are under way. Objects that a caller waits for come
/// first; those that may be needed soon leave room for them. A node that does not answer holds up no pulls from others.
/// Owned by ImportedObjects. On the node's strand. Nothing waits or fails. The destructor drops the pulls that have not
/// begun, without a call of their `done`.
class PullQueue {
 public:
  static constexpr std::size_t kAtOnce = 4;       ///< pulls under way; each may fill the wire
  static constexpr std::size_t kAheadAtOnce = 2;  ///< a pull that nobody waits for begins below this many

  /// A caller waits for the object, or may need it soon.
  enum class Urgency : std::uint8_t { kWaitedFor, kAhead };

  struct Pull {
    ObjectId id;
    NodeId origin;  ///< the object's own node
    object_store::StoreBook::Body body;
    async::UniqueFunction<void(Result<void>)> done;
  };

  /// Marks a pull from a node that does not answer, for as long as this object lives. Another pull takes its place
  /// meanwhile. The pull keeps its memory, so no other pull from that node is begun. Must not outlive the queue.
  class Aside {
   public:
    Aside(PullQueue& queue, NodeId origin);
    Aside(Aside&&) = delete;
    ~Aside();

   private:
    PullQueue& queue_;
    const NodeId origin_;
  };

  void add(Pull pull, Urgency urgency);
  /// A caller now waits for the object in this place. Returns whether its pull had been added as kAhead, and has not
  /// begun.
  bool hurry(const object_store::Place& here);
  /// Takes a pull that may begin now. It is under way until the caller calls end(). nullopt if none may begin.
  std::optional<Pull> next();
  void end() { --under_way_; }

 private:
  std::optional<Pull> next_of(std::deque<Pull>& pulls);

  std::deque<Pull> waited_for_;
  std::deque<Pull> ahead_;
  std::size_t under_way_ = 0;            // without those that are aside
  std::map<NodeId, std::size_t> aside_;  // pulls from each node that does not answer
};

}  // namespace pharos::node
