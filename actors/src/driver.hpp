#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include <pharos/actors/runtime.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>

#include "call_link.hpp"
#include "embedded_cluster.hpp"
#include "flush_queue.hpp"
#include "task_pool.hpp"
#include "waiting_room.hpp"

namespace pharos::detail {

/// One actor, as its driver knows it: kept by the driver until the actor has ended, and by handles.
class ActorHandle final : public actors::CallLink::Observer {
 public:
  static std::shared_ptr<ActorHandle> make(const std::shared_ptr<Driver>& driver, ActorId id, std::string label);

  ActorId id() const { return id_; }
  const std::string& label() const { return label_; }
  const std::shared_ptr<actors::CallLink>& link() const { return link_; }
  CellHandle call(const RegisteredFunction& function, const Encoder& arguments);
  void kill();

  /// Sends the constructor's arguments: the first call.
  void construct(std::uint32_t constructor, std::span<const std::byte> arguments, CellHandle constructed);
  /// No handle is left: it ends once every call is answered.
  void let_go();

  void on_replies(actors::CallLink& link, std::size_t replies, Duration execution, std::size_t in_flight) override;
  void on_disconnected(actors::CallLink& link) override;

 private:
  ActorHandle(const std::shared_ptr<Driver>& driver, ActorId id, std::string label);
  void end_if_done(std::size_t in_flight);

  const std::weak_ptr<Driver> driver_;
  const ActorId id_;
  const std::string label_;
  CellHandle constructed_;        // the reading thread's, until it is there
  std::optional<Error> failure_;  // the constructor threw: as with the last handle, it ends once calls are answered
  std::atomic<bool> let_go_ = false;
  std::atomic<bool> ended_ = false;
  std::shared_ptr<actors::CallLink> link_;  // set once, by make()
};

/// What a Runtime is: this program's connection to its node, its actors and tasks, and the thread that reads for them
/// when no user's thread does.
/// Threads: the public interface from any; what nodes tell is handled on the reactor's strand.
/// End: stop() ends everything; afterwards calls fail with kRuntimeStopped.
class Driver final : public std::enable_shared_from_this<Driver>,
                     public net::Peer::Owner,
                     public actors::TaskPool::Leases {
 public:
  static Result<std::shared_ptr<Driver>> start(const RuntimeOptions& options);
  ~Driver() override;

  CellHandle submit(const RegisteredFunction& function, const Encoder& arguments);
  std::shared_ptr<ActorHandle> spawn(const ActorOptions& options, const char* type_name,
                                     const RegisteredFunction& constructor, const Encoder& arguments);
  /// Tells the node to end it: at once, or after its destructor.
  void end_actor(ActorId actor, bool kill);
  void actor_disconnected(ActorId actor);
  void stop();

  CellHandle new_cell() const { return ResultCell::make(room_); }
  std::shared_ptr<actors::CallLink> new_link(ActorId actor, std::weak_ptr<actors::CallLink::Observer> observer);

  JobId job() const { return job_; }
  std::string address() const { return address_; }
  /// In a child of fork(): this process has no part in it any more.
  void abandon_after_fork();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  Driver();

  Result<void> connect(const RuntimeOptions& options);
  Result<void> register_job();
  void run_io();
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  void request_lease() override;
  void return_lease(WorkerId worker) override;
  void worker_disconnected(WorkerId worker) override;

  static async::Async<void> lease_worker(Driver* self);
  static async::Async<void> start_actor(Driver* self, std::shared_ptr<ActorHandle> actor);
  static async::Async<void> watch_idle_workers(Driver* self);
  static async::Async<void> stop_cluster(Driver* self);
  static async::Async<void> give_up_on_worker(Driver* self, WorkerId worker);
  static async::Async<void> give_up_on_actor(Driver* self, ActorId actor);

  void connect_worker(actors::CallLink& link, net::Parcel parcel);
  std::shared_ptr<ActorHandle> take_actor(ActorId actor);
  void lose_actor(ActorId actor, const Error& why);
  void lose_everything(const Error& why);
  std::optional<Error> over();
  void reap_keeper();

  net::Reactor reactor_;
  std::shared_ptr<actors::FlushQueue> flush_queue_;
  std::shared_ptr<actors::WaitingRoom> room_;
  actors::TaskPool tasks_;
  std::shared_ptr<net::Peer> node_;
  pid_t keeper_ = 0;
  bool greeted_ = false;  // the daemon has proved itself
  JobId job_;
  CallerId caller_;
  std::string address_;
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> stopping_ = false;

  std::mutex actors_mutex_;
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors_;
  std::optional<Error> over_;  // why nothing can be asked of the node any more
  // The strand's.
  bool watches_idle_workers_ = false;

  std::atomic<bool> io_ends_ = false;
  std::thread io_thread_;
  async::AsyncGroup background_;
};

}  // namespace pharos::detail
