#include "many_nodes.hpp"

#include <time.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

#include <pharos/async/async_group.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

#include "figures.hpp"

namespace bench {

namespace async = pharos::async;
namespace net = pharos::net;
namespace node = pharos::node;
namespace wire = pharos::wire;
using pharos::ActorId;
using pharos::Error;
using pharos::ErrorCode;
using pharos::Fd;
using pharos::NodeId;
using pharos::Result;
using pharos::scheduler::Resources;
using namespace std::chrono_literals;

namespace {

/// Returns the CPU seconds that this thread takes for the work, so that other programs of the machine do not count.
template <class Work>
double seconds_of(Work work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

constexpr std::size_t kAskedAtOnce = 512;
constexpr std::size_t kReportMax = 10'000;  // incarnations and holds in one report

async::Async<void> go_on(node::Membership* head) {
  const auto started = co_await head->start();
  if (!started) throw std::runtime_error{started.error().to_string()};
}

Error nothing_of_that() {
  return {ErrorCode::kUnavailable, "there are no processes here"};
}

}  // namespace

/// The head's end of a connection. The head's messages stay here until the simulated node takes them.
class ManyNodes::Link final : public net::Link {
 public:
  explicit Link(std::function<void()> on_news) : on_news_{std::move(on_news)} {}

  void start(const std::shared_ptr<Handler>& handler) override { handler_ = handler; }
  void resume() override {}
  bool send(wire::FrameHeader, std::span<const std::byte> payload, std::vector<Fd>) override {
    if (closed_) return false;
    if (sent_.empty()) on_news_();
    sent_.emplace_back(payload.begin(), payload.end());
    return true;
  }
  void flush() override {}
  std::size_t queued() const override { return 0; }
  void wait_for_room(std::size_t, async::Deadline) override {}
  void close() override { closed_ = true; }
  void drop() override { close(); }

  std::vector<std::vector<std::byte>> take_sent() { return std::exchange(sent_, {}); }
  void deliver(net::FrameBatch frames) {
    if (const auto handler = handler_.lock(); handler != nullptr && !closed_) handler->on_frames(std::move(frames), {});
  }
  void break_off() {
    if (const auto handler = handler_.lock(); handler != nullptr && !closed_) {
      handler->on_closed({ErrorCode::kUnavailable, "the peer closed the connection"});
    }
    closed_ = true;
  }

 private:
  const std::function<void()> on_news_;
  std::weak_ptr<Handler> handler_;
  std::vector<std::vector<std::byte>> sent_;
  bool closed_ = false;
};

/// A host that only has connections to the simulated nodes. All else fails or does nothing.
class ManyNodes::Host final : public node::Host {
 public:
  explicit Host(OneThread& executor) : executor_{executor} {}

  void connect_next(std::shared_ptr<Link> link) { next_ = std::move(link); }

  std::shared_ptr<net::Link> make_link(Fd, net::Descriptors) override { return std::exchange(next_, nullptr); }
  void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) override {
    work();
    executor_.post(std::move(done));
  }

  Result<net::SocketPair> make_connection() override { return nothing_of_that(); }
  Result<net::SocketPair> make_inheritance(net::Identity, std::string_view) override { return nothing_of_that(); }
  async::Async<Result<void>> prove(int, net::Identity, async::Deadline) override { co_return nothing_of_that(); }
  async::Async<Result<Fd>> reach(std::string, node::Introduction, async::Deadline) override {
    co_return nothing_of_that();
  }
  void take_token(const wire::RotateToken&) override {}
  std::string machine_of(int) override { return {}; }
  Result<pid_t> start_zygote(const wire::RegisterJob&, int, Fd) override { return nothing_of_that(); }
  void kill_zygote(pid_t) override {}
  void open_program(const wire::RegisterJob&,
                    async::UniqueFunction<void(Result<node::ProgramHere> program)> then) override {
    then(nothing_of_that());
  }
  void fetch_program(std::string, pharos::JobId, std::shared_ptr<node::ArrivingProgram>,
                     async::UniqueFunction<void(Result<void>)> then) override {
    then(nothing_of_that());
  }
  void serve_program(Fd, Fd, const wire::RegisterJob&) override {}
  void remove_own_folder(std::string) override {}
  std::optional<MemoryUse> memory_use() override { return std::nullopt; }
  pharos::ByteCount memory_of(pid_t) override { return {}; }
  void kill_worker(int, pid_t) override {}
  Result<OutputPipe> make_output(Output::Ready, Output::Sink) override { return nothing_of_that(); }
  Result<Life> make_life(async::UniqueFunction<void()>) override { return nothing_of_that(); }
  Result<Fd> make_spill_file(const std::string&) override { return nothing_of_that(); }
  void pull(std::string, const pharos::object_store::PullRequest&, std::shared_ptr<pharos::object_store::Chunks>,
            Pulled) override {}
  void serve_pull(Fd, MakePullAnswer) override {}

