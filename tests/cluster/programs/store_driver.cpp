// A program that uses the object store while tests kill processes: `store_driver FOLDER SEED
// driver|worker|nobody|counted [FAILPOINT]`. The store has 64 MiB and spills to FOLDER; the folder "none" means that
// nothing is spilled. The program works in rounds, and prints "round" after each; as `counted` it adds a number that
// all random choices so far make. SEED decides the load: the sizes of objects, who makes them, who reads them and which
// ones are dropped. The order FAILPOINT is given to the program itself (`driver`) or to its first actor (`worker`). The
// program prints "died" when an actor or a worker has died. After SIGTERM it drops all objects and allocates the whole
// store: it prints "clean" if that works, else what is wrong. Status: 0 after SIGTERM, 10 if the Runtime stopped, 11
// after any other exception.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/pharos.hpp>

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kStoreMiB = 64;

std::atomic<bool> told_to_end = false;

void say(const std::string& line) {
  std::cout << line << std::endl;
}

// Writes one word into each 4096 bytes of the block, made of the block's number and the word's offset.
void fill(std::span<std::byte> bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += 4096) {
    const std::uint64_t word = (number << 32) + at;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}
bool holds(const pharos::Bytes& bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += 4096) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word != (number << 32) + at) return false;
  }
  return true;
}

pharos::Bytes made_by_task(std::size_t size, std::uint64_t number) {
  std::vector<std::byte> bytes(size);
  fill(bytes, number);
  return pharos::Bytes{std::move(bytes)};
}

class Keeper {
 public:
  void order(const std::string& failpoint) { pharos::order_failpoint(pharos::parse_failpoint(failpoint).value()); }
  /// Replaces the refs that this actor keeps. Returns how many of the old and of the new blocks hold wrong bytes.
  std::size_t keep(const std::vector<pharos::Ref<pharos::Bytes>>& refs, const std::vector<std::uint64_t>& numbers) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < refs_.size(); ++i) wrong += holds(refs_[i].get(), numbers_[i]) ? 0 : 1;
    refs_ = refs;
    numbers_ = numbers;
    for (std::size_t i = 0; i < refs_.size(); ++i) wrong += holds(refs_[i].get(), numbers_[i]) ? 0 : 1;
    return wrong;
  }
  pharos::Bytes make(std::size_t size, std::uint64_t number) { return made_by_task(size, number); }
  std::size_t put_and_read(std::size_t size, std::uint64_t number) {
    pharos::Runtime runtime;
    auto bytes = runtime.create_bytes(size);
    fill(bytes.span(), number);
    const auto ref = std::move(bytes).seal();
    const auto made = runtime.submit<&made_by_task>(size, number);
    return holds(ref.get(), number) && holds(made.get(), number) ? 0 : 1;
  }
  std::size_t check(const pharos::Bytes& bytes, std::uint64_t number) { return holds(bytes, number) ? 0 : 1; }

 private:
  std::vector<pharos::Ref<pharos::Bytes>> refs_;
  std::vector<std::uint64_t> numbers_;
};

class Load {
 public:
  Load(pharos::Runtime& runtime, std::uint64_t seed, bool spills, bool counted, std::string order)
      : runtime_{runtime},
        live_{spills ? 24U : 8U},
        counted_{counted},
        order_{std::move(order)},
        actors_(2),
        random_{seed} {}

