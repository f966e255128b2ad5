#include "workload.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include <pharos/async/completion.hpp>
#include <pharos/pharos.hpp>

#include "history.hpp"
#include "machines.hpp"
#include "simulator/fault_injector.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kEndLimit = 120s;  // after the last fault, every wait ends long before this limit
constexpr Duration kAskLimit = 2s;    // within this time a process must be told what it waits for
constexpr std::int32_t kManyRetries = 100;
constexpr int kTriesMax = 10;
constexpr std::uint64_t kOneLastsIn = 8;  // one seed in this many has a fault that lasts

History* the_history = nullptr;

Lots& lots() {
  return World::of_this_program().lots();
}

void execute(std::uint64_t call) {
  if (!Cluster::alive()) return;
  const Context here = context();
  the_history->executed(call, here.actor.value(), here.incarnation);
  World::of_this_program().note("user code", "runs call", call, here.incarnation);
}

void dawdle() {
  if (lots().one_in(4)) sleep(lots().between(Duration{0}, 3ms));
}

// ---- Values in the object store

constexpr std::size_t kBlockBytes = 150'000;
constexpr std::size_t kGreatBytes = 3 << 19;  // five of these fill the object store

/// Returns a value of this size that holds the number `n` in each page.
Bytes block(std::int32_t n, std::size_t bytes = kBlockBytes) {
  std::vector<std::byte> words(bytes);
  for (std::size_t at = 0; at + sizeof n <= bytes; at += 4096) std::memcpy(words.data() + at, &n, sizeof n);
  return Bytes{std::move(words)};
}
/// Returns the number in the block; -1 if there is none, or if there are several.
std::int32_t number_in(const Bytes& block) {
  std::int32_t first = -1;
  for (std::size_t at = 0; at + sizeof first <= block.size(); at += 4096) {
    std::int32_t n = 0;
    std::memcpy(&n, block.data() + at, sizeof n);
    if (at != 0 && n != first) return -1;
    first = n;
  }
  return first;
}

// ---- Code that workers run

std::int32_t work(std::uint64_t call, std::int32_t n) {
  execute(call);
  dawdle();
  return n + 1;
}

std::int32_t tree(std::uint64_t call, std::int32_t depth) {
  if (depth == 0) {
    if (call != 0) execute(call);
    dawdle();
    return 1;
  }
  Runtime runtime;
  const TaskOptions options{.max_retries = kManyRetries};
  const auto left = runtime.submit<&tree>(options, std::uint64_t{0}, depth - 1);
  const auto right = runtime.submit<&tree>(options, std::uint64_t{0}, depth - 1);
  const std::int32_t leaves = left.get() + right.get();
  if (call != 0) execute(call);
  return leaves;
}

Bytes make_block(std::uint64_t call, std::int32_t n) {
  execute(call);
  dawdle();
  return block(n);
}

struct Flaky : std::runtime_error {
  Flaky() : std::runtime_error{"not this time"} {}
};

class Ledger {
 public:
  explicit Ledger(std::int32_t) {}

  /// Returns n + 1, and the incarnation that ran the call.
  std::pair<std::int32_t, std::uint32_t> add(std::uint64_t call, std::int32_t n) {
    execute(call);
    dawdle();
    if (crashes_ && lots().one_in(25)) Process::current()->crash();
    return {n + 1, context().incarnation};
  }
  /// Fails half of the time, so that it needs retries; else the same as add().
  std::pair<std::int32_t, std::uint32_t> stumble(std::uint64_t call, std::int32_t n) {
    if (lots().one_in(2)) throw Flaky{};
    return add(call, n);
  }
  std::pair<std::int32_t, std::uint32_t> weigh(std::uint64_t call, const Bytes& block) {
    kept_ = block;
    return add(call, number_in(block));
  }
  Actor<Ledger> make_child() { return Runtime{}.spawn<Ledger>(std::int32_t{1}); }
  /// Runs until it is cancelled.
  Async<std::pair<std::int32_t, std::uint32_t>> linger(std::uint64_t call, std::int32_t n) {
    execute(call);
    [[maybe_unused]] const auto cancelled = co_await async::Completion<void>{}.wait(Deadline::never());
    co_return {n + 1, context().incarnation};
  }
  void turn_fragile() { crashes_ = true; }
  std::int32_t peek() const { return 1; }
  std::uint32_t incarnation() const { return context().incarnation; }

