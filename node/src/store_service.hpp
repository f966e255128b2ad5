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

#include "exports.hpp"
#include "host.hpp"
#include "imports.hpp"
#include "node_store.hpp"

namespace pharos::node {

/// The node's object store: made when a process first asks for it, and what processes and other nodes ask of it.
/// Owned by Node; on its strand, but for what reads and writes the disk. A process uses the store until it closes what
/// it was given for that, or ends: its connection may end before, since values outlive their Runtime.
///
/// When memory becomes short (kSpillAbove), objects go to disk, those first that were not read for longest; they come
/// back when they are read. What does not fit waits: all are asked to give back what is free, memory that nobody uses
/// goes back to the system, objects go to disk. When kFullTime passes in which nothing became free, it is refused with
/// numbers. Requests are served in their order.
class StoreService {
 public:
  struct Settings {
    NodeId node{};
    ByteCount capacity;        ///< 0: as much as the machine has to spare
    std::string spill_folder;  ///< kNoSpilling: objects stay in memory
  };
  static constexpr const char* kNoSpilling = "none";

  /// `find`: where other nodes are reached.
  StoreService(async::Executor& executor, Host& host, Settings settings, Imports::Find find);
  ~StoreService();

  /// False for a message that is not the store's.
  bool on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                  std::optional<std::uint64_t> request);
  /// Another node will claim objects here.
  void add_neighbour(NodeId node, Fd socket);
  /// Another node wants one of those, or one that is on its way here.
  void offer(const object_store::Wish& wish, Host::TakeOffer then);
  void close();
  bool closed() const { return background_.size() == 0 && (imports_ == nullptr || imports_->closed()); }

  /// For people: what there is, the largest objects first, and the processes that use it, without their names.
  wire::InspectedStore inspect() const;
  /// For tests: what it still keeps when all processes have ended. Empty: nothing.
  std::string leftovers() const;

 private:
  using Location = object_store::Location;
  using Place = object_store::Place;
  using Body = object_store::Lender::Body;

  struct Process {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<void> watch;  // over its life
  };
  /// A table is another process's soon after it was one's: only both say who it is.
  struct Asker {
    std::shared_ptr<net::Peer> peer;  // null: this node itself
    std::uint32_t table = 0;
    std::uint64_t request = 0;
  };
  struct Waiting {
    Asker asker;
    std::variant<std::uint64_t, Location> what;  // a slab of slots of so many bytes, or an object
    TimePoint until;
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
  /// Answers it, or begins what will; false: there is no room yet.
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
  /// False when there is not so much that could go.
  bool spill(std::uint64_t bytes);
  void spill_early();
  struct Left {
    std::optional<object_store::SpillFile::Kept> kept;  // none: another node has it
    bool is_out = false;
  };
  void take_out(const Body& body, const std::optional<object_store::SpillFile::Kept>& kept, Result<void> written);
  void has_left(const Body& body, Result<Left> left);
  void bring_back(const Body& body, Imports::Urgency urgency);
  void has_returned(const Body& body, const Result<void>& read);
  void end_outside();
  /// Copies on disk that nobody uses just now, and for which this is true; how many.
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
  /// Runs `work` where it may block, then `done` here with what it gave.
  template <class Work, class Done>
  void run_aside(Work work, Done done);
  /// The same for the pieces of an object: `work` is given some of them at a time, `done` the first error.
  template <class Work, class Done>
  void run_in_parts(std::uint64_t size, Work work, Done done);

  async::Executor& executor_;
  Host& host_;
  const Settings settings_;
  const Imports::Find find_;
  const std::shared_ptr<void> life_ = std::make_shared<char>();  // for as long as this is there
  // Null until first asked for.
  std::shared_ptr<NodeStore> store_;
  std::unique_ptr<Imports> imports_;
  std::unique_ptr<Exports> exports_;
  std::map<std::uint32_t, Process> processes_;
  std::deque<Waiting> waiting_;

  std::uint64_t leaving_bytes_ = 0;                         // on their way to disk
  std::uint64_t releasing_bytes_ = 0;                       // on their way to the system
  std::map<Place, object_store::SpillFile::Kept> on_disk_;  // out, or in memory too
  std::set<Place> leaving_;
  std::map<Place, std::vector<Asker>> returning_;  // and who waits for them
  std::optional<Error> spill_error_;               // the last attempt's
  TimePoint spill_again_{};                        // not before, after an error
  TimePoint early_again_{};                        // nor before it is necessary, when there was too little to go
  TimePoint trim_again_{};

  std::uint32_t own_table_ = 0;  // of the pins with which this node reads
  std::uint64_t last_request_ = 0;
  std::size_t aheads_ = 0;  // imports that nobody waits for
  std::map<std::uint64_t, async::UniqueFunction<void(Result<void>)>> own_requests_;

  TimePoint next_look_ = TimePoint::max();
  bool trims_later_ = false;
  bool releases_idle_ = false;

  async::AsyncGroup background_;
};

}  // namespace pharos::node
