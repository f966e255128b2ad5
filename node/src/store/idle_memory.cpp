#include "store/idle_memory.hpp"

#include <chrono>

namespace pharos::node {
namespace {

constexpr auto kIdleTime = std::chrono::seconds{5};  // before free memory goes back to the system

}  // namespace

void IdleMemory::release(std::uint64_t bytes) {
  for (const auto& idle : store_->book.take_idle(bytes)) {
    releasing_bytes_ += idle.memory;
    work_.run(
        [idle](const NodeStore& store) {
          store.release(idle.offset, idle.bytes);
          return true;
        },
        [this, idle](bool) {
          releasing_bytes_ -= idle.memory;
          store_->book.released(idle);
          released_();
        });
  }
}

void IdleMemory::release_later() {
  if (store_->book.idle_bytes() == 0 || std::exchange(releases_later_, true)) return;
  executor_.run_at(executor_.now() + kIdleTime, [this] {
    releases_later_ = false;
    release(store_->book.idle_bytes());
  });
}

}  // namespace pharos::node
