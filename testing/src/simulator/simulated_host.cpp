#include "simulator/simulated_host.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/random.hpp>

#include "simulator/zygote_program.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLoadMin = 500us;
constexpr Duration kLoadMax = 8ms;
constexpr Duration kGreetMin = 100us;  // time to connect and for both sides to prove who they are
constexpr Duration kGreetMax = 3ms;
constexpr Duration kHearMax = 500us;  // longest time until the other node hears the purpose of a connection
constexpr Duration kDiskMin = 20us;
constexpr Duration kDiskMax = 5ms;
constexpr Duration kLookTime = 50ms;  // how often a receiver looks whether the sender of an object lives
constexpr Duration kStreamTime = 20s;
constexpr Duration kPullReachTime = 3s;
constexpr auto kJoinTime = 9s;

/// An output to which no process writes.
class NoOutput final : public node::Host::Output {
 public:
  void drain() override {}
};

/// Calls `ended` when a connection ends on which no message is ever sent.
class LifeWatch final : public net::Link::Handler {
 public:
  LifeWatch(std::shared_ptr<net::Link> link, async::UniqueFunction<void()> ended)
      : link_{std::move(link)}, ended_{std::move(ended)} {}
  ~LifeWatch() override { link_->close(); }

  void on_frames(net::FrameBatch, std::vector<Fd>) override {}
  void on_closed(Error) override { ended_(); }

 private:
  const std::shared_ptr<net::Link> link_;
  async::UniqueFunction<void()> ended_;
};

}  // namespace

// ---- The node's process, composed as the daemon does it

class SimulatedHost::NodeProgram final : public Program {
 public:
  NodeProgram(Process& process, SimulatedHost& host)
      : process_{process},
        host_{host},
        membership_{process.executor(),
                    host,
                    {.node = settings_of(host), .open_records = host.open_records(process)},
                    {.lost = [&process](const Error&) { process.exit(1); },
                     .given_up =
                         [&process, &host] {
                           host.given_up_ = true;
                           process.exit(1);
                         },
                     .told_to = [&process] { process.exit(); }}},
        background_{process.executor()} {}

  node::Membership& membership() { return membership_; }
  const node::Membership& membership() const { return membership_; }

  void start_head() { background_.spawn(be_head()); }
  void join_or_end() { background_.spawn(join_or_exit()); }
  void join_for(Fd driver) { background_.spawn(join_with(std::move(driver))); }

  void end() override {
    background_.cancel();
    membership_.close();
  }
  void on_child_ended(pid_t pid, int status) override { membership_.node().on_child_ended(pid, status); }

 private:
  static node::Node::Settings settings_of(SimulatedHost& host) {
    node::Machine machine;
    machine.resources = host.settings_.resources;
    for (std::uint32_t gpu = 0; gpu < host.settings_.gpus; ++gpu) machine.gpus.push_back(std::to_string(gpu));
    const NodeId id = host.node_id_ = NodeId{random_u64()};
    return {.id = id,
            .address = {},
            .head_address = host.settings_.head == nullptr ? "" : host.settings_.head->address(),
            .machine = machine,
            .object_store = {.node = id, .capacity = host.settings_.object_store, .spill_folder = "memory"},
            .logs = {.folder = {}, .own = "/dev/null"}};
  }

  async::Async<Result<void>> join() {
    const SimulatedHost::Settings& settings = host_.settings_;
    const auto deadline = async::Deadline::after(kJoinTime, process_.executor());
    node::Membership::ReachedAt reached_at = [name = settings.name](int) { return Result<std::string>{name}; };
    co_return co_await membership_.join(std::move(reached_at), deadline);
  }
  async::Async<void> be_head() {
    const auto started = co_await membership_.start();
    if (!started) process_.exit(1);
  }
  async::Async<void> join_or_exit() {
    const auto joined = co_await join();
    if (!joined) process_.exit(1);
  }
  async::Async<void> join_with(Fd driver) {
    node::Node& node = membership_.node();
    auto joined = co_await join();
    if (!joined) node.refuse_jobs(std::move(joined).error());
    node.when_gone(node.add_driver(std::move(driver)), [&process = process_] { process.exit(); });
  }

  Process& process_;
  SimulatedHost& host_;
  node::Membership membership_;
  async::AsyncGroup background_;
};

SimulatedHost::SimulatedHost(Kernel& kernel, Settings settings, Find find)
    : kernel_{kernel},
      network_{kernel.network()},
      settings_{std::move(settings)},
      find_{std::move(find)},
      process_{kernel.start(settings_.name, nullptr, Duration{0}, [this](Process& process) -> std::unique_ptr<Program> {
        auto program = std::make_unique<NodeProgram>(process, *this);
        program_ = program.get();
        if (settings_.disk != nullptr) program_->start_head();
        if (settings_.head != nullptr && !settings_.serves_only_driver) program_->join_or_end();
        return program;
      })} {}

node::Membership::OpenRecords SimulatedHost::open_records(Process& process) const {
  if (settings_.disk == nullptr) return {};
  return [disk = settings_.disk, &process] { return disk->open(process); };
}

