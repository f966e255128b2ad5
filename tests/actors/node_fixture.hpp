#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/socket_link.hpp>

#include "caller/connector.hpp"
#include "caller/flush_queue.hpp"
#include "caller/node_line.hpp"
#include "caller/outgoing_calls.hpp"
#include "caller/pending_calls.hpp"
#include "program/reactor_platform.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"
#include "results/waiting_room.hpp"
#include "thread_state.hpp"

namespace pharos::actors {

/// A time so long that reaching it means a failed test.
inline constexpr auto kFarTime = std::chrono::seconds{30};

/// A thread that polls a reactor until the destructor.
class PollingThread {
 public:
  explicit PollingThread(net::Reactor& reactor) : reactor_{reactor}, thread_{[this] { poll(); }} {}
  PollingThread(PollingThread&&) = delete;
  ~PollingThread() {
    reactor_.post([this] { stopping_ = true; });
    thread_.join();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void poll() {
    while (!stopping_) reactor_.poll_one(Deadline::never());
  }

  net::Reactor& reactor_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// A worker of which there is only the end of its socket for calls. The test reads that and writes to it.
class WorkerByHand {
 public:
  /// `others`, the other end, is for the caller.
  explicit WorkerByHand(Fd& others) {
    auto ends = *net::socket_pair();
    others = std::move(ends.first);
    socket_ = std::move(ends.second);
  }

  struct Frame {
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };
  /// Waits for the next frame. Throws if the caller has closed the connection, or if none comes.
  Frame next() const {
    Frame frame;
    receive(std::as_writable_bytes(std::span{&frame.header, 1}));
    frame.payload.resize(frame.header.payload_bytes);
    receive(frame.payload);
    return frame;
  }
  /// Expects that the caller gives up the call of this number next.
  void expect_cancel_of(std::uint64_t number) const {
    const Frame frame = next();
    EXPECT_EQ(frame.header.kind, wire::FrameKind::kCancel);
    EXPECT_EQ(frame.header.number, number);
  }
  void reply(std::uint64_t number, std::span<const std::byte> payload = {}, std::uint8_t flags = 0) const {
    wire::FrameHeader header;
    header.kind = wire::FrameKind::kReply;
    header.flags = flags;
    header.number = number;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    EXPECT_TRUE(net::send_all(socket_.get(), std::as_bytes(std::span{&header, 1}), Deadline::in(kFarTime)).ok());
    EXPECT_TRUE(net::send_all(socket_.get(), payload, Deadline::in(kFarTime)).ok());
  }
  /// Returns whether the caller closes the connection before it sends another frame.
  bool sees_the_end() const {
    std::byte one[1];
    const auto received = net::receive_all(socket_.get(), one, Deadline::in(kFarTime));
    return !received && received.error().code() == ErrorCode::kUnavailable;
  }
  void die() { socket_.reset(); }

 private:
  void receive(std::span<std::byte> bytes) const {
    const auto received = net::receive_all(socket_.get(), bytes, Deadline::in(kFarTime));
    if (!received) throw std::runtime_error{"no frame has come to the worker: " + received.error().to_string()};
  }

  Fd socket_;
};

/// A node that the test plays. It has a thread of its own, and keeps what it hears until the test takes it. It answers
/// only Stop by itself, with Done.
class NodeByHand final : public net::Peer::Owner {
 public:
  template <class M>
  struct Heard {
    M message;
    std::optional<std::uint64_t> request;  ///< nothing if no answer is expected
  };

  explicit NodeByHand(Fd socket) {
    const auto link = net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kAccepted);
    caller_ = net::Peer::make(reactor_, link, *this);
    link->start(caller_);
  }
  ~NodeByHand() override { hang_up(); }

  /// Takes the first message of this kind. Waits for it, and throws if none comes.
  template <class M>
  Heard<M> next() {
    std::unique_lock lock{mutex_};
    auto found = heard_.end();
    const bool came = changed_.wait_for(lock, kFarTime, [&] {
      found = std::ranges::find_if(heard_, [](const auto& each) { return is<M>(each); });
      return found != heard_.end();
    });
    if (!came) throw std::runtime_error{std::string{"the node has not heard "} + typeid(M).name()};
    Heard<M> taken{std::get<M>(std::move(found->message)), found->request};
    heard_.erase(found);
    return taken;
  }
  /// Takes all messages of this kind that have come.
  template <class M>
  std::vector<M> all() {
    const std::lock_guard lock{mutex_};
    std::vector<M> taken;
    for (const auto& each : heard_) {
      if (is<M>(each)) taken.push_back(std::get<M>(each.message));
    }
    std::erase_if(heard_, [](const auto& each) { return is<M>(each); });
    return taken;
  }

  template <class M>
  void answer(const Heard<M>& heard, const wire::Message& answer) const {
    EXPECT_TRUE(caller_->respond(heard.request.value(), answer));
  }
  template <class M>
  void refuse(const Heard<M>& heard, Error why) const {
    EXPECT_TRUE(caller_->respond(heard.request.value(), std::move(why)));
  }
  /// Answers with a worker, and returns it.
  template <class M>
  WorkerByHand offer_worker(const Heard<M>& heard, const wire::WorkerReady& ready) const {
    std::vector<Fd> descriptors(1);
    WorkerByHand worker{descriptors.front()};
    EXPECT_TRUE(caller_->respond(heard.request.value(), ready, std::move(descriptors)));
    return worker;
  }
  /// Closes the connection to the caller.
  void hang_up() { async::block_on(reactor_, close(caller_)); }

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override {
    if (request && std::holds_alternative<wire::Stop>(parcel.message)) {
      from.respond(*request, wire::Done{});
      return;
    }
    const std::lock_guard lock{mutex_};
    heard_.push_back({std::move(parcel.message), request});
    changed_.notify_all();
  }
  void on_peer_closed(net::Peer&, const Error&) override {}

  static async::Async<void> close(std::shared_ptr<net::Peer> peer) {
    peer->close();
    co_return;
  }

 private:
  template <class M>
  static bool is(const Heard<wire::Message>& heard) {
    return std::holds_alternative<M>(heard.message);
  }

  net::Reactor reactor_;
  std::shared_ptr<net::Peer> caller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Heard<wire::Message>> heard_;
  const PollingThread thread_{reactor_};
};

/// The parts of a caller whose node is played by the test. A derived fixture calls end() in its destructor.
class NodeTest : public testing::Test {
 protected:
  static constexpr JobId kJob{3};
  static constexpr CallerId kCaller{4};
  static constexpr NodeId kHere{5};
  static constexpr std::uint32_t kCpus = 2;

