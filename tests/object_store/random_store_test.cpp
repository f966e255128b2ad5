// Random operations of several processes, checked against a model: an object holds the written bytes as long as a
// process has a share in it, requests for other objects are refused, and at the end no object is left.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "plain_store.hpp"
#include "seed.hpp"

namespace pharos::object_store {
namespace {

class RandomStore {
 public:
  explicit RandomStore(std::uint64_t seed) : random_{seed} {}
  void run(int steps);

 private:
  struct Share {
    std::shared_ptr<Object> object;
    std::uint64_t number;
    std::shared_ptr<const View> view = nullptr;
  };
  struct Actor {
    PlainStore::Process process;
    CallerId id;
    std::vector<Share> held;
    std::vector<Share> read;
    std::vector<std::pair<WritableObject, std::uint64_t>> half;
  };
  struct Known {  // an object that a process could still ask for
    Location location;
    std::uint64_t number;
    CallerId holder;
    std::optional<CallerId> heir;
    bool held;
    bool unclaimed = false;  // its maker has ended
    int kept = 0;            // number of other processes that keep it

    bool lives() const { return held || kept != 0; }
  };

  std::size_t between(std::size_t least, std::size_t most) { return least + random_() % (most - least + 1); }
  bool chance(std::size_t one_in) { return random_() % one_in == 0; }
  std::size_t size() { return between(1, 8) == 1 ? between(1 << 20, 9 << 20) : between(1000, 400'000); }

  Actor new_actor() {
    const CallerId id{++last_id_};
    Actor actor;
    actor.process = store_.start(id);
    actor.id = id;
    return actor;
  }
  Known* known(const Location& location) {
    for (Known& each : known_) {
      if (each.location == location) return &each;
    }
    return nullptr;
  }

  void make(Actor& actor) {
    const std::size_t bytes = size();
    auto object = actor.process.client->create(bytes);
    if (!object) {
      ASSERT_EQ(object.error().code(), ErrorCode::kExhausted);
      store_.spill(2 * bytes);
      return;
    }
    const std::uint64_t number = ++last_number_ << 32;
    fill(object->bytes(), number);
    if (chance(5)) {
      actor.half.emplace_back(*std::move(object), number);
      return;
    }
    auto sealed = (*std::move(object)).seal();
    known_.push_back({sealed->location(), number, actor.id, std::nullopt, true});
    actor.held.push_back({std::move(sealed), number});
  }
  void hand_over(Actor& from, Actor& to) {
    if (&from == &to) return;
    auto object = from.process.client->create(size(), to.id);
    if (!object) return;
    const std::uint64_t number = ++last_number_ << 32;
    fill(object->bytes(), number);
    const auto sealed = (*std::move(object)).seal();
    sealed->hand_over();
    known_.push_back({sealed->location(), number, from.id, to.id, true});
  }
  void take_over(Actor& actor, Known& known) {
    if (known.heir != actor.id) return;
    auto taken = actor.process.client->take_over(known.location);
    ASSERT_EQ(taken.ok(), known.held);
    if (!taken) return;
    known.heir.reset();
    known.unclaimed = false;
    known.holder = actor.id;
    actor.held.push_back({*std::move(taken), known.number});
  }
  void read(Actor& actor, Known& known) {
    if (known.holder == actor.id) return;
    auto seen = actor.process.client->borrow(known.location);
    // An object that no process has may still exist until its memory is needed.
    ASSERT_TRUE(seen.ok() || !known.lives()) << seen.error().to_string();
    if (!seen) return;
    ++known.kept;
    const auto view = chance(2) ? (*seen)->read() : Result<std::shared_ptr<const View>>{nullptr};
    actor.read.push_back({*seen, known.number, view ? *view : nullptr});
  }
  // Imports an object of another node. It exists for as long as a process keeps it.
  void import(Actor& actor) {
    const ObjectId id{CallerId{1'000'000}, ++last_number_};
    const std::uint64_t number = last_number_ << 32;
    std::vector<std::byte> bytes(size());
    fill(bytes, number);
    store_.put_elsewhere(id, std::move(bytes));
    const auto got = actor.process.client->borrow({id, {}, CallerId{}, NodeId{2}});
    if (!got) {
      ASSERT_EQ(got.error().code(), ErrorCode::kExhausted) << got.error().to_string();
      return;
    }
    known_.push_back({(*got)->location(), number, CallerId{}, std::nullopt, false});
    known_.back().kept = 1;
    actor.read.push_back({*got, number});
  }
  void take_idle() {
    for (const StoreBook::Idle& idle : store_.book().take_idle(between(1, 20 << 20))) store_.book().released(idle);
  }
  void let_go(std::vector<Share>& shares, bool held) {
    if (shares.empty()) return;
    const std::size_t which = between(0, shares.size() - 1);
    Known& its = *known(shares[which].object->location());
    if (held) {
      its.held = false;
    } else {
      --its.kept;
    }
    std::swap(shares[which], shares.back());
    shares.pop_back();
  }
  void end(Actor& actor) {
    for (Known& each : known_) {
      if (each.heir == actor.id) each.held = false;
      if (each.holder != actor.id) continue;
      if (each.heir) {
        each.unclaimed = true;
      } else {
        each.held = false;
      }
    }
    for (const Share& share : actor.read) --known(share.object->location())->kept;
    store_.end(actor.process);
    actor = new_actor();
  }
  void end_unclaimed() {
    store_.end_unclaimed();
    for (Known& each : known_) {
      if (each.unclaimed) each.held = false;
    }
  }
  void check() {
    for (const Actor& actor : actors_) {
      for (const auto* shares : {&actor.held, &actor.read}) {
        for (const Share& share : *shares) {
          if (share.view != nullptr) {
            ASSERT_TRUE(holds(share.view->bytes(), share.number)) << share.number;
          } else if (chance(8) || share.object->in_memory()) {
            const auto view = share.object->read();
            if (!view && view.error().code() == ErrorCode::kExhausted) continue;  // all memory is being read
            ASSERT_TRUE(view.ok()) << view.error().to_string();
            ASSERT_TRUE(holds((*view)->bytes(), share.number)) << share.number;
          }
        }
      }
    }
    std::size_t objects = 0;
    for (const Known& each : known_) objects += each.held ? 1 : 0;
    for (const Actor& actor : actors_) objects += actor.half.size();
    ASSERT_EQ(store_.book().census().objects, objects);
  }

  std::mt19937_64 random_;
  PlainStore store_{64_MiB, 256_MiB};
  std::uint64_t last_id_ = 0;
  std::uint64_t last_number_ = 0;
  std::vector<Actor> actors_;
  std::vector<Known> known_;
};

void RandomStore::run(int steps) {
  for (int i = 0; i < 4; ++i) actors_.push_back(new_actor());
  for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
    Actor& actor = actors_[between(0, actors_.size() - 1)];
    switch (between(0, 12)) {
      case 0:
      case 1: make(actor); break;
      case 2: hand_over(actor, actors_[between(0, actors_.size() - 1)]); break;
      case 3:
      case 4:
        if (!known_.empty()) read(actor, known_[between(0, known_.size() - 1)]);
        break;
      case 5:
        if (!known_.empty()) take_over(actor, known_[between(0, known_.size() - 1)]);
        break;
      case 6: let_go(actor.held, true); break;
      case 7: let_go(actor.read, false); break;
      case 8:
        actor.half.clear();
        actor.process.client->trim();
        break;
      case 9:
        if (chance(10)) end(actor);
        if (chance(20)) end_unclaimed();
        break;
      case 10:
        if (chance(4)) store_.spill(between(1, 20 << 20));
        break;
      case 11:
        if (chance(2)) import(actor);
        break;
      case 12:
        if (chance(4)) take_idle();
        break;
    }
    if (step % 20 == 0) check();
    if (known_.size() > 60) {
      const auto ended = std::find_if(known_.begin(), known_.end(), [](const Known& each) { return !each.lives(); });
      if (ended != known_.end()) known_.erase(ended);
    }
  }
  check();
  for (Actor& actor : actors_) store_.end(actor.process);
  store_.end_unclaimed();
  EXPECT_EQ(store_.outside(), 0);
  store_.book().reclaim();
  EXPECT_EQ(store_.book().census().slabs, 0);
  EXPECT_EQ(store_.book().census().processes, 0);
  for (const StoreBook::Idle& idle : store_.book().take_idle(~std::uint64_t{0})) store_.book().released(idle);
  EXPECT_EQ(store_.book().memory(), 0);
  EXPECT_TRUE(store_.book().lease(store_.start(CallerId{999'999}).table, 64 << 20).ok());
}

/// PHAROS_STORE_SEEDS sets the number of seeds; 200 by default.
TEST(RandomStoreTest, EveryShareHoldsWhatWasWrittenAndNothingIsLeft) {
  const char* const given = std::getenv("PHAROS_STORE_SEEDS");
  const std::uint64_t count = given == nullptr ? 200 : std::strtoull(given, nullptr, 10);
  const bool one = std::getenv("PHAROS_TEST_SEED") != nullptr;
  const std::uint64_t first = seed_of_test();
  for (std::uint64_t seed = first; seed < first + (one ? 1 : count) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("PHAROS_TEST_SEED=" + std::to_string(seed) + " repeats it");
    RandomStore{seed}.run(150);
  }
}

}  // namespace
}  // namespace pharos::object_store