  void run() {
    while (!told_to_end) {
      try {
        run_round();
        say(counted_ ? "round " + std::to_string(choices_) : "round");
      } catch (const pharos::ActorDied&) {
        say("died");
        for (auto& actor : actors_) actor.reset();
      } catch (const pharos::WorkerDied&) {
        say("died");
      } catch (const pharos::ObjectLost& e) {
        say("ObjectLost: " + std::string{e.what()});
        mine_.clear();
      } catch (const pharos::Exhausted& e) {
        say("Exhausted: " + std::string{e.what()});
        mine_.clear();
      }
    }
    mine_.clear();
    actors_.clear();
    // This slot needs the whole store, so it fits only once all objects are gone. Objects that nobody has claimed after
    // the death of their maker are kept for a while, so the allocation is repeated.
    const auto until = std::chrono::steady_clock::now() + 15s;
    for (;;) {
      try {
        const auto whole = runtime_.create_bytes((kStoreMiB - 1) * kMiB);
        return say("clean");
      } catch (const pharos::Exhausted&) {
        if (std::chrono::steady_clock::now() > until) throw;
      }
    }
  }

 private:
  using Block = std::pair<pharos::Ref<pharos::Bytes>, std::uint64_t>;

  static void expect_right(std::size_t wrong) {
    if (wrong != 0) throw std::runtime_error{"blocks hold something else"};
  }
  template <class T>
  static T wait_for(const pharos::Ref<T>& ref) {
    return ref.get(pharos::Deadline::in(20s));
  }

  void run_round() {
    for (auto& actor : actors_) {
      if (actor) continue;
      actor.emplace(runtime_.spawn<Keeper>());
      if (!order_.empty()) wait_for(actor->call<&Keeper::order>(std::exchange(order_, {})));
    }
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t number = ++last_number_;
      auto bytes = runtime_.create_bytes(size());
      fill(bytes.span(), number);
      mine_.emplace_back(std::move(bytes).seal(), number);
    }
    auto& one = actors_[choose(2)];
    auto& other = actors_[choose(2)];
    const std::uint64_t made = ++last_number_;
    mine_.emplace_back(one->call<&Keeper::make>(size(), made), made);
    expect_right(wait_for(other->call<&Keeper::put_and_read>(size(), 77U)));
    std::vector<pharos::Ref<pharos::Bytes>> refs;
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < 2; ++i) {
      const auto& [ref, number] = mine_[choose(mine_.size())];
      expect_right(holds(ref.get(), number) ? 0 : 1);
      expect_right(wait_for(other->call<&Keeper::check>(ref, number)));
      refs.push_back(ref);
      numbers.push_back(number);
    }
    expect_right(wait_for(one->call<&Keeper::keep>(refs, numbers)));
    while (mine_.size() > live_) mine_.erase(mine_.begin() + static_cast<std::ptrdiff_t>(choose(mine_.size())));
  }
  std::size_t size() { return 200'000 + choose(3 * kMiB); }
  /// Returns a random number below `count`.
  std::size_t choose(std::size_t count) {
    const std::size_t chosen = random_() % count;
    choices_ = choices_ * 31 + chosen;
    return chosen;
  }

  pharos::Runtime& runtime_;
  const std::size_t live_;
  const bool counted_;
  std::string order_;  // failpoint order for the first actor
  std::vector<std::optional<pharos::Actor<Keeper>>> actors_;
  std::mt19937_64 random_;
  std::uint64_t choices_ = 0;
  std::uint64_t last_number_ = 100;
  std::vector<Block> mine_;
};

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGTERM, [](int) { told_to_end = true; });
  const std::string folder = argv[1];
  const std::uint64_t seed = std::stoull(argv[2]);
  const std::string who = argv[3];
  const std::string order = argc > 4 ? argv[4] : "";
  try {
    pharos::RuntimeOptions options;
    options.object_store = pharos::ByteCount{kStoreMiB * kMiB};
    options.spill_folder = folder;
    pharos::Runtime runtime{argc, argv, options};
    if (who == "driver") pharos::order_failpoint(pharos::parse_failpoint(order).value());
    Load{runtime, seed, folder != "none", who == "counted", who == "worker" ? order : ""}.run();
    return 0;
  } catch (const pharos::RuntimeStopped& e) {
    say("RuntimeStopped: " + std::string{e.what()});
    return 10;
  } catch (const std::exception& e) {
    say("unexpected: " + std::string{e.what()});
    return 11;
  }
}
