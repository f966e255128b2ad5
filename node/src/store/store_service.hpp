#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/net/peer.hpp>

#include "node/host.hpp"
#include "store/imported_objects.hpp"
#include "store/store_inspection.hpp"
#include "store/store_processes.hpp"

namespace pharos::node {

/// Serves the node's object store to processes and other nodes. The store is made when one of them first asks for it.
/// StoreProcesses are the processes that use the store, MemoryRequests what they ask for, Spilling the objects on disk,
/// ImportedObjects and ExportedObjects what this node and others have of each other, DepartingObjects what moves to
/// other nodes when this one drains. This class puts them together, and
/// looks from time to time for objects that have ended without a message.
/// Owned by Node; on its strand, except for work that reads and writes the disk.
/// Failure: a process gets kFailedPrecondition if it has not opened the store, the error of making the store or a table
/// (kExhausted if too many processes use it), or an error of MemoryRequests or ImportedObjects::import().
/// End: close() ends what concerns other nodes, then closed() becomes true soon. Requests that wait get no answer,
/// because Node closes the connections of the processes at the same time. Work that still runs on other threads when
/// the destructor runs reports nothing. Timers use this object: the executor has to stop before the destructor.
class StoreService {
 public:
  struct Settings {
    NodeId node{};
    ByteCount capacity;        ///< bytes of memory for objects; 0: object_store::default_capacity()
    std::string spill_folder;  ///< kNoSpilling: objects stay in memory
  };
  static constexpr const char* kNoSpilling = "none";

  /// `find` returns the address of another node, and is called on the strand until closed() is true.
  StoreService(async::Executor& executor, Host& host, Settings settings, ImportedObjects::Find find);
  ~StoreService();

  /// Handles a message of a process. Returns false if the message is not for the store, or is not the request that it
  /// should be. When a process ends, what it has of the store is given back; results that it has made for others stay
  /// for 5 s, until those have taken them.
  bool on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                  std::optional<std::uint64_t> request);
  /// Takes the connection over which another node will claim objects: see ExportedObjects::add_neighbour(). Closes the
  /// connection if the store cannot be made.
  void add_neighbour(NodeId node, Fd socket);
  /// Answers a node that wants to pull an object: see ExportedObjects::answer_pull().
  void answer_pull(const object_store::PullRequest& request, Host::TakePullAnswer then);
  /// This node drains: begins to move what other nodes need to those nodes. Returns whether nothing is left that they
  /// need, or that a caller may still ask for.
  bool move_out();
  void close();
  bool closed() const;

  /// For users, with the 1000 largest objects.
  StoreInspection inspect() const;
  /// For tests: says what is still kept after all processes have ended. Empty if nothing is.
  std::string leftovers() const;

 private:
  using Location = object_store::Location;
  using Asker = StoreProcesses::Asker;
  struct Parts;

  Result<void> set_up();
  void open(const std::shared_ptr<net::Peer>& from, CallerId caller, std::uint64_t request);
  Result<wire::StoreOpened> open(const std::shared_ptr<net::Peer>& peer, CallerId caller, std::vector<Fd>& descriptors);
  void import_for(const std::shared_ptr<net::Peer>& from, const Location& object, std::optional<std::uint64_t> request);
  async::Async<void> import(Asker asker, Location object);
  async::Async<void> import_ahead(Asker asker, Location object);
  void give_back(const net::Peer& from, std::uint32_t first_slot);
  void process_ended(std::uint32_t table);
  void forget_if_ended(const Asker& asker);
  void look_again_at(TimePoint when);
  void look_again_for_readers();
  void look_again();

  async::Executor& executor_;
  Host& host_;
  const Settings settings_;
  const ImportedObjects::Find find_;
  StoreProcesses processes_;
  std::unique_ptr<Parts> parts_;  // null until a process or another node first asks for the store
  std::size_t aheads_ = 0;        // imports under way that nobody waits for
  TimePoint next_look_ = TimePoint::max();
  async::AsyncGroup background_;
};

}  // namespace pharos::node