 private:
  OneThread& executor_;
  std::shared_ptr<Link> next_;
};

// Allocates the state of the simulated nodes before the first measurement of memory.
ManyNodes::ManyNodes(std::size_t nodes, std::size_t actors, std::uint64_t seats, std::filesystem::path state)
    : state_{std::move(state)},
      seats_{seats},
      nodes_(nodes),
      places_(actors),
      host_{std::make_unique<Host>(executor_)} {
  news_.reserve(nodes);
}

ManyNodes::~ManyNodes() {
  stop_head();
}

// ---- Work of the head

double ManyNodes::start_head() {
  const NodeId own{~std::uint64_t{0}};
  node::Membership::Settings settings{.node = {.id = own,
                                               .address = {},
                                               .head_address = {},
                                               .machine = {},
                                               .object_store = {.node = own, .capacity = {}, .spill_folder = "none"}}};
  if (!state_.empty()) settings.open_records = [this] { return pharos::storage::open_rocksdb(state_); };
  const node::Membership::Ends ends{.lost = [](const Error& why) { throw std::runtime_error{why.to_string()}; },
                                    .given_up = [] {}};
  const auto start = Clock::now();
  head_ = std::make_unique<node::Membership>(executor_, *host_, std::move(settings), ends);
  if (!state_.empty()) {
    async::AsyncGroup starting{executor_};
    starting.spawn(go_on(head_.get()));
    executor_.run_until([&] { return head_->head() != nullptr && starting.size() == 0; });
  }
  return seconds_since(start);
}

void ManyNodes::stop_head() {
  if (head_ == nullptr) return;
  head_->close();
  executor_.run_until([this] { return head_->closed(); });
  head_.reset();
  executor_.run();
}

double ManyNodes::join_node() {
  return join(joined_++, false);
}

double ManyNodes::replace_node(std::size_t node) {
  return join(node, false);
}

double ManyNodes::join(std::size_t place, bool again) {
  Node& node = nodes_[place];
  if (!again) node.id = NodeId{++last_node_};
  node.told = node.asked = 0;
  node.link = std::make_shared<Link>([this, place] { note_news(place); });
  const auto whole = [](std::uint64_t count) { return static_cast<std::int64_t>(count) * Resources::kWhole; };
  wire::Amounts amounts{{"cpu", whole(64)}, {"seat", whole(seats_)}, {"tape", whole(1)}};
  if (place + 1 == nodes_.size()) amounts["rare"] = whole(1000);
  const wire::JoinCluster ask{
      .node = node.id,
      .address = "10.0." + std::to_string(place / 256) + "." + std::to_string(place % 256) + ":6379",
      .amounts = std::move(amounts),
      .labels = {{"zone", "z" + std::to_string(place % 10)}},
      .again = again};
  host_->connect_next(node.link);
  const double connected = seconds_of([&] { head_->add_node(Fd{}); });
  const double joined = connected + tell(node, ask, true);
  return joined + let_nodes_answer();
}

double ManyNodes::start_program() {
  return tell(nodes_[0], wire::AddJob{kJob, {.executable = "bench", .arguments = {}, .environment = {}, .folder = {}}});
}

double ManyNodes::ask_for_actor(const std::string& asks_for) {
  return tell(nodes_[0], next_actor(asks_for)) + let_nodes_answer();
}

double ManyNodes::create_actor(const std::string& asks_for) {
  const std::size_t before = alive_;
  const double time = ask_for_actor(asks_for);
  if (alive_ != before + 1) throw std::runtime_error{"an actor was not placed"};
  return time;
}

double ManyNodes::lose_node(std::size_t place) {
  const double time = seconds_of([&] {
    nodes_[place].link->break_off();
    executor_.run();
  });
  return time + let_nodes_answer();
}

double ManyNodes::let_a_second_pass(bool with_loads) {
  double time = 0;
  for (Node& node : nodes_) {
    // The node claims to have received all messages of the head.
    time += tell(node, wire::Beat{.sent = {}, .heard = std::numeric_limits<std::uint64_t>::max()});
    if (with_loads) time += tell(node, wire::NodeLoad{{{"cpu", Resources::kWhole}}});
  }
  time += seconds_of([&] { executor_.pass(1s); });
  return time + let_nodes_answer();
}

double ManyNodes::list(const std::string& table, std::uint32_t limit) {
  rows_ = {};
  const double time =
      tell(nodes_[0], wire::ListRows{.table = table, .filters = {}, .limit = limit, .number = ++last_question_});
  let_nodes_answer();
  return time;
}

double ManyNodes::inspect() {
  inspected_ = 0;
  const double time = tell(nodes_[0], wire::Inspect{.asker = {kJob, kCaller, ++last_question_}});
  let_nodes_answer();
  return time;
}

double ManyNodes::end_program() {
  return tell(nodes_[0], wire::EndJob{kJob}) + let_nodes_answer();
}

double ManyNodes::return_nodes() {
  double time = 0;
  for (std::size_t place = 0; place < nodes_.size(); ++place) time += join(place, true);
  const auto reports = make_reports();
  for (std::size_t place = 0; place < nodes_.size(); ++place) {
    for (const wire::Report& report : reports[place]) time += tell(nodes_[place], report);
  }
  return time + let_nodes_answer();
}

// ---- Work that is not timed

void ManyNodes::create_actors(std::size_t actors) {
  const std::size_t all = alive_ + actors;
  std::size_t asked = alive_;
  while (alive_ < all) {
    while (asked < all && asked - alive_ < kAskedAtOnce) {
      tell(nodes_[0], next_actor("seat"));
      ++asked;
    }
    executor_.run_until([this] { return !news_.empty(); });
    let_nodes_answer();
  }
}

std::size_t ManyNodes::actors_at(std::size_t node) const {
  std::size_t actors = 0;
  for (std::uint64_t actor = 1; actor <= last_actor_; ++actor) {
    if (places_[actor - 1].incarnation != 0 && places_[actor - 1].node == node) ++actors;
  }
  return actors;
}

// ---- The nodes

/// Returns the reports of each node. Every report of a node but the last one has `more` set.
std::vector<std::vector<wire::Report>> ManyNodes::make_reports() const {
  std::vector<std::vector<wire::Report>> reports(nodes_.size(), {wire::Report{.jobs = {kJob}, .more = true}});
  const auto room = [&](std::size_t place) -> wire::Report& {
    if (reports[place].back().incarnations.size() + reports[place].back().holds.size() == kReportMax) {
      reports[place].push_back({.more = true});
    }
    return reports[place].back();
  };
  room(0).callers.push_back({kCaller, kJob});
  for (std::uint64_t actor = 1; actor <= last_actor_; ++actor) {
    const Place& at = places_[actor - 1];
    room(at.node).incarnations.push_back({ActorId{actor}, at.incarnation, true});
    room(0).holds.push_back({kCaller, ActorId{actor}, 1});
  }
  for (auto& of_node : reports) of_node.back().more = false;
  return reports;
}

wire::StartActor ManyNodes::next_actor(const std::string& asks_for) {
  wire::StartActor start{.actor = ActorId{++last_actor_}};
  if (places_.size() < last_actor_) places_.resize(last_actor_);
  start.label = "actor";
  start.arguments.resize(64);
  start.type = "5Actor";
  start.max_restarts = -1;
  start.demand.amounts = Resources::parse(asks_for + (asks_for.find('=') == std::string::npos ? "=1" : ""))->amounts();
  start.asker = {kJob, kCaller, ++last_question_};
  return start;
}

double ManyNodes::tell(Node& node, const wire::Message& message, bool asks) {
  const auto bytes = wire::encode(message);
  wire::FrameHeader header;
  header.payload_bytes = static_cast<std::uint32_t>(bytes.size());
  header.kind = asks ? wire::FrameKind::kRequest : wire::FrameKind::kControl;
  header.number = asks ? ++node.asked : ++node.told;
  const net::ReceiveBuffer buffer{sizeof header + bytes.size()};
  std::memcpy(buffer.bytes(), &header, sizeof header);
  std::memcpy(buffer.bytes() + sizeof header, bytes.data(), bytes.size());
  net::FrameBatch frames{buffer, 0, sizeof header + bytes.size()};
  return seconds_of([&] {
    node.link->deliver(std::move(frames));
    executor_.run();
  });
}

double ManyNodes::let_nodes_answer() {
  double time = 0;
  while (!news_.empty()) {
    for (const std::size_t place : std::exchange(news_, {})) {
      for (const auto& bytes : nodes_[place].link->take_sent()) {
        const auto message = wire::decode(bytes);
        if (!message) throw std::runtime_error{message.error().to_string()};
        if (const auto answer = answer_to(place, *message)) time += tell(nodes_[place], *answer);
      }
    }
  }
  return time;
}

std::optional<wire::Message> ManyNodes::answer_to(std::size_t node, const wire::Message& message) {
  if (const auto* const start = std::get_if<wire::StartIncarnation>(&message)) {
    places_[start->actor.value() - 1] = {node, start->incarnation};
    return wire::ActorConstructed{start->actor, start->incarnation, std::nullopt};
  }
  if (const auto* const end = std::get_if<wire::EndIncarnation>(&message)) {
    places_[end->actor.value() - 1] = {};
    return wire::IncarnationEnded{end->actor, end->incarnation, "killed"};
  }
  if (std::holds_alternative<wire::ActorAlive>(message)) ++alive_;
  if (const auto* const rows = std::get_if<wire::Rows>(&message)) rows_ = *rows;
  if (const auto* const told = std::get_if<wire::Inspected>(&message)) inspected_ = told->workers.size();
  if (const auto* const failure = std::get_if<wire::Failure>(&message)) {
    throw std::runtime_error{failure->error.to_string()};
  }
  if (const auto* const refused = std::get_if<wire::Refused>(&message)) {
    throw std::runtime_error{refused->why.to_string()};
  }
  return std::nullopt;
}

}  // namespace bench