 private:
  bool crashes_ = false;
  Bytes kept_;  // keeps the last block in use, so that its memory is not used again
};

std::int32_t fail() {
  dawdle();
  throw std::runtime_error{"no number today"};
}

std::int32_t slow() {
  sleep(lots().between(Duration{0}, 1500ms));
  return 1;
}

// The results whose Refs are in an argument are there when the task runs.
std::int32_t add_all(std::uint64_t call, const std::vector<Ref<std::int32_t>>& refs, std::int32_t n) {
  for (const auto& ref : refs) n += ref.get();
  execute(call);
  return n;
}

// Gets the handle of an actor that may not have been made yet.
std::int32_t visit(std::uint64_t call, const Actor<Ledger>& ledger, std::int32_t n) {
  execute(call);
  return n + ledger.call<&Ledger::peek>().get();
}

// ---- Code that drivers run

struct Pending {
  std::uint64_t call;
  Ref<std::pair<std::int32_t, std::uint32_t>> ref;
};
struct PendingTask {
  std::uint64_t call;
  Ref<std::int32_t> ref;
};
struct PendingBlock {
  std::uint64_t call;
  Ref<Bytes> ref;
};

constexpr const char* kTown = "town";  // a namespace that all programs share

std::string name_of(std::uint64_t driver, std::uint64_t actor) {
  return "ledger" + std::to_string(driver) + std::to_string(actor);
}

struct Owned {
  Actor<Ledger> actor;
  std::int32_t retries;
};

class DriverCode {
 public:
  /// With `slow` the program runs for so long that it sees a fault that lasts.
  DriverCode(Runtime& runtime, std::uint64_t number, std::uint32_t calls, bool slow)
      : runtime_{runtime}, number_{number}, calls_{calls}, slow_{slow} {}

  void run() {
    make_actors();
    for (std::uint64_t i = lots().below(3); i > 0; --i) find_friend();
    if (lots().one_in(3)) look_at_nodes();
    if (lots().one_in(2)) use_key_values();
    if (lots().one_in(4)) make_many_calls();
    if (lots().one_in(10)) fill_store();
    while (calls_ > 0) {
      const std::uint64_t burst = std::min<std::uint64_t>(calls_, lots().between(1, 12));
      calls_ -= static_cast<std::uint32_t>(burst);
      for (std::uint64_t i = 0; i < burst; ++i) one_call();
      if (lots().one_in(8) && !Cluster::explain_waits(kAskLimit) && Cluster::alive()) {
        the_history->note_wrong("driver " + std::to_string(number_) + " was not told what it waits for");
      }
      if (lots().one_in(3)) collect();
      if (lots().one_in(4)) sleep(lots().between(Duration{0}, 10ms));
      if (slow_ && lots().one_in(2)) sleep(lots().between(Duration{0}, 5s));
    }
    collect();
    if (lots().one_in(3)) {
      if (Cluster::alive()) the_history->note_killed(actors_.back().actor.id().value());
      runtime_.kill(actors_.back().actor);
      sleep(5ms);
    }
    if (Cluster::alive()) the_history->finish(number_);
  }

