// Measures the head's shipped code alone, with one simulated node that answers at once: how many durable changes the
// head makes in a second, how soon it is back after a restart, and how much memory an actor takes.

#include "head/head.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

#include "figures.hpp"
#include "folder.hpp"
#include "head/records.hpp"

namespace bench {
namespace {

namespace fs = std::filesystem;
namespace async = pharos::async;
namespace node = pharos::node;
namespace storage = pharos::storage;
namespace wire = pharos::wire;
using pharos::ActorId;
using pharos::CallerId;
using pharos::JobId;
using pharos::NodeId;
using namespace std::chrono_literals;

constexpr std::uint64_t kRecords = 10'000;
constexpr std::uint64_t kActors = 100'000;
constexpr std::size_t kStarting = 256;
constexpr double kSeconds = 2;
constexpr NodeId kNode{1};
constexpr NodeId kOwn{2};
constexpr JobId kJob{3};
constexpr CallerId kCaller{4};

/// Returns the time of one 4 KiB write and its sync, as the log of the records does it.
double sync_us(const fs::path& folder) {
  const int file = ::open((folder / "synced").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  const std::vector<char> page(4096, 'x');
  const double time = median_us(200, [&] {
    if (::write(file, page.data(), page.size()) < 0 || ::fdatasync(file) != 0) throw std::runtime_error{"no disk"};
  });
  ::close(file);
  return time;
}

/// A head, with or without records, and one simulated node that does at once what the head tells it.
class Bench {
 public:
  explicit Bench(const fs::path& state = {}) {
    if (!state.empty()) {
      auto opened = storage::open_rocksdb(state);
      if (!opened) throw std::runtime_error{opened.error().to_string()};
      store_ = *std::move(opened);
      background_.spawn(load());
      while (!head_) poll();
    } else {
      head_.emplace(reactor_);
    }
  }
  Bench(Bench&&) = delete;
  ~Bench() {
    background_.cancel();
    if (records_ != nullptr) records_->close();
    while (background_.size() != 0 || (records_ != nullptr && !records_->closed())) poll();
    head_.reset();
  }

  void join() {
    const node::Head::NodeDescription description{
        .address = "10.0.0.1:1",
        .total = pharos::scheduler::Resources{{{"seat", kActors * pharos::scheduler::Resources::kWhole}}}};
    head_->add_node(kNode, description, [this](wire::Message message) { told(std::move(message)); });
    head_->on_message(kNode,
                      wire::AddJob{kJob, {.executable = "bench", .arguments = {}, .environment = {}, .folder = {}}});
  }
  void start_one() {
    ++started_;
    wire::StartActor start{.actor = ActorId{started_}};
    start.label = "actor";
    start.arguments.resize(64);
    start.type = "5Actor";
    start.demand.amounts = {{"seat", pharos::scheduler::Resources::kWhole}};
    start.asker = {kJob, kCaller, started_};
    head_->on_message(kNode, std::move(start));
  }
  void kill(ActorId actor) { head_->on_message(kNode, wire::KillActor{actor, {kJob, kCaller, 0}}); }
  void poll() { reactor_.poll_one(async::Deadline::after(1s, reactor_.now())); }

  std::uint64_t started() const { return started_; }
  std::uint64_t alive() const { return alive_; }
  std::uint64_t changes() const { return changes_; }
  void kill_what_starts() { kills_ = true; }

 private:
  async::Async<void> load() {
    auto found = co_await node::Records::load(store_.get());
    if (!found) throw std::runtime_error{found.error().to_string()};
    records_ = std::make_unique<node::Records>(
        reactor_, *store_, [](const pharos::Error& why) { throw std::runtime_error{why.to_string()}; });
    head_.emplace(reactor_, kOwn, records_.get());
    head_->restore(*std::move(found));
  }
  // The answer is posted, because the head is inside of a call when it sends a message.
  void told(wire::Message message) {
    reactor_.post([this, message = std::move(message)] {
      if (const auto* const start = std::get_if<wire::StartIncarnation>(&message)) {
        head_->on_message(kNode, wire::ActorConstructed{start->actor, start->incarnation, std::nullopt});
      } else if (const auto* const ready = std::get_if<wire::ActorAlive>(&message)) {
        ++alive_;
        ++changes_;
        if (kills_) kill(ready->actor);
      } else if (const auto* const end = std::get_if<wire::EndIncarnation>(&message)) {
        ++changes_;
        head_->on_message(kNode, wire::IncarnationEnded{end->actor, end->incarnation, "killed"});
      }
    });
  }

  pharos::net::Reactor reactor_;
  std::unique_ptr<storage::KvStore> store_;
  std::unique_ptr<node::Records> records_;
  std::optional<node::Head> head_;
  std::uint64_t started_ = 0;
  std::uint64_t alive_ = 0;
  std::uint64_t changes_ = 0;
  bool kills_ = false;
  async::AsyncGroup background_{reactor_};
};

void start_all(Bench& bench, std::uint64_t actors) {
  while (bench.alive() < actors) {
    while (bench.started() < actors && bench.started() - bench.alive() < kStarting) bench.start_one();
    bench.poll();
  }
}

double mutations_per_s(const fs::path& state) {
  Bench bench{state};
  bench.join();
  bench.kill_what_starts();
  const auto start = Clock::now();
  while (seconds_since(start) < kSeconds) {
    while (bench.started() - bench.alive() < kStarting) bench.start_one();
    bench.poll();
  }
  return static_cast<double>(bench.changes()) / seconds_since(start);
}

double recovery_s(const fs::path& state) {
  {
    Bench before{state};
    before.join();
    start_all(before, kRecords);
  }
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    const Bench after{state};
    times.push_back(seconds_since(start));
  }
  return median(std::move(times));
}

double bytes_per_actor() {
  Bench bench;
  bench.join();
  start_all(bench, 1000);
  const auto before = ::mallinfo2();
  start_all(bench, kActors);
  const auto after = ::mallinfo2();
  return static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / (kActors - 1000);
}

}  // namespace

void measure_head(Report& report) {
  const Folder folder;
  if (report.wants("sync_us")) report.add("sync_us", sync_us(folder.path()), "us");
  if (report.wants("mutations_per_s")) {
    report.add("mutations_per_s", mutations_per_s(folder.path() / "mutations"), "1/s");
  }
  if (report.wants("head_recovery_10000_records_s")) {
    report.add("head_recovery_10000_records_s", recovery_s(folder.path() / "recovery"), "s");
  }
  if (report.wants("head_bytes_per_actor")) report.add("head_bytes_per_actor", bytes_per_actor(), "B");
}

}  // namespace bench