void SimulatedHost::serve_driver(Fd socket, bool it_alone) {
  const Duration later = kernel_.world().lots().between(Duration{1}, kHearMax);
  process_.at(process_.now() + later, [this, it_alone, socket = std::move(socket)]() mutable {
    if (it_alone) return program_->join_for(std::move(socket));
    program_->membership().add_driver(std::move(socket));
  });
}

std::string SimulatedHost::leftovers() const {
  return process_.alive() ? program_->membership().leftovers() : "";
}

const node::Membership* SimulatedHost::membership() const {
  return process_.alive() && program_ != nullptr ? &program_->membership() : nullptr;
}

std::string SimulatedHost::check() {
  if (membership() == nullptr || checked_runs_ == process_.runs()) return "";
  checked_runs_ = process_.runs();
  const std::string wrong = membership()->check();
  return wrong.empty() ? "" : process_.name() + ": " + wrong;
}

bool SimulatedHost::has_written_all() const {
  const node::Membership* const there = membership();
  return there != nullptr && there->head() != nullptr && there->records() != nullptr && there->records()->idle();
}

std::string SimulatedHost::wrong_on_disk() const {
  const auto recorded = program_->membership().head()->recorded();
  return recorded ? settings_.disk->difference_from(*recorded) : "";
}

// ---- Connections

Result<net::SocketPair> SimulatedHost::make_connection() {
  auto [first, second] = network_.connect(false);
  return net::SocketPair{std::move(first), std::move(second)};
}

Result<net::SocketPair> SimulatedHost::make_inheritance(net::Identity, std::string_view) {
  return make_connection();
}

async::Async<Result<void>> SimulatedHost::prove(int inheritance, net::Identity, async::Deadline deadline) {
  async::Completion<void> proved;
  network_.when_other_opens(inheritance, [proved](bool opened) mutable {
    if (opened) {
      proved.complete();
    } else {
      proved.fail(Error{ErrorCode::kUnavailable, "the peer closed the connection"});
    }
  });
  return proved.wait(deadline);
}

std::shared_ptr<net::Link> SimulatedHost::make_link(Fd socket, net::Descriptors) {
  return network_.open(std::move(socket), process_);
}

async::Async<Result<Fd>> SimulatedHost::reach(std::string address, node::Introduction introduction,
                                              async::Deadline deadline) {
  return connect(std::move(address), introduction, deadline);
}

async::Async<Result<Fd>> SimulatedHost::connect(std::string to, node::Introduction introduction,
                                                async::Deadline deadline) {
  Lots& lots = kernel_.world().lots();
  const TimePoint held = network_.held_until(address(), to);
  PHAROS_CO_TRY_VOID(co_await async::sleep_until(std::min(held, deadline.when())));
  if (held > deadline.when()) co_return Error{ErrorCode::kUnavailable, "nobody answers at " + to};
  PHAROS_CO_TRY_VOID(co_await async::sleep(lots.between(kGreetMin, kGreetMax)));
  SimulatedHost* const other = find_(to);
  if (other == nullptr || !other->process_.alive() || !process_.alive()) {
    co_return Error{ErrorCode::kUnavailable, "nobody listens at " + to};
  }
  // Connections for callers and objects may break. The connection with which a node joins may not, because the node
  // would be lost.
  auto [mine, others] = network_.connect(introduction.purpose != node::Introduction::Purpose::kJoin,
                                         introduction.leads_to_leased_worker());
  other->process_.at(process_.now() + lots.between(Duration{0}, kHearMax),
                     [other, from = address(), introduction, socket = std::move(others)]() mutable {
                       other->serve_node(from, introduction, std::move(socket));
                     });
  co_return std::move(mine);
}

void SimulatedHost::serve_node(const std::string& from, const node::Introduction& introduction, Fd socket) {
  arrives_from_ = from;
  if (introduction.purpose == node::Introduction::Purpose::kJoin) {
    program_->membership().add_node(std::move(socket));
  } else {
    program_->membership().node().serve_far(introduction, std::move(socket));
  }
}

// ---- Processes

Result<pid_t> SimulatedHost::start_zygote(const wire::RegisterJob& program, int, Fd inheritance) {
  if (!process_.alive()) return Error{ErrorCode::kUnavailable, "the node has ended"};
  const Duration loading = kernel_.world().lots().between(kLoadMin, kLoadMax);
  const Process& zygote =
      kernel_.start("zygote", &process_, loading,
                    [&kernel = kernel_, socket = std::move(inheritance),
                     build_id = program.build_id](Process& process) mutable -> std::unique_ptr<Program> {
                      return std::make_unique<ZygoteProgram>(process, kernel, std::move(socket), build_id);
                    });
  return zygote.number();
}

// Every machine has the executable of every program, so none has to be fetched.
void SimulatedHost::open_program(const wire::RegisterJob& program,
                                 async::UniqueFunction<void(Result<node::ProgramHere> here)> done) {
  auto here = [folder = program.folder, done = std::move(done)]() mutable {
    done(node::ProgramHere{.folder = std::move(folder)});
  };
  run_blocking([] {}, std::move(here));
}