 private:
  void make_actors() {
    const std::uint64_t count = lots().between(1, 3);
    if (lots().one_in(3)) runtime_.spawn<Ledger>(runtime_.submit<&fail>());  // never made: its argument fails
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool immortal = !lots().one_in(3);
      const std::int32_t retries = lots().one_in(2) ? kManyRetries : 0;
      const bool detached = lots().one_in(4);
      const std::string name = detached || lots().one_in(3) ? name_of(number_, i) : "";
      ActorOptions options{.name = name,
                           .name_space = detached || lots().one_in(2) ? kTown : "",
                           .max_restarts = immortal ? -1 : static_cast<std::int32_t>(lots().below(2)),
                           .max_task_retries = retries,
                           .detached = detached,
                           .exclusive = lots().one_in(slow_ ? 2 : 4)};
      if (!detached && lots().one_in(4)) {  // a detached actor would outlive its group, which ends with the program
        sit_in_group(options);
      } else if (lots().one_in(2)) {
        options.resources = {{"desk", 1}};
        // Only the first actor may have a share of a GPU, so that a whole GPU is always left for tasks.
        if (i == 0 && lots().one_in(2)) options.gpus = 0.25;
      }
      if (lots().one_in(4)) static_cast<void>(runtime_.reserve({.bundles = {{.resources = {{"seat", 1}}}}}));
      auto actor = lots().one_in(4)
                       ? runtime_.spawn<Ledger>(options, runtime_.submit<&slow>({.max_retries = kManyRetries}))
                       : runtime_.spawn<Ledger>(options, std::int32_t{1});
      if (immortal) the_history->note_immortal(actor.id().value());
      if (detached) the_history->note_detached(actor.id().value(), name);
      if (immortal && retries != 0 && lots().one_in(2)) send_visitor(actor);
      if (lots().one_in(3)) static_cast<void>(actor.call<&Ledger::turn_fragile>());
      if (!name.empty()) find(name, options.name_space);
      actors_.push_back({std::move(actor), retries});
    }
  }

  void sit_in_group(ActorOptions& options) {
    const auto strategy = lots().one_in(2) ? Strategy::kSpread : Strategy::kStrictPack;
    options.resources = {{"seat", 1}};
    options.group = runtime_.reserve(
        {.bundles = {{.resources = {{"seat", 1}}}, {.resources = {{"seat", 2}}}}, .strategy = strategy});
    options.bundle = static_cast<std::int32_t>(lots().between(0, 2)) - 1;
    if (!lots().one_in(4)) return;
    try {
      static_cast<void>(options.group.nodes().get());
    } catch (const std::exception&) {
      World::of_this_program().note("user code", "got no group");
    }
  }

  void send_visitor(const Actor<Ledger>& actor) {
    const auto call = the_history->begin({.caller = number_, .ordered = false, .retries = kManyRetries, .expected = 8});
    tasks_.push_back({call, runtime_.submit<&visit>({.max_retries = kManyRetries}, call, actor, 7)});
  }

  // Looks for an actor of this program, or for one that does not exist.
  void find(const std::string& name, const std::string& name_space) {
    try {
      const auto found = runtime_.actor<Ledger>(lots().one_in(3) ? "nobody" : name, name_space);
    } catch (const std::exception&) {
      World::of_this_program().note("user code", "found nobody");
    }
  }

  // Looks for a named actor, which may be another program's.
  void find_friend() {
    try {
      friends_.push_back(runtime_.actor<Ledger>(name_of(lots().between(1, 3), lots().below(3)), kTown));
    } catch (const std::exception&) {
      World::of_this_program().note("user code", "found nobody in town");
    }
  }

  // Asks which nodes there are. Waits while the head is away; the answer comes once.
  void look_at_nodes() {
    try {
      std::set<NodeId> nodes;
      for (const ClusterNode& each : runtime_.nodes()) {
        if (!nodes.insert(each.id).second) the_history->note_wrong("a node was listed twice");
      }
      if (nodes.empty()) the_history->note_wrong("driver " + std::to_string(number_) + " saw a cluster without nodes");
    } catch (const std::exception&) {
      World::of_this_program().note("user code", "saw no nodes");
    }
  }

  // Raises a counter that all programs share, and keeps a value of its own. Waits while the head is away.
  void use_key_values() {
    KeyValues values = runtime_.kv();
    const std::string own = "driver" + std::to_string(number_);
    for (std::int32_t n = 0; n < 3; ++n) {
      try {
        values.put(own, n);
        if (values.get<std::int32_t>(own) != n) the_history->note_wrong("a value is not the one that was put");
        raise_counter(values);
        if (values.keys(own) != std::vector{own}) the_history->note_wrong("a key that was put is not listed");
        if (lots().one_in(3)) values.erase(own);
      } catch (const std::exception&) {
        World::of_this_program().note("user code", "had no key-value store");
      }
      if (!Cluster::alive()) return;
    }
  }
  void raise_counter(KeyValues& values) {
    const std::int32_t min = the_history->counter_min();
    const auto seen = values.get<std::int32_t>("counter");
    const std::int32_t from = seen.value_or(0);
    the_history->note_seen(from, min);
    the_history->begin_raise();
    the_history->end_raise(from, values.compare_and_set<std::int32_t>("counter", seen, from + 1));
  }

  // Makes so many calls that replies are acknowledged by messages of their own, not only by later calls.
  void make_many_calls() {
    const Owned& owned = actors_.front();
    for (std::int32_t n = 0; n < 150; ++n) {
      const std::uint64_t place = the_history->begin(
          {.actor = owned.actor.id().value(), .caller = number_, .retries = owned.retries, .expected = n + 1});
      pending_.push_back({place, owned.actor.call<&Ledger::add>(place, n)});
    }
  }

  // Fills the object store. Meanwhile the requests of other programs have to wait, or are refused.
  void fill_store() {
    std::vector<Ref<Bytes>> all;
    for (std::int32_t n = 0; n < 7; ++n) {
      try {
        all.push_back(runtime_.put(block(n, kGreatBytes)));
      } catch (const std::exception&) {
        World::of_this_program().note("user code", "found no room");
        all.clear();
      }
      if (!Cluster::alive()) return;
      if (lots().one_in(2)) one_block();
    }
    for (std::size_t n = 0; n < all.size(); ++n) check_block(all[n]);
    if (!Cluster::alive()) return;
    // A value of another size, so that the memory that is free has to be given back first.
    all.clear();
    try {
      check_block(runtime_.put(block(0, 2 * kGreatBytes)));
    } catch (const std::exception&) {
      World::of_this_program().note("user code", "found no room");
    }
  }

  void check_block(const Ref<Bytes>& block) {
    const auto there = block.try_get();
    if (!Cluster::alive()) return;
    if (there && number_in(*there) < 0) the_history->note_wrong("what was put in the store is not there");
  }

  // Sends a large value as a result or as an argument: by value, by a Ref from put() or of a result, or as a part of a
  // value that this program has received.
  void one_block() {
    const auto n = static_cast<std::int32_t>(lots().below(1000));
    if (lots().one_in(3)) return one_block_task(n);
    const Owned& owned = actors_[lots().below(actors_.size())];
    History::Call call{.actor = owned.actor.id().value(), .caller = number_, .retries = owned.retries};
    call.needs_room = true;
    call.expected = n + 1;
    switch (lots().below(4)) {
      case 0: {
        const std::uint64_t place = the_history->begin(call);
        return called({place, owned.actor.call<&Ledger::weigh>(place, block(n))});
      }
      case 1: {
        if (const auto put = put_block(n)) {
          const std::uint64_t place = the_history->begin(call);
          called({place, owned.actor.call<&Ledger::weigh>(place, *put)});
        }
      } break;
      case 2: {
        one_block_task(n);
        call.may_be_given_up = true;  // fails if its argument fails
        const std::uint64_t place = the_history->begin(call);
        const Ref<Bytes> made = blocks_.back().ref;
        called({place, owned.actor.call<&Ledger::weigh>(place, made)});
      } break;
      default: {
        if (const auto put = put_block(n)) {
          const Bytes whole = put->get();
          const std::uint64_t place = the_history->begin(call);
          called({place, owned.actor.call<&Ledger::weigh>(place, Bytes{whole.owner(), whole.span().first(8192)})});
        }
      }
    }
  }
  void one_block_task(std::int32_t n) {
    const std::int32_t retries = lots().one_in(3) ? 0 : kManyRetries;
    const std::uint64_t place = the_history->begin(
        {.caller = number_, .ordered = false, .needs_room = true, .retries = retries, .expected = n + 1});
    blocks_.push_back({place, runtime_.submit<&make_block>({.max_retries = retries}, place, n)});
  }
  std::optional<Ref<Bytes>> put_block(std::int32_t n) {
    try {
      return runtime_.put(block(n));
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  // The actor may end with its program at any time, and that program chooses its retries, so the call may fail.
  void call_friend() {
    const Actor<Ledger>& actor = friends_[lots().below(friends_.size())];
    const auto n = static_cast<std::int32_t>(lots().below(1000));
    const std::uint64_t place = the_history->begin({.actor = actor.id().value(),
                                                    .caller = number_,
                                                    .ordered = false,
                                                    .may_be_given_up = true,
                                                    .retries = kManyRetries,
                                                    .expected = n + 1});
    pending_.push_back({place, actor.call<&Ledger::add>(place, n)});
  }

  void one_call() {
    if (!friends_.empty() && lots().one_in(6)) return call_friend();
    if (lots().one_in(4)) return one_task();
    if (lots().one_in(8)) return one_block();
    const Owned& owned = actors_[lots().below(actors_.size())];
    CallOptions options;
    History::Call call{.actor = owned.actor.id().value(), .caller = number_, .retries = owned.retries};
    const auto n = static_cast<std::int32_t>(lots().below(1000));
    call.expected = n + 1;
    if (lots().one_in(12)) {
      options.deadline = Deadline::in(lots().between(1ms, 60ms));
      call.may_be_given_up = true;
    }
    if (lots().one_in(12)) {
      call.may_be_given_up = true;
      call.lingers = true;
      const std::uint64_t place = the_history->begin(call);
      lingering_.push_back({place, owned.actor.call<&Ledger::linger>(place, n)});
      return;
    }
    // An argument that is not ready holds back the later calls to the same actor.
    if (lots().one_in(6)) {
      const auto task = the_history->begin({.caller = number_, .retries = kManyRetries, .expected = n});
      const auto value = runtime_.submit<&work>({.max_retries = kManyRetries}, task, n - 1);
      tasks_.push_back({task, value});
      call.may_be_given_up = true;  // fails if its argument fails
      const std::uint64_t place = the_history->begin(call);
      return called({place, owned.actor.call<&Ledger::add>(options, place, value)});
    }
    if (lots().one_in(20)) children_.push_back(owned.actor.call<&Ledger::make_child>());
    if (lots().one_in(5)) {
      call.one_way = true;
      owned.actor.send<&Ledger::add>(the_history->begin(call), n);
      return;
    }
    const std::uint64_t place = the_history->begin(call);
    if (lots().one_in(8)) {
      options.max_retries = kManyRetries;
      options.retry_on = types<Flaky>;
      return called({place, owned.actor.call<&Ledger::stumble>(options, place, n)});
    }
    called({place, owned.actor.call<&Ledger::add>(options, place, n)});
  }

  void called(Pending pending) {
    if (lots().one_in(20)) {
      the_history->give_up(pending.call);
      pending.ref.cancel();
    }
    pending_.push_back(std::move(pending));
  }

  // The group ends with its last task.
  void task_in_group() {
    const PlacementGroup group =
        runtime_.reserve({.bundles = {{.resources = {{"seat", 1}}}, {.resources = {{"seat", 1}}}}});
    const TaskOptions options{.cpus = 0,
                              .resources = {{"seat", 1}},
                              .group = group,
                              .bundle = static_cast<std::int32_t>(lots().between(0, 2)) - 1,
                              .max_retries = kManyRetries};
    for (std::uint64_t i = lots().between(1, 4); i > 0; --i) {
      const auto n = static_cast<std::int32_t>(lots().below(1000));
      const std::uint64_t place =
          the_history->begin({.caller = number_, .ordered = false, .retries = kManyRetries, .expected = n + 1});
      tasks_.push_back({place, runtime_.submit<&work>(options, place, n)});
    }
  }

  void one_task() {
    if (lots().one_in(10)) return task_in_group();
    const std::int32_t retries = lots().one_in(3) ? 0 : kManyRetries;
    History::Call call{.caller = number_, .ordered = false, .retries = retries};
    if (lots().one_in(3)) {
      const auto depth = static_cast<std::int32_t>(lots().between(1, 3));
      call.expected = 1 << depth;
      const std::uint64_t place = the_history->begin(call);
      tasks_.push_back({place, runtime_.submit<&tree>({.max_retries = retries}, place, depth)});
      return;
    }
    const auto n = static_cast<std::int32_t>(lots().below(1000));
    if (lots().one_in(6)) return one_task_of_others(n);
    TaskOptions options{.max_retries = retries};
    if (lots().one_in(6)) options.cpus = 0.5;
    if (lots().one_in(8)) options.gpus = lots().one_in(2) ? 1 : 0.5;
    if (lots().one_in(8)) options.env = {{"SHADE", std::to_string(lots().below(2))}};
    if (lots().one_in(10)) {
      options.deadline = Deadline::in(lots().between(1ms, 60ms));
      call.may_be_given_up = true;
    }
    const bool cancelled = lots().one_in(20);
    call.may_be_given_up |= cancelled;
    call.expected = n + 1;
    const std::uint64_t place = the_history->begin(call);
    tasks_.push_back({place, runtime_.submit<&work>(options, place, n)});
    if (cancelled) tasks_.back().ref.cancel();
  }

  void one_task_of_others(std::int32_t n) {
    std::vector<Ref<std::int32_t>> others;
    std::int32_t sum = n;
    for (std::uint64_t i = lots().between(1, 3); i > 0; --i) {
      const auto task =
          the_history->begin({.caller = number_, .ordered = false, .retries = kManyRetries, .expected = n});
      others.push_back(runtime_.submit<&work>({.max_retries = kManyRetries}, task, n - 1));
      tasks_.push_back({task, others.back()});
      sum += n;
    }
    const auto place =
        the_history->begin({.caller = number_, .ordered = false, .retries = kManyRetries, .expected = sum});
    tasks_.push_back({place, runtime_.submit<&add_all>({.max_retries = kManyRetries}, place, others, n)});
  }

  void collect() {
    for (Pending& pending : std::exchange(lingering_, {})) {
      pending.ref.cancel();
      pending_.push_back(std::move(pending));
    }
    end_all(pending_, [](const auto& result) { return result; });
    // The results of these actors do not matter. leftovers() checks that no process of theirs is left.
    for (const auto& child : std::exchange(children_, {})) {
      if (const auto made = child.try_get()) static_cast<void>(made->call<&Ledger::peek>().try_get());
      if (!Cluster::alive()) return;
    }
    end_all(blocks_, [](const Bytes& block) { return std::pair{number_in(block) + 1, 0}; });
    end_all(tasks_, [](std::int32_t result) { return std::pair{result, 0}; });
  }

  /// Waits for all, and records the result of each. `read` returns a result's value and incarnation.
  template <class Pending, class Read>
  void end_all(std::vector<Pending>& all, Read read) {
    for (const Pending& pending : std::exchange(all, {})) {
      const auto result = pending.ref.try_get();
      if (!Cluster::alive()) return;
      if (result) {
        const auto [value, incarnation] = read(*result);
        the_history->answered(pending.call, value, static_cast<std::uint32_t>(incarnation));
      } else {
        the_history->failed(pending.call, result.error());
      }
    }
  }

  Runtime& runtime_;
  const std::uint64_t number_;
  std::uint32_t calls_;
  const bool slow_;
  std::vector<Owned> actors_;
  std::vector<Pending> pending_;
  std::vector<Pending> lingering_;
  std::vector<Ref<Actor<Ledger>>> children_;
  std::vector<Actor<Ledger>> friends_;
  std::vector<PendingTask> tasks_;
  std::vector<PendingBlock> blocks_;
};

/// The program that runs when all others have ended: finds the detached actors, checks them and kills them.
void end_detached(Runtime& runtime) {
  for (const auto& [actor, name] : the_history->detached()) {
    const auto must = [actor = actor, name = name](bool holds, const std::string& what) {
      if (!holds && Cluster::alive() && the_history->must_live(actor)) {
        the_history->note_wrong("detached " + name + ' ' + what);
      }
    };
    try {
      const auto found = runtime.actor<Ledger>(name, kTown);
      if (!Cluster::alive()) return;
      must(found.id().value() == actor, "is another one");
      auto answer = found.call<&Ledger::incarnation>().try_get();
      for (int again = 0; !answer && again < kTriesMax; ++again) answer = found.call<&Ledger::incarnation>().try_get();
      must(bool{answer}, answer ? "" : "does not answer: " + answer.error().to_string());
      must(!answer || *answer >= the_history->newest_of(actor), "is an old one");
      runtime.kill(found);
    } catch (const std::exception& error) {
      must(false, std::string{"is not found: "} + error.what());
    }
  }
  sleep(5ms);
}

}  // namespace

