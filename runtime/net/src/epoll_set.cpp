#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/net/epoll_set.hpp>

namespace pharos::net {
namespace {

std::uint64_t token_of(std::uint32_t generation, std::uint32_t slot) {
  return ((std::uint64_t{generation} << 32) | slot) + EpollSet::kFirstToken;
}

}  // namespace

EpollSet::EpollSet() : epoll_{::epoll_create1(EPOLL_CLOEXEC)} {
  PHAROS_CHECK(epoll_, errno);
}

void EpollSet::add(int fd, std::uint32_t events, std::uint64_t token) {
  PHAROS_CHECK(token < kFirstToken, token);
  epoll_event event{.events = events, .data = {.u64 = token}};
  PHAROS_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, errno);
}

void EpollSet::control(int operation, std::uint32_t slot, std::uint32_t events) {
  const int fd = slots_[slot].fd;
  epoll_event event{.events = events | EPOLLET | EPOLLRDHUP, .data = {.u64 = token_of(slots_[slot].generation, slot)}};
  PHAROS_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0, errno, fd);
}

void EpollSet::watch(int fd, std::uint32_t events, std::shared_ptr<Watcher> watcher) {
  PHAROS_CHECK(fd >= 0, fd);
  const std::lock_guard lock{mutex_};
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const auto index = static_cast<std::size_t>(fd);
  if (slot_of_fd_.size() <= index) slot_of_fd_.resize(index + 1);
  slot_of_fd_[index] = slot;
  slots_[slot].fd = fd;
  slots_[slot].watcher = std::move(watcher);
  control(EPOLL_CTL_ADD, slot, events);
}

std::optional<std::uint32_t> EpollSet::slot_of(int fd) const {
  const auto index = static_cast<std::size_t>(fd);
  if (fd < 0 || index >= slot_of_fd_.size()) return std::nullopt;
  const std::uint32_t slot = slot_of_fd_[index];
  return slots_[slot].fd == fd ? std::optional{slot} : std::nullopt;
}

void EpollSet::change(int fd, std::uint32_t events) {
  const std::lock_guard lock{mutex_};
  if (const auto slot = slot_of(fd)) control(EPOLL_CTL_MOD, *slot, events);  // else unwatch() came first
}

void EpollSet::unwatch(int fd) {
  std::shared_ptr<Watcher> last;  // destroyed without the lock, because its destructor may call this set
  const std::lock_guard lock{mutex_};
  const auto found = slot_of(fd);
  if (!found) return;
  const std::uint32_t slot = *found;
  if (epoll_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  slots_[slot].fd = -1;
  ++slots_[slot].generation;
  last = std::move(slots_[slot].watcher);
  free_slots_.push_back(slot);
}

std::shared_ptr<Watcher> EpollSet::find(std::uint64_t token) {
  const auto slot = static_cast<std::uint32_t>(token - kFirstToken);
  const auto generation = static_cast<std::uint32_t>((token - kFirstToken) >> 32);
  const std::lock_guard lock{mutex_};
  if (slot >= slots_.size() || slots_[slot].generation != generation) return nullptr;
  return slots_[slot].watcher;
}

void EpollSet::abandon_after_fork() {
  epoll_.reset();
  // The numbers stay taken, because their owners may still use and close them: by then they would be other files.
  const Fd nobody{::eventfd(0, EFD_CLOEXEC)};
  for (const Slot& slot : slots_) {
    if (slot.fd >= 0 && ::dup3(nobody.get(), slot.fd, O_CLOEXEC) < 0) ::close(slot.fd);
  }
}

}  // namespace pharos::net
