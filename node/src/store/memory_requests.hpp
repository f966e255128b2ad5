#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>

#include "store/idle_memory.hpp"
#include "store/imported_objects.hpp"
#include "store/node_store.hpp"
#include "store/spilling.hpp"
#include "store/store_processes.hpp"

namespace pharos::node {

/// Requests that need memory of the store: for slabs, and for objects that are to come back to memory. They are served
/// in their order, so that large requests are not passed by small ones for ever.
/// A request that does not fit waits: free memory goes back to the system, processes are asked to return what they do
/// not use, and objects go to disk. A request is refused with kExhausted, and numbers, when nothing has become free for
/// a second; at once if it is larger than the store. Requests of processes that have ended are dropped.
/// An object that is gone is refused with kOwnerDied or kObjectLost, and so is one whose copy on disk is damaged; other
/// errors are those of the disk or of ImportedObjects::bring().
/// Owned by StoreService; on the node's strand. Its timers use it: the executor has to stop before the destructor,
/// which answers nobody.
class MemoryRequests {
 public:
  using Location = object_store::Location;
  using Place = object_store::Place;
  using Asker = StoreProcesses::Asker;
  using Brought = async::UniqueFunction<void(Result<void>)>;
  /// The parts of the store that the requests use. All of them outlive this object.
  struct Parts {
    std::shared_ptr<NodeStore> store;
    StoreProcesses& processes;
    ImportedObjects& imports;
    IdleMemory& idle;
    Spilling& spilling;
  };

  /// `look_at` asks the owner to call serve() again at that time, at the latest.
  MemoryRequests(async::Executor& executor, Parts parts, std::function<void(TimePoint when)> look_at);

  /// A process wants a slab with slots of so many bytes. It is answered with SlabLeased.
  void lease(Asker process, std::uint64_t slot_bytes);
  /// A process wants to read an object, which has to be in memory for that. It is answered with Done.
  void bring(Asker process, const Location& object);
  /// This node itself wants to read an object, which it has pinned in this table. `then` runs later, never inside.
  void bring_for_node(std::uint32_t table, const Location& object, Brought then);
  /// Brings an object that may be needed soon, but only while no request waits for memory. Returns whether it is on its
  /// way now.
  bool bring_ahead(const Place& place);

  /// Serves the requests for which there is room, and makes room for the first of the others.
  void serve();
  /// There is more room, or the disk works again. So requests that wait get their whole time once more.
  void progress();
  /// The number of requests that wait for memory.
  std::size_t waiting() const { return waiting_.size(); }

 private:
  using Body = object_store::StoreBook::Body;
  /// A process, or this node itself.
  struct Requester {
    Asker process{};  // if the node asks, only the table is set
    Brought node{};   // set if the node asks
  };
  struct Waiting {
    Requester requester;
    std::variant<std::uint64_t, Location> what;  // a slab with slots of so many bytes, or an object to bring back
    TimePoint until;                             // when it is refused if nothing has become free before
  };

  void add(Requester requester, std::variant<std::uint64_t, Location> what);
  bool is_there(const Requester& requester) const;
  void answer(Requester& requester, const wire::Message& answer);
  void answer(Requester& requester, Error error);
  /// Answers a request, or begins the work that will answer it. Returns false if there is no room yet.
  bool serve(Waiting& waiting);
  bool serve(Waiting& waiting, std::uint64_t slot_bytes);
  bool serve(Waiting& waiting, const Location& location);
  bool refuse(Waiting& waiting, Error error);
  std::uint64_t memory_for(const Waiting& waiting) const;
  void make_room();
  void trim_later();
  void bring_back(const Body& body, ImportedObjects::Urgency urgency);
  void has_returned(const Body& body, const Result<void>& read);

  async::Executor& executor_;
  const Parts parts_;
  const std::function<void(TimePoint when)> look_at_;
  std::deque<Waiting> waiting_;
  std::map<Place, std::vector<Requester>> returning_;  // objects that come back, and the requesters that wait
  TimePoint trim_again_{};  // processes are not asked before this time to return what they do not use
  bool trims_later_ = false;
};

}  // namespace pharos::node