Result<node::Host::Life> SimulatedHost::make_life(async::UniqueFunction<void()> ended) {
  auto [theirs, ours] = network_.connect(false);
  const auto link = network_.open(std::move(ours), process_);
  const auto watch = std::make_shared<LifeWatch>(link, std::move(ended));
  link->start(watch);
  return Life{std::move(theirs), watch};
}

Result<Fd> SimulatedHost::make_spill_file(const std::string& folder) {
  Fd file{::memfd_create(folder.c_str(), MFD_CLOEXEC)};
  if (!file) return Error::from_errno("making a file in memory", errno);
  return file;
}

void SimulatedHost::run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) {
  const Duration later = kernel_.world().lots().between(kDiskMin, kDiskMax);
  process_.at(process_.now() + later, [work = std::move(work), done = std::move(done)]() mutable {
    work();
    done();
  });
}

/// Copies an object's chunks from one node to another, one by one, until all have arrived or the stream breaks.
class SimulatedHost::Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  Transfer(SimulatedHost& to, SimulatedHost& from, std::shared_ptr<object_store::Chunks> into, Pulled done)
      : to_{to}, from_{from}, into_{std::move(into)}, done_{std::move(done)} {}

  void begin(const object_store::PullRequest& request) {
    from_.process_.at(to_.process_.now() + lots().between(kGreetMin, kGreetMax), [self = shared_from_this(), request] {
      self->from_.program_->membership().node().answer_pull(
          request, [self](Result<PullAnswer> offer) { self->on_offer(std::move(offer)); });
    });
    look_after_sender();
  }

 private:
  Lots& lots() { return to_.kernel_.world().lots(); }

  void on_offer(Result<PullAnswer> offer) {
    if (!offer) return end(offer.error());
    if (offer->instead) return end(std::optional{offer->instead});
    offer_ = *std::move(offer);
    next_chunk();
  }
  // Runs in the sender's process.
  void next_chunk() {
    if (lots().one_in(40)) return end(Error{ErrorCode::kUnavailable, "the stream has broken"});
    while (at_ < into_->count() && into_->has(at_)) ++at_;
    if (at_ == into_->count()) return end(std::optional<NodeId>{});
    const Duration later = lots().between(kHearMax / 10, kHearMax);
    from_.process_.at(from_.process_.now() + later, [self = shared_from_this()] {
      if (self->ended_) return;
      if (self->offer_.chunks->has(self->at_)) self->receive();
      self->next_chunk();
    });
  }
  void receive() {
    if (!to_.process_.alive()) return;
    const auto chunk = offer_.chunks->chunk(at_);
    std::copy(chunk.begin(), chunk.end(), into_->room_for(at_).begin());
    into_->arrived(at_, 0);
  }
  // Stands for a socket, whose end the receiver would see.
  void look_after_sender() {
    to_.process_.at(to_.process_.now() + kLookTime, [self = shared_from_this()] {
      if (self->ended_) return;
      const bool waited_enough = self->to_.process_.now() > self->until_;
      if (self->from_.process_.alive() && !waited_enough) return self->look_after_sender();
      self->end(Error{ErrorCode::kUnavailable, "the stream has ended"});
    });
  }
  void end(Result<std::optional<NodeId>> how) {
    if (std::exchange(ended_, true)) return;
    const TimePoint now = to_.kernel_.world().now();
    if (offer_.done) from_.process_.at(now, std::move(offer_.done));
    to_.process_.at(now + lots().between(Duration{0}, kHearMax),
                    [done = std::make_shared<Pulled>(std::move(done_)), how = std::move(how)]() mutable {
                      (*done)(std::move(how));
                    });
  }

  SimulatedHost& to_;
  SimulatedHost& from_;
  const std::shared_ptr<object_store::Chunks> into_;
  Pulled done_;
  PullAnswer offer_;
  std::size_t at_ = 0;
  bool ended_ = false;
  const TimePoint until_ = to_.process_.now() + kStreamTime;
};

void SimulatedHost::pull(std::string address, const object_store::PullRequest& request,
                         std::shared_ptr<object_store::Chunks> into, Pulled done) {
  SimulatedHost* const from = find_(address);
  if (network_.cut_off_until(this->address(), address) > process_.now()) {
    process_.at(process_.now() + kPullReachTime, [done = std::make_shared<Pulled>(std::move(done)), address] {
      (*done)(Error{ErrorCode::kUnavailable, "nobody answers at " + address});
    });
    return;
  }
  if (from == nullptr || !from->process_.alive()) {
    process_.at(process_.now() + kGreetMin, [done = std::make_shared<Pulled>(std::move(done)), address] {
      (*done)(Error{ErrorCode::kUnavailable, "nobody listens at " + address});
    });
    return;
  }
  std::make_shared<Transfer>(*this, *from, std::move(into), std::move(done))->begin(request);
}

Result<node::Host::OutputPipe> SimulatedHost::make_output(Output::Ready, Output::Sink) {
  return OutputPipe{std::move(some_file().front()), std::make_shared<NoOutput>()};
}

}  // namespace pharos::simulator
