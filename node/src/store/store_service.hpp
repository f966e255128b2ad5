#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/net/peer.hpp>

#include "node/host.hpp"
#include "store/exports.hpp"
#include "store/imports.hpp"
#include "store/node_store.hpp"

namespace pharos::node {

/// Serves the node's object store to processes and other nodes. The store is made when one of them first asks for it.
/// Owned by Node; on its strand, except for work that reads and writes the disk. A process uses the store until it
/// closes the descriptor that it was given for that (Host::Life), at its end at the latest. Its connection may end
/// before, because values may outlive their Runtime.
///
/// When memory becomes short (kSpillAbove), objects go to disk, first those that were not read for the longest time.
/// They come back when they are read. A request that does not fit waits: free memory goes back to the system, processes
/// are asked to return what they do not use, and objects go to disk. A request is refused with kExhausted, and numbers,
/// when nothing has become free for kFullTime. Requests are served in their order.
/// End: close(), then closed() becomes true soon. Work that still runs aside when the destructor runs reports nothing.
class StoreService {
 public:
  struct Settings {
    NodeId node{};
    ByteCount capacity;        ///< bytes of memory for objects; 0: object_store::default_capacity()
    std::string spill_folder;  ///< kNoSpilling: objects stay in memory
  };
  static constexpr const char* kNoSpilling = "none";

  /// `find` returns the address of another node.
  StoreService(async::Executor& executor, Host& host, Settings settings, Imports::Find find);
  ~StoreService();

  /// Handles a message of a process. Returns false if the message is not for the store.
  bool on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                  std::optional<std::uint64_t> request);
  /// Takes the connection over which another node will claim objects: see Exports::add_neighbour().
  void add_neighbour(NodeId node, Fd socket);
  /// Answers a node that wants to pull an object: see Exports::offer().
  void offer(const object_store::Wish& wish, Host::TakeOffer then);
  void close();
  bool closed() const { return background_.size() == 0 && (imports_ == nullptr || imports_->closed()); }

  /// For users: the objects, the largest first, and the processes that use the store, without their names.
  wire::InspectedStore inspect() const;
  /// For tests: says what is still kept after all processes have ended. Empty if nothing is.
  std::string leftovers() const;

 private:
  using Location = object_store::Location;
  using Place = object_store::Place;
  using Body = object_store::Lender::Body;

  struct Process {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<void> watch;  // tells when the process has stopped using the store
  };
  /// The process that has made a request. A table is used again soon after its process has ended, so a process is known
  /// only by peer and table together.
  struct Asker {
    std::shared_ptr<net::Peer> peer;  // null: this node itself asks
    std::uint32_t table = 0;
    std::uint64_t request = 0;
  };
  struct Waiting {
    Asker asker;
    std::variant<std::uint64_t, Location> what;  // a slab with slots of so many bytes, or an object to bring back
    TimePoint until;                             // when it is refused if nothing has become free before
  };

  Result<void> set_up();
  void bring(const Location& here, async::UniqueFunction<void(Result<void>)> then);
  bool is_there(const Asker& asker) const;
  void forget_if_ended(const Asker& asker);
  Result<wire::StoreOpened> open(const std::shared_ptr<net::Peer>& peer, CallerId caller, std::vector<Fd>& descriptors);
  std::optional<std::uint32_t> table_of(const net::Peer& peer) const;
  void process_ended(std::uint32_t table);

  // Requests.
  void ask(const std::shared_ptr<net::Peer>& from, std::variant<std::uint64_t, Location> what, std::uint64_t request);
  void serve_waiting();
  /// Answers a request, or begins the work that will answer it. Returns false if there is no room yet.
  bool serve(const Waiting& waiting);
  bool serve(const Waiting& waiting, std::uint64_t slot_bytes);
  bool serve(const Waiting& waiting, const Location& location);
  void answer(const Asker& asker, const wire::Message& answer);
  void answer(const Asker& asker, Error error);
  bool refuse(const Waiting& waiting, Error error);

  // Memory.
  void make_room();
  void ask_to_trim();
  void release(std::uint64_t bytes);
  /// Begins to move so many bytes of objects to disk. Returns false if fewer bytes can go.
  bool spill(std::uint64_t bytes);
  void spill_early();
  struct Left {
    std::optional<object_store::SpillFile::Kept> kept;  // the copy on disk; nullopt: another node has the object
    bool is_out = false;                                // false: it was called back, or has ended
  };
  void take_out(const Body& body, const std::optional<object_store::SpillFile::Kept>& kept, Result<void> written);
  void has_left(const Body& body, Result<Left> left);
  void bring_back(const Body& body, Imports::Urgency urgency);
  void has_returned(const Body& body, const Result<void>& read);
  void end_outside();
  /// Drops the copies on disk for which `which` is true, except those that are in use at the moment. Returns how many.
  template <class Condition>
  std::size_t drop_copies(Condition which);
  void progress();

  // Time.
  void look_again_at(TimePoint when);
  void look_again();
  void trim_later();
  void release_idle_later();
  static async::Async<void> import(StoreService* self, Asker asker, Location object);
  void import_ahead(const Asker& asker, const Location& object);
  static async::Async<void> import_ahead(StoreService* self, Asker asker, Location object);
  /// Runs `work` on a thread where it may block, then `done` on the strand with the result of `work`.
  template <class Work, class Done>
  void run_aside(Work work, Done done);
  /// The same for the pieces of an object: each call of `work` gets some of the pieces, and `done` the first error.
  template <class Work, class Done>
  void run_in_parts(std::uint64_t size, Work work, Done done);

  async::Executor& executor_;
  Host& host_;
  const Settings settings_;
  const Imports::Find find_;
  const std::shared_ptr<void> life_ = std::make_shared<char>();  // expires with this object
  // Null until a process or another node first asks for the store.
  std::shared_ptr<NodeStore> store_;
  std::unique_ptr<Imports> imports_;
  std::unique_ptr<Exports> exports_;
  std::map<std::uint32_t, Process> processes_;
  std::deque<Waiting> waiting_;

  std::uint64_t leaving_bytes_ = 0;                         // memory of objects on their way to disk
  std::uint64_t releasing_bytes_ = 0;                       // free memory on its way back to the system
  std::map<Place, object_store::SpillFile::Kept> on_disk_;  // copies on disk of objects that are out or in memory
  std::set<Place> leaving_;                                 // objects on their way to disk
  std::map<Place, std::vector<Asker>> returning_;           // objects that come back, and the processes that wait
  std::optional<Error> spill_error_;                        // why the last attempt to use the disk has failed
  TimePoint spill_again_{};  // after an error of the disk: the disk is not tried before this time
  TimePoint early_again_{};  // after too few objects could go: spill_early() does nothing before this time
  TimePoint trim_again_{};   // processes are not asked before this time to return what they do not use

  std::uint32_t own_table_ = 0;  // table of the pins with which this node itself reads objects
  std::uint64_t last_request_ = 0;
  std::size_t aheads_ = 0;  // imports under way that nobody waits for
  std::map<std::uint64_t, async::UniqueFunction<void(Result<void>)>> own_requests_;

  TimePoint next_look_ = TimePoint::max();
  bool trims_later_ = false;
  bool releases_idle_ = false;

  async::AsyncGroup background_;
};

}  // namespace pharos::node
