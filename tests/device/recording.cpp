#include "recording.hpp"

#include <c10/util/Exception.h>

#include <utility>

#include "generators.hpp"
#include "memory.hpp"
#include "order.hpp"

namespace pharos::simulated {

void RecordedWork::add_work(std::function<void()> work) {
  const std::lock_guard lock{mutex_};
  pieces_.push_back({std::exchange(next_uses_, {}), std::move(work)});
}

void RecordedWork::add_use(const void* address, std::size_t bytes, bool writes, std::string name) {
  const std::lock_guard lock{mutex_};
  next_uses_.push_back({address, bytes, writes, std::move(name)});
}

void RecordedWork::add_draw(const at::Generator& of_device, at::Generator drawn_from) {
  const std::lock_guard lock{mutex_};
  TORCH_CHECK(!generator_.defined() || generator_ == of_device, "recorded work draws from one generator");
  generator_ = of_device;
  draws_.push_back(std::move(drawn_from));
}

/// Returns work that sets the kernels' generators to where they would be if the kernels were called now.
std::function<void()> RecordedWork::draw_again() const {
  if (draws_.empty()) return [] {};
  at::Generator of_device = generator_;
  const std::lock_guard lock{of_device.mutex()};
  const std::uint64_t seed = of_device.current_seed();
  const std::uint64_t offset = of_device.get_offset();
  of_device.set_offset(offset + draws_.size());
  return [draws = draws_, seed, offset] {
    for (std::uint64_t i = 0; i < draws.size(); ++i) {
      at::Generator drawn_from = draws[i];
      drawn_from.set_current_seed(seed_of_kernel(seed, offset + i));
    }
  };
}

void RecordedWork::run_on(Queue& queue) const {
  queue.push(draw_again());
  for (const Piece& each : pieces_) {
    const auto piece = order().begin(queue.number());
    for (const Use& use : each.uses) memory().note(piece, use.address, use.bytes, use.writes, use.name);
    queue.push(each.work);
  }
  activity().calls -= pieces_.size();
}

RecordedWork* recording_of(QueueNumber queue) {
  if (!Queue::any_records()) return nullptr;
  for (const Queue* const each : streams().all()) {
    if (each->number() == queue) return each->recording();
  }
  return nullptr;
}

}  // namespace pharos::simulated
