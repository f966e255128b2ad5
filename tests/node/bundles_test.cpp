#include "actors/bundles.hpp"

#include <chrono>
#include <set>

#include "parts_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using scheduler::ReservationId;
using scheduler::Resources;

class BundlesTest : public PartsTest {
 protected:
  static constexpr BundleKey kFirst{GroupId{1}, 0};

  void hold(const BundleKey& key) { bundles.hold({key.first, key.second, {{"cpu", Resources::kWhole}}}); }
  void carry_out(const scheduler::LeaseEffect& effect) {
    const auto* const reserved = std::get_if<scheduler::Reserved>(&effect);
    if (reserved == nullptr) return;
    for (const ReservationId each : bundles.on_reserved(reserved->reservation)) begun.insert(each);
  }

  std::set<ReservationId> begun;
  LeaseBook book{scheduler::Leases{Resources{wire::Amounts{{"cpu", Resources::kWhole}}}, 8, 10s},
                 [this](const auto& effect) { carry_out(effect); }, [] {}};
  Bundles bundles{site, book};
};

TEST_F(BundlesTest, TheHeadIsToldWhenABundleHasItsResources) {
  hold(kFirst);
  EXPECT_EQ(take_told(), (Names{"BundleHeld"}));
  EXPECT_NE(book.find(kFirst), nullptr);
  EXPECT_EQ(bundles.start_in(kFirst, ReservationId{90}), Bundles::Turn::kNow);
}

TEST_F(BundlesTest, AnActorWaitsUntilItsBundleHasItsResources) {
  const BundleKey second{GroupId{2}, 0};
  hold(kFirst);
  hold(second);
  EXPECT_EQ(bundles.start_in(second, ReservationId{90}), Bundles::Turn::kLater);
  EXPECT_TRUE(begun.empty());
  bundles.release(kFirst);
  EXPECT_EQ(begun, (std::set{ReservationId{90}}));
}

TEST_F(BundlesTest, NoActorStartsInABundleThatIsNotHere) {
  EXPECT_EQ(bundles.start_in(kFirst, ReservationId{90}), Bundles::Turn::kNever);
}

TEST_F(BundlesTest, AReleasedBundleIsGivenBackWhenNoProcessUsesItAnyMore) {
  hold(kFirst);
  const ReservationId actor{90};
  book.apply(
      book.find(kFirst)->reserve(actor, {Resources{wire::Amounts{{"cpu", Resources::kWhole}}}, {}}, executor.now()));
  bundles.release(kFirst);
  EXPECT_EQ(book.leases().reservations(), 1U);
  EXPECT_TRUE(book.holds(actor));
  EXPECT_EQ(book.find(kFirst), nullptr) << "nothing new begins there";
  book.tell_all([&](scheduler::Leases& leases) { return leases.release(actor); });
  bundles.release_unused();
  EXPECT_EQ(book.leases().reservations(), 0U);
  EXPECT_EQ(book.leases().left(), book.leases().total());
}

}  // namespace
}  // namespace pharos::node