  /// Lets the test keep the strand busy: posted work waits until release().
  class StrandHeld {
   public:
    explicit StrandHeld(async::Executor& executor) {
      const auto began = std::make_shared<std::promise<void>>();
      executor.post([held = go_.get_future().share(), began] {
        began->set_value();
        held.wait();
      });
      began->get_future().wait();
    }
    StrandHeld(StrandHeld&&) = delete;
    ~StrandHeld() { release(); }
    void release() {
      if (!std::exchange(released_, true)) go_.set_value();
    }

   private:
    std::promise<void> go_;
    bool released_ = false;
  };

  explicit NodeTest(bool joins = true) {
    const auto link = net::SocketLink::make(platform_->reactor(), std::move(ends_.first), net::Descriptors::kAccepted);
    peer_ = net::Peer::make(platform_->reactor(), link, ignored_);
    link->start(peer_);
    if (joins) join();
  }
  ~NodeTest() override {
    end();
    large_values_->end();
    room_->close();
    flush_queue_->close();
  }

  void join() { line_->join(peer_, {kJob, kCaller, kHere, kCpus, {}, "address"}); }
  /// Ends the line, and what waits for its node.
  void end() {
    node_.hang_up();
    async::block_on(platform_->reactor(), NodeByHand::close(peer_));
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    line_->end();
  }

  void on_strand(std::function<void()> what) { async::block_on(line_->executor(), run(std::move(what))); }
  /// Returns when the node has heard all that was said before, and this process has handled all that the node said.
  void settle() { EXPECT_TRUE(async::block_on(line_->executor(), ask(peer_, wire::Stop{})).ok()); }
  /// Takes the messages of this kind that the node has been sent by now.
  template <class M>
  std::vector<M> all_heard() {
    settle();
    return node_.all<M>();
  }

