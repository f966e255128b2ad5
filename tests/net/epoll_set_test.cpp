#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

#include <pharos/net/epoll_set.hpp>

namespace pharos::net {
namespace {

class Ignores final : public Watcher {
 public:
  void on_ready(std::uint32_t) override {}
};

class EpollSetTest : public testing::Test {
 protected:
  static Fd event() { return Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}; }
  static void signal(const Fd& event) {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(event.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  /// The token of the next event; nullopt if there is none.
  std::optional<std::uint64_t> next() const {
    epoll_event event{};
    if (::epoll_wait(set_.fd(), &event, 1, 0) != 1) return std::nullopt;
    return std::uint64_t{event.data.u64};
  }

  EpollSet set_;
};

TEST_F(EpollSetTest, TheTokenOfAnEventFindsItsWatcher) {
  const Fd first = event();
  const Fd second = event();
  const auto one = std::make_shared<Ignores>();
  const auto two = std::make_shared<Ignores>();
  set_.watch(first.get(), EPOLLIN, one);
  set_.watch(second.get(), EPOLLIN, two);
  signal(second);
  const auto token = next();
  ASSERT_TRUE(token);
  EXPECT_GE(*token, EpollSet::kFirstToken);
  EXPECT_EQ(set_.find(*token), two);
}

TEST_F(EpollSetTest, AnEventOfARemovedDescriptorFindsNobodyEvenIfItsNumberIsWatchedAgain) {
  const Fd watched = event();
  set_.watch(watched.get(), EPOLLIN, std::make_shared<Ignores>());
  signal(watched);
  const auto token = next();
  ASSERT_TRUE(token);
  set_.unwatch(watched.get());
  EXPECT_EQ(set_.find(*token), nullptr);
  const auto later = std::make_shared<Ignores>();
  set_.watch(watched.get(), EPOLLIN, later);
  EXPECT_EQ(set_.find(*token), nullptr);
  const auto new_token = next();
  ASSERT_TRUE(new_token);
  EXPECT_EQ(set_.find(*new_token), later);
}

TEST_F(EpollSetTest, AWatcherLivesAsLongAsItIsRegistered) {
  const Fd watched = event();
  auto watcher = std::make_shared<Ignores>();
  const std::weak_ptr<Ignores> life = watcher;
  set_.watch(watched.get(), EPOLLIN, std::move(watcher));
  EXPECT_FALSE(life.expired());
  set_.unwatch(watched.get());
  EXPECT_TRUE(life.expired());
}

TEST_F(EpollSetTest, ADescriptorThatIsNotRegisteredCanBeChangedAndRemovedWithoutEffect) {
  const Fd stranger = event();
  set_.change(stranger.get(), EPOLLIN);
  set_.unwatch(stranger.get());
  set_.unwatch(-1);
  signal(stranger);
  EXPECT_EQ(next(), std::nullopt);
}

TEST_F(EpollSetTest, AfterAForkTheOtherEndSeesTheEndAndAnOwnerClosesNoOtherFile) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const Fd from{ends[0]};
  Fd to{ends[1]};
  set_.watch(to.get(), EPOLLOUT, std::make_shared<Ignores>());
  set_.abandon_after_fork();
  char byte = 0;
  EXPECT_EQ(::read(from.get(), &byte, 1), 0) << "the end that was watched is still open";
  std::vector<Fd> later;
  for (int i = 0; i < 5; ++i) later.push_back(event());
  to.reset();
  for (const Fd& each : later) EXPECT_NE(::fcntl(each.get(), F_GETFD), -1) << "another file was closed";
}

TEST_F(EpollSetTest, TheOwnersDescriptorsHaveTheirOwnTokens) {
  const Fd own = event();
  set_.add(own.get(), EPOLLIN, 3);
  signal(own);
  EXPECT_EQ(next(), 3u);
}

}  // namespace
}  // namespace pharos::net
