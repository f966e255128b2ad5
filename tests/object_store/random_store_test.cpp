// Random operations of several processes against what they must see: every object that one of them has a share in
// holds what was written, every other one is refused, and at the end nothing is left.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "plain_store.hpp"
#include "seed.hpp"

namespace pharos::object_store {
namespace {

class RandomStoreTest : public SeededTest {
 protected:
  struct Share {
    std::shared_ptr<Object> object;
    std::uint64_t number;
  };
  struct Actor {
    PlainStore::Process process;
    CallerId id;
    std::vector<Share> held;
    std::vector<Share> read;
    std::vector<std::pair<WritableObject, std::uint64_t>> half;
  };
  struct Known {  // an object that somebody could still ask for
    Location location;
    std::uint64_t number;
    CallerId holder;
    std::optional<CallerId> heir;
    bool lives;
    bool unclaimed = false;  // its maker has ended
  };

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
    auto object = actor.process.lessee->create(size());
    if (!object) {
      ASSERT_EQ(object.error().code(), ErrorCode::kExhausted);
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
    auto object = from.process.lessee->create(size(), to.id);
    if (!object) return;
    const std::uint64_t number = ++last_number_ << 32;
    fill(object->bytes(), number);
    const auto sealed = (*std::move(object)).seal();
    sealed->hand_over();
    known_.push_back({sealed->location(), number, from.id, to.id, true});
  }
  void take_over(Actor& actor, Known& known) {
    if (known.heir != actor.id) return;
    auto taken = actor.process.lessee->take_over(known.location);
    ASSERT_EQ(taken.ok(), known.lives);
    if (!taken) return;
    known.heir.reset();
    known.unclaimed = false;
    known.holder = actor.id;
    actor.held.push_back({*std::move(taken), known.number});
  }
  void read(Actor& actor, Known& known) {
    auto seen = actor.process.lessee->borrow(known.location);
    ASSERT_EQ(seen.ok(), known.lives);
    if (seen) actor.read.push_back({*std::move(seen), known.number});
  }
  void let_go(std::vector<Share>& shares, bool held) {
    if (shares.empty()) return;
    const std::size_t which = between(0, shares.size() - 1);
    if (held) known(shares[which].object->location())->lives = false;
    std::swap(shares[which], shares.back());
    shares.pop_back();
  }
  void end(Actor& actor) {
    for (Known& each : known_) {
      if (each.heir == actor.id) each.lives = false;
      if (each.holder != actor.id) continue;
      if (each.heir) {
        each.unclaimed = true;
      } else {
        each.lives = false;
      }
    }
    store_.end(actor.process);
    actor = new_actor();
  }
  void end_unclaimed() {
    store_.end_unclaimed();
    for (Known& each : known_) {
      if (each.unclaimed) each.lives = false;
    }
  }
  void check() {
    for (const Actor& actor : actors_) {
      for (const auto* shares : {&actor.held, &actor.read}) {
        for (const Share& share : *shares) ASSERT_TRUE(holds(share.object->bytes(), share.number)) << share.number;
      }
    }
    std::size_t objects = 0;
    for (const Known& each : known_) objects += each.lives ? 1 : 0;
    for (const Actor& actor : actors_) objects += actor.half.size();
    ASSERT_EQ(store_.lender().census().objects, objects);
  }

  PlainStore store_{64_MiB};
  std::uint64_t last_id_ = 0;
  std::uint64_t last_number_ = 0;
  std::vector<Actor> actors_;
  std::vector<Known> known_;
};

TEST_F(RandomStoreTest, EveryShareHoldsWhatWasWrittenAndNothingIsLeft) {
  for (int i = 0; i < 4; ++i) actors_.push_back(new_actor());
  for (int step = 0; step < 3000 && !HasFatalFailure(); ++step) {
    Actor& actor = actors_[between(0, actors_.size() - 1)];
    switch (between(0, 9)) {
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
        actor.process.lessee->trim();
        break;
      case 9:
        if (chance(10)) end(actor);
        if (chance(20)) end_unclaimed();
        break;
    }
    if (step % 20 == 0) check();
    if (known_.size() > 60) {
      const auto ended = std::find_if(known_.begin(), known_.end(), [](const Known& each) { return !each.lives; });
      if (ended != known_.end()) known_.erase(ended);
    }
  }
  check();
  for (Actor& actor : actors_) store_.end(actor.process);
  store_.end_unclaimed();
  EXPECT_EQ(store_.lender().census().slabs, 0);
  EXPECT_EQ(store_.lender().census().processes, 0);
  EXPECT_TRUE(store_.lender().lease(store_.start(CallerId{999'999}).table, 64 << 20).ok());
}

}  // namespace
}  // namespace pharos::object_store