// ---- A run

namespace {

std::atomic<std::uint64_t> running_seed = 0;

// Handles SIGABRT: prints the seed when a check fails.
void tell_seed(int) {
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "in the run of seed %llu\n",
                                 static_cast<unsigned long long>(running_seed.load()));
  static_cast<void>(!::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size)));
}

}  // namespace

namespace {

/// Asks what people ask, every few milliseconds until all programs have ended.
void ask_again_and_again(Cluster& cluster) {
  cluster.world().after(4ms, [&cluster] {
    if (cluster.all_drivers_ended()) return;
    cluster.ask_as_people_do();
    ask_again_and_again(cluster);
  });
}

/// Runs until all has ended or something is wrong. Returns the violations; empty if there are none.
std::string let_it_end(Cluster& cluster, const std::function<TimePoint()>& faults_over) {
  const auto let_drivers_end = [&] {
    return cluster.run_until([&] { return cluster.all_drivers_ended(); }, kEndLimit)
               ? std::string{}
               : "the programs have not ended\n" + cluster.what_drivers_wait_for();
  };
  if (const std::string wrong = let_drivers_end(); !wrong.empty()) return wrong;
  cluster.run_until([&] { return cluster.world().now() >= faults_over(); }, kEndLimit);
  cluster.disk().fail_one_in(0);  // records that are left have to be removable
  cluster.network().choose_faults(Network::Choose{});
  cluster.network().choose_faults(Network::ChooseFrame{});
  cluster.run_until([&] { return cluster.has_head(); }, cluster.durable() ? kEndLimit : Duration{0});
  if (cluster.has_head()) {
    cluster.start_driver("janitor", 0, &end_detached);
    if (const std::string wrong = let_drivers_end(); !wrong.empty()) return wrong;
  }
  // In this time idle workers end, and the head gives up the nodes that it waits for. If the head kept no records and
  // is gone, nodes look for it for 90 s.
  const bool is_looked_for = !cluster.durable() && !cluster.has_head();
  cluster.run_for(cluster.durable() ? 26s : is_looked_for ? 110s : 12s);
  if (!cluster.wrong().empty()) return cluster.wrong();
  std::string wrong;
  if (const std::string left = cluster.leftovers(); !left.empty()) wrong += "left behind:\n" + left;
  for (const char* const records : {"actor/", "aside/", "drain/", "group/", "job/", "life/", "places/"}) {
    if (cluster.disk().count(records) != 0) wrong += std::string{"left on disk: "} + records + '\n';
  }
  return wrong;
}

}  // namespace

