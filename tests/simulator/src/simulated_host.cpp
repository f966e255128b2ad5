#include "simulated_host.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/random.hpp>

#include "zygote_program.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLoadMin = 500us;
constexpr Duration kLoadMax = 8ms;
constexpr Duration kGreetMin = 100us;  // to connect, and for both to prove themselves
constexpr Duration kGreetMax = 3ms;
constexpr Duration kHearMax = 500us;  // until the other node hears what for
constexpr Duration kDiskMin = 20us;
constexpr Duration kDiskMax = 5ms;
constexpr auto kJoinTime = 9s;
constexpr ByteCount kStoreBytes = 8_MiB;  // it can be full

/// Nobody writes anything.
class NoOutput final : public node::Host::Output {
 public:
  void drain() override {}
};

/// Sees the end of a connection on which nothing is ever said.
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

std::vector<Fd> some_file() {
  std::vector<Fd> files;
  files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return files;
}

// ---- The node's process, as the daemon composes it

class SimulatedHost::NodeProgram final : public Program {
 public:
  NodeProgram(Process& process, SimulatedHost& host)
      : process_{process},
        host_{host},
        membership_{process.executor(), host, settings_of(host), [&process](const Error&) { process.exit(1); }},
        background_{process.executor()} {}

  node::Membership& membership() { return membership_; }
  const node::Membership& membership() const { return membership_; }

  void join_or_end() { background_.spawn(join_or_end(this)); }
  void join_for(Fd driver) { background_.spawn(join_for(this, std::move(driver))); }

  void end() override {
    background_.cancel();
    membership_.close();
  }
  void on_child_ended(pid_t pid, int status) override { membership_.node().on_child_ended(pid, status); }

 private:
  static node::Node::Settings settings_of(const SimulatedHost& host) {
    node::Machine machine;
    if (host.settings_.cpus != 0) {
      machine.resources = scheduler::Resources{
          {{"cpu", host.settings_.cpus * scheduler::Resources::kWhole}, {"gpu", scheduler::Resources::kWhole}}};
      machine.gpus = {"0"};
    }
    return {.id = NodeId{random_u64()},
            .address = {},
            .head_address = host.settings_.head == nullptr ? "" : host.settings_.head->address(),
            .machine = machine,
            .object_store = {.capacity = kStoreBytes, .spill_folder = "memory"}};
  }

  static async::Async<Result<void>> join(NodeProgram* self) {
    const SimulatedHost::Settings& settings = self->host_.settings_;
    const auto deadline = async::Deadline::after(kJoinTime, self->process_.executor());
    const node::Introduction introduction{.purpose = node::Introduction::Purpose::kJoin};
    PHAROS_CO_TRY(Fd socket, co_await self->host_.reach(settings.head->address(), introduction, deadline));
    const std::string reached_at = settings.cpus == 0 ? "" : settings.name;
    co_return co_await node::Membership::join(&self->membership_, std::move(socket), reached_at, deadline);
  }
  static async::Async<void> join_or_end(NodeProgram* self) {
    const auto joined = co_await join(self);
    if (!joined) self->process_.exit(1);
  }
  static async::Async<void> join_for(NodeProgram* self, Fd driver) {
    node::Node& node = self->membership_.node();
    auto joined = co_await join(self);
    if (!joined) node.refuse_jobs(std::move(joined).error());
    node.when_gone(node.add_driver(std::move(driver)), [&process = self->process_] { process.exit(); });
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
        if (settings_.head != nullptr && settings_.cpus != 0) program_->join_or_end();
        return program;
      })} {}

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

async::Async<Result<Fd>> SimulatedHost::reach(std::string address, node::Introduction introduction, async::Deadline) {
  return connect(this, std::move(address), introduction);
}

async::Async<Result<Fd>> SimulatedHost::connect(SimulatedHost* self, std::string address,
                                                node::Introduction introduction) {
  Lots& lots = self->kernel_.world().lots();
  PHAROS_CO_TRY_VOID(co_await async::sleep(lots.between(kGreetMin, kGreetMax)));
  SimulatedHost* const other = self->find_(address);
  if (other == nullptr || !other->process_.alive() || !self->process_.alive()) {
    co_return Error{ErrorCode::kUnavailable, "nobody listens at " + address};
  }
  // What is for callers may break; a node whose connection to the head breaks is lost.
  auto [mine, others] = self->network_.connect(introduction.purpose == node::Introduction::Purpose::kServeCaller);
  other->process_.at(self->process_.now() + lots.between(Duration{0}, kHearMax),
                     [other, introduction, socket = std::move(others)]() mutable {
                       other->serve_node(introduction, std::move(socket));
                     });
  co_return std::move(mine);
}

void SimulatedHost::serve_node(const node::Introduction& introduction, Fd socket) {
  if (introduction.purpose == node::Introduction::Purpose::kServeCaller) {
    program_->membership().node().serve_far_caller(introduction, std::move(socket));
  } else {
    program_->membership().add_node(std::move(socket));
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

void SimulatedHost::run_aside(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) {
  const Duration later = kernel_.world().lots().between(kDiskMin, kDiskMax);
  process_.at(process_.now() + later, [work = std::move(work), done = std::move(done)]() mutable {
    work();
    done();
  });
}

Result<node::Host::OutputPipe> SimulatedHost::make_output(Output::Ready, Output::Sink) {
  return OutputPipe{std::move(some_file().front()), std::make_shared<NoOutput>()};
}

}  // namespace pharos::simulator
