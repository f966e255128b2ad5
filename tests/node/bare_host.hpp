#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/manual_executor.hpp>
#include <pharos/net/link.hpp>

#include "node/host.hpp"

namespace pharos::node {

/// A link that keeps the messages sent over it, and leads nowhere.
class KeptWire final : public net::Link {
 public:
  void start(const std::shared_ptr<Handler>& handler) override { handler_ = handler; }
  void resume() override {}
  bool send(wire::FrameHeader header, std::span<const std::byte> payload, std::vector<Fd>) override {
    sent.push_back({header.kind, header.number, *wire::decode(payload)});
    return true;
  }
  void flush() override {}
  std::size_t queued() const override { return 0; }
  void wait_for_room(std::size_t, async::Deadline) override {}
  void close() override { closed = true; }
  void drop() override { closed = true; }

  /// A message comes from the other end.
  void receive(wire::FrameKind kind, std::uint64_t number, const wire::Message& message) {
    const std::vector<std::byte> payload = wire::encode(message);
    const wire::FrameHeader header{
        .payload_bytes = static_cast<std::uint32_t>(payload.size()), .kind = kind, .number = number};
    const std::size_t bytes = sizeof header + payload.size();
    const net::ReceiveBuffer buffer{bytes};
    std::memcpy(buffer.bytes(), &header, sizeof header);
    std::memcpy(buffer.bytes() + sizeof header, payload.data(), payload.size());
    if (const auto handler = handler_.lock()) handler->on_frames(net::FrameBatch{buffer, 0, bytes}, {});
  }
  /// The connection breaks.
  void break_off() {
    if (const auto handler = handler_.lock()) handler->on_closed({ErrorCode::kUnavailable, "the connection broke"});
  }

  struct Sent {
    wire::FrameKind kind;
    std::uint64_t number;
    wire::Message message;
  };
  std::vector<Sent> sent;
  bool closed = false;
  Fd socket{};  ///< what the host was given for this link, and whether messages may bring descriptors
  net::Descriptors descriptors = net::Descriptors::kRefused;

 private:
  std::weak_ptr<Handler> handler_;
};

/// A host on a simulated clock, without processes and disks. Work that may block runs when the executor is idle. Links
/// are KeptWires, of which the test finds the newest one.
class BareHost final : public Host {
 public:
  explicit BareHost(async::ManualExecutor& executor) : executor_{executor} {}

  Result<net::SocketPair> make_connection() override { return none(); }
  Result<net::SocketPair> make_inheritance(net::Identity, std::string_view) override { return none(); }
  async::Async<Result<void>> prove(int, net::Identity, async::Deadline) override { return proves_nothing(); }
  std::shared_ptr<net::Link> make_link(Fd socket, net::Descriptors descriptors) override {
    wires.push_back(std::make_shared<KeptWire>());
    wires.back()->socket = std::move(socket);
    wires.back()->descriptors = descriptors;
    return wires.back();
  }
  async::Async<Result<Fd>> reach(std::string, Introduction, async::Deadline) override { return reaches(reachable); }
  void take_token(const wire::RotateToken&) override {}
  std::string machine_of(int) override { return machine; }

  Result<pid_t> start_zygote(const wire::RegisterJob&, int, Fd) override { return none(); }
  void kill_zygote(pid_t) override {}
  void open_program(const wire::RegisterJob&, async::UniqueFunction<void(Result<ProgramHere>)> done) override {
    executor_.post([done = std::move(done)]() mutable { done(none()); });
  }
  void fetch_program(std::string, JobId, std::shared_ptr<ArrivingProgram>,
                     async::UniqueFunction<void(Result<void>)> done) override {
    executor_.post([done = std::move(done)]() mutable { done(none()); });
  }
  void serve_program(Fd, Fd, const wire::RegisterJob&) override {}
  void remove_own_folder(std::string) override {}
  void kill_worker(int, pid_t) override {}
  Result<OutputPipe> make_output(Output::Ready, Output::Sink) override { return none(); }
  std::optional<MemoryUse> memory_use() override { return std::nullopt; }
  ByteCount memory_of(pid_t) override { return {}; }

  Result<Life> make_life(async::UniqueFunction<void()> ended) override {
    auto watch = std::make_shared<async::UniqueFunction<void()>>(std::move(ended));
    lives.push_back(watch);
    return Life{Fd{}, watch};
  }
  Result<Fd> make_spill_file(const std::string&) override { return none(); }
  void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) override {
    executor_.post([work = std::move(work), done = std::move(done)]() mutable {
      work();
      done();
    });
  }
  void pull(std::string, const object_store::PullRequest&, std::shared_ptr<object_store::Chunks>,
            Pulled done) override {
    executor_.post([done = std::move(done)]() mutable { done(none()); });
  }
  void serve_pull(Fd, MakePullAnswer) override {}

  bool reachable = false;  ///< whether other nodes can be reached
  std::string machine{};   ///< the machine at the other end of each connection
  std::vector<std::shared_ptr<KeptWire>> wires;
  std::vector<std::weak_ptr<async::UniqueFunction<void()>>> lives;

 private:
  static Error none() { return {ErrorCode::kUnavailable, "this host has no such thing"}; }
  static async::Async<Result<void>> proves_nothing() { co_return none(); }
  static async::Async<Result<Fd>> reaches(bool reachable) {
    if (!reachable) co_return none();
    co_return Fd{};
  }

  async::ManualExecutor& executor_;
};

}  // namespace pharos::node
