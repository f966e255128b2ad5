#pragma once

// What parts of a node need in a test: a clock, a machine without processes, a head that only listens, and peers whose
// other ends are this test.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/manual_executor.hpp>
#include <pharos/base/overloaded.hpp>

#include "node/host.hpp"
#include "node/site.hpp"

namespace pharos::node {

/// A link that keeps the messages sent over it.
class FakeLink final : public net::Link {
 public:
  void start(const std::shared_ptr<Handler>&) override {}
  void resume() override {}
  bool send(wire::FrameHeader, std::span<const std::byte> payload, std::vector<Fd>) override {
    sent.push_back(*wire::decode(payload));
    return true;
  }
  void flush() override {}
  std::size_t queued() const override { return 0; }
  void wait_for_room(std::size_t, async::Deadline) override {}
  void close() override {}
  void drop() override {}

  /// The names of the messages, in their order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const wire::Message& each : sent) all.emplace_back(wire::name_of(each));
    return all;
  }

  std::vector<wire::Message> sent;
};

/// A machine on which nothing can be started. What tests need of it, they set.
class FakeHost final : public Host {
 public:
  Result<net::SocketPair> make_connection() override { return net::SocketPair{}; }
  Result<net::SocketPair> make_inheritance(net::Identity, std::string_view) override { return net::SocketPair{}; }
  async::Async<Result<void>> prove(int, net::Identity, async::Deadline) override { co_return proof; }
  std::shared_ptr<net::Link> make_link(Fd, net::Descriptors) override {
    links.push_back(std::make_shared<FakeLink>());
    return links.back();
  }
  async::Async<Result<Fd>> reach(std::string address, Introduction, async::Deadline) override {
    reached.push_back(address);
    if (unreachable) co_return *unreachable;
    co_return Fd{};
  }
  void take_token(const wire::RotateToken&) override {}
  std::string machine_of(int) override { return {}; }
  Result<pid_t> start_zygote(const wire::RegisterJob& program, int, Fd) override {
    zygotes.push_back(program.environment);
    return static_cast<pid_t>(6 + zygotes.size());
  }
  void kill_zygote(pid_t pid) override { killed.push_back(pid); }
  void open_program(const wire::RegisterJob&, async::UniqueFunction<void(Result<ProgramHere>)> done) override {
    if (!opened) return done(ProgramHere{.missing = missing});
    done(ProgramHere{.folder = *opened, .own_folder = own_folder, .libraries_folder = libraries});
  }
  void fetch_program(std::string address, JobId, std::shared_ptr<ArrivingProgram>,
                     async::UniqueFunction<void(Result<void>)> done) override {
    fetches.emplace_back(std::move(address), std::move(done));
  }
  void serve_program(Fd, Fd, const wire::RegisterJob&) override {}
  void remove_own_folder(std::string folder) override { removed.push_back(std::move(folder)); }
  void kill_worker(int, pid_t pid) override { killed.push_back(pid); }
  Result<OutputPipe> make_output(Output::Ready, Output::Sink) override {
    return OutputPipe{Fd{}, std::make_shared<NoOutput>()};
  }
  std::optional<MemoryUse> memory_use() override { return memory; }
  ByteCount memory_of(pid_t) override { return ByteCount{1 << 20}; }
  Result<Life> make_life(async::UniqueFunction<void()>) override { return Life{}; }
  Result<Fd> make_spill_file(const std::string&) override { return Fd{}; }
  void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) override {
    work();
    done();
  }
  void pull(std::string, const object_store::PullRequest&, std::shared_ptr<object_store::Chunks>, Pulled) override {}
  void serve_pull(Fd, MakePullAnswer) override {}

  std::vector<std::shared_ptr<FakeLink>> links;
  Result<void> proof{};
  std::vector<std::string> reached;
  std::optional<Error> unreachable;
  std::vector<std::vector<std::string>> zygotes;  // the environment of each that was started; their pids are 7, 8, …
  std::vector<pid_t> killed;
  std::optional<std::string> opened;         // the folder of programs that are here
  std::string own_folder;                    // of programs that are here
  std::string libraries;                     // of programs that are here
  std::vector<wire::BuildId> missing{{{}}};  // of programs that are not here
  std::vector<std::string> removed;
  std::vector<std::pair<std::string, async::UniqueFunction<void(Result<void>)>>> fetches;
  std::optional<MemoryUse> memory;

 private:
  class NoOutput final : public Output {
    void drain() override {}
  };
};

class PartsTest : public testing::Test, public net::Peer::Owner {
 protected:
  /// Ends the coroutines before the parts that they use.
  void TearDown() override {
    background.cancel();
    executor.run_until_idle();
  }

  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer&, const Error&) override {}

  static NodeSettings settings() {
    NodeSettings settings;
    settings.id = NodeId{1};
    settings.head_address = "head";
    settings.machine.gpus = {"0", "1"};
    return settings;
  }
  /// A peer whose messages are in `host.links.back()->sent`.
  std::shared_ptr<net::Peer> new_peer() {
    return net::Peer::make(executor, host.make_link(Fd{}, net::Descriptors::kAccepted), *this);
  }
  /// The names of what the head was told since the last call.
  std::vector<std::string> take_told() {
    std::vector<std::string> names;
    for (const wire::Message& each : std::exchange(told, {})) names.emplace_back(wire::name_of(each));
    return names;
  }

  async::ManualExecutor executor;
  FakeHost host;
  std::vector<wire::Message> told;
  async::AsyncGroup background{executor};
  Site site{executor, host, settings(), ToHead{[this](wire::Message message) { told.push_back(std::move(message)); }},
            background};
};

using Names = std::vector<std::string>;

}  // namespace pharos::node