SeedRun run_workload(std::uint64_t seed, Plan plan) {
  running_seed = seed;
  static const auto before = std::signal(SIGABRT, &tell_seed);
  static_cast<void>(before);
  SeedRun run;
  History history;
  the_history = &history;
  {
    Lots draw{seed};
    testing::ClusterOptions options{.machines = machines({static_cast<std::uint32_t>(draw.between(1, 4))})};
    if (!draw.one_in(3)) {
      options.machines.push_back(machines({static_cast<std::uint32_t>(draw.between(1, 4))}).front());
    }
    options.keeps_records = plan.durable.value_or(draw.one_in(2));
    if (draw.one_in(3)) options.delays = {.least = 50us, .most = 2ms, .one_in = 8, .longest = 40ms};
    Cluster cluster{seed, options};
    if (options.keeps_records) cluster.look_after_head();
    if (plan.disk_lies) cluster.disk().lie();
    if (draw.one_in(3)) cluster.disk().fail_one_in(draw.between(10, 60));
    if (plan.choose) cluster.network().choose_faults(std::move(plan.choose));
    if (plan.choose_frame) cluster.network().choose_faults(std::move(plan.choose_frame));
    const bool one_lasts = plan.faults && draw.one_in(kOneLastsIn);
    if (one_lasts) history.note_node_silent();
    const std::uint64_t drivers = draw.between(1, plan.drivers_max);
    for (std::uint64_t i = 0; i < drivers; ++i) {
      const auto calls = static_cast<std::uint32_t>(draw.between(5, plan.calls_max));
      const std::size_t node = draw.below(cluster.nodes() + 1);
      cluster.start_driver("driver" + std::to_string(i + 1), node,
                           [number = i + 1, calls, one_lasts](Runtime& runtime) {
                             DriverCode{runtime, number, calls, one_lasts}.run();
                           });
    }
    if (plan.asks) ask_again_and_again(cluster);
    if (plan.drains && cluster.nodes() > 1) {
      cluster.world().after(draw.between(1ms, 60ms), [&cluster] { cluster.drain(1, Duration{0}); });
    }
    std::optional<FaultInjector> faults;
    if (plan.faults) {
      testing::Faults drawn = draw_faults(cluster);
      drawn.lasts = plan.faults_for;
      drawn.long_silence = one_lasts;
      faults.emplace(cluster, drawn);
    }
    cluster.look_at_each_step([&history] { return history.wrong(); });
    run.wrong = let_it_end(cluster, [&] { return faults ? faults->over() : TimePoint{}; });
    run.hash = cluster.world().trace().hash();
    run.events = cluster.world().steps();
  }
  if (run.wrong.empty()) run.wrong = history.check();
  run.calls = history.calls();
  run.executions = history.executions();
  run.answered = history.answered();
  the_history = nullptr;
  return run;
}

}  // namespace pharos::simulator