  /// Runs `what` in a thread of its own. Returns when the thread waits for something, or has ended.
  template <class What>
  auto in_thread(What what) {
    std::packaged_task<std::invoke_result_t<What>()> task{std::move(what)};
    auto outcome = task.get_future();
    const auto number = std::make_shared<std::promise<pid_t>>();
    threads_.emplace_back([number, task = std::move(task)]() mutable {
      number->set_value(::gettid());
      task();
    });
    const pid_t thread = number->get_future().get();
    while (!is_over(outcome) && !thread_sleeps(thread)) ::sched_yield();
    return outcome;
  }
  template <class T>
  static bool is_over(const std::future<T>& outcome) {
    return outcome.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
  }
  /// Waits for the outcome, and throws if there is none.
  template <class T>
  static T outcome_of(std::future<T>& outcome) {
    if (outcome.wait_for(kFarTime) != std::future_status::ready) throw std::runtime_error{"the thread waits too long"};
    return outcome.get();
  }

  detail::CellHandle new_call(std::uint8_t max_retries = 0) const {
    detail::CellHandle cell = pending_->new_cell();
    detail::ResultCell::Call call;
    call.max_retries = max_retries;
    Encoder arguments;
    arguments.write("four", 4);
    cell->set_call(call, arguments);
    return cell;
  }
  /// Makes a call with these calls' link.
  detail::CellHandle call(OutgoingCalls& calls) const {
    detail::CellHandle cell = new_call();
    EXPECT_TRUE(calls.send(cell, OutgoingCalls::WhenFull::kHold));
    return cell;
  }
  /// Waits for the error of a call.
  static Error error_of(const detail::CellHandle& cell) {
    const auto outcome = cell.wait(Deadline::in(kFarTime));
    return outcome ? Error{ErrorCode::kInternal, "the call has a value"} : outcome.error();
  }
  static bool has_value(const detail::CellHandle& cell) { return cell.wait(Deadline::in(kFarTime)).ok(); }

  static async::Async<Result<net::Parcel>> ask(std::shared_ptr<net::Peer> peer, wire::Message message) {
    co_return co_await peer->request(std::move(message), {}, Deadline::in(kFarTime));
  }
  static async::Async<void> run(std::function<void()> what) {
    what();
    co_return;
  }

 private:
  /// The caller's side of the connection, where nothing comes that is no answer.
  class Ignored final : public net::Peer::Owner {
   public:
    void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
    void on_peer_closed(net::Peer&, const Error&) override {}
  };
  net::SocketPair ends_ = *net::socket_pair();
  Ignored ignored_;

 protected:
  const std::shared_ptr<ReactorPlatform> platform_ = std::make_shared<ReactorPlatform>();
  std::shared_ptr<net::Peer> peer_;
  NodeByHand node_{std::move(ends_.second)};
  const std::shared_ptr<NodeLine> line_ = std::make_shared<NodeLine>(platform_);
  const std::shared_ptr<FlushQueue> flush_queue_ = FlushQueue::make(*platform_, std::chrono::milliseconds{1});
  const std::shared_ptr<LargeValues> large_values_ = std::make_shared<LargeValues>(platform_->executor());
  const std::shared_ptr<WaitingRoom> room_ = std::make_shared<WaitingRoom>(
      *platform_, [] {}, [](detail::ResultCell&) {}, large_values_);
  const std::shared_ptr<PendingCalls> pending_ =
      std::make_shared<PendingCalls>(platform_->executor(), room_, large_values_);
  const std::shared_ptr<Connector> connector_ = std::make_shared<Connector>(
      platform_, OutgoingCalls::Sender{.side = OutgoingCalls::Side::kProgram,
                                       .numbers = std::make_shared<std::atomic<std::uint64_t>>(0),
                                       .clock = platform_,
                                       .flush_queue = flush_queue_,
                                       .large_values = large_values_});
  std::vector<std::thread> threads_;
  const PollingThread polling_{platform_->reactor()};
};

}  // namespace pharos::actors
