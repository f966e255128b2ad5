#include "queues.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <thread>

#include "drill.hpp"
#include "recording.hpp"

namespace pharos::simulated {
namespace {

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_streams{};

}  // namespace

Activity& activity() {
  static Activity activity;
  return activity;
}

Queue::Queue(std::uint64_t salt) : salt_{salt}, number_{order().add_queue()} {
  std::thread{[this] { run(); }}.detach();
}

std::uint64_t Queue::push(std::function<void()> work) {
  if (RecordedWork* const recording = recording_) {
    recording->add_work(std::move(work));
    return queued();
  }
  ++activity().calls;
  const std::lock_guard lock{mutex_};
  waiting_.push_back(std::move(work));
  changed_.notify_all();
  return ++queued_;
}

std::uint64_t Queue::queued() const {
  const std::lock_guard lock{mutex_};
  return queued_;
}

bool Queue::is_idle() const {
  const std::lock_guard lock{mutex_};
  return done_ == queued_;
}

void Queue::wait(std::uint64_t work) const {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return done_ >= work; });
}

void Queue::record(RecordedWork* into) {
  const bool recorded = recording_.exchange(into) != nullptr;
  recording_queues += (into != nullptr ? 1 : 0) - (recorded ? 1 : 0);
}

void Queue::synchronize() {
  TORCH_CHECK(recording_ == nullptr, "nobody can wait for a stream whose work is recorded");
  ++activity().host_waits;
  const Clock before = order().now(number_);
  wait(queued());
  order().host_waited(before);
  std::exception_ptr error;
  {
    const std::lock_guard lock{mutex_};
    std::swap(error, error_);
  }
  if (error) std::rethrow_exception(error);
}

void Queue::end() {
  const std::lock_guard lock{mutex_};
  ends_ = true;
  changed_.notify_all();
}

void Queue::set_delays(std::uint64_t seed, std::chrono::microseconds longest) {
  const std::lock_guard lock{mutex_};
  random_.seed(seed * 1'000'003 + salt_);
  longest_ = longest;
}

// The thread runs kernels of the CPU: below autograd, like the kernels of a device.
void Queue::run() {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  for (;;) {
    std::function<void()> work;
    std::chrono::microseconds delay{0};
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return !waiting_.empty() || ends_; });
      if (waiting_.empty()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
      if (longest_.count() != 0) {
        delay = std::chrono::microseconds{random_() % static_cast<std::uint64_t>(longest_.count() + 1)};
      }
    }
    if (delay.count() != 0) std::this_thread::sleep_for(delay);
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;
    const std::lock_guard lock{mutex_};
    if (error && !error_) error_ = error;
    ++done_;
    changed_.notify_all();
  }
}

void Event::record(Queue& queue) {
  recording_ = queue.recording();
  if (recording_ != nullptr) return;  // block() lets only this queue wait
  const Clock clock = order().now(queue.number());
  std::uint64_t version = 0;
  {
    const std::lock_guard lock{mutex_};
    version = ++recorded_;
    clock_ = clock;
  }
  queue.push([self = shared_from_this(), version] {
    const std::lock_guard lock{self->mutex_};
    self->done_ = std::max(self->done_, version);
    self->when_ = std::chrono::steady_clock::now();
    self->changed_.notify_all();
  });
}

void Event::block(Queue& queue) {
  TORCH_CHECK(recording_ == queue.recording(), "one stream's work is recorded, and the other one's is not");
  if (recording_ != nullptr) return;
  Clock clock;
  std::uint64_t version = 0;
  {
    const std::lock_guard lock{mutex_};
    clock = clock_;
    version = recorded_;
  }
  if (!is_left_out("the checker knows that a stream waits for an event")) order().wait(queue.number(), clock);
  if (is_left_out("a stream waits for an event")) return;
  queue.push([self = shared_from_this(), version] { self->wait(version); });
}

bool Event::is_done() {
  Clock clock;
  {
    const std::lock_guard lock{mutex_};
    if (done_ < recorded_) return false;
    clock = clock_;
  }
  order().host_waited(clock);
  return true;
}

void Event::synchronize() {
  ++activity().host_waits;
  Clock clock;
  std::uint64_t version = 0;
  {
    const std::lock_guard lock{mutex_};
    clock = clock_;
    version = recorded_;
  }
  if (!is_left_out("the host waits for an event")) wait(version);
  if (!is_left_out("the checker knows that the host waits for an event")) order().host_waited(clock);
}

std::chrono::steady_clock::time_point Event::when() const {
  const std::lock_guard lock{mutex_};
  return when_;
}

void Event::wait(std::uint64_t version) {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return done_ >= version; });
}

Queue& Streams::queue(c10::DeviceIndex device, c10::StreamId stream) {
  const std::lock_guard lock{mutex_};
  Queue*& queue = queues_[{device, stream}];
  if (queue == nullptr) {
    queue = new Queue{static_cast<std::uint64_t>(device) * 7919 + static_cast<std::uint64_t>(stream)};
    queue->set_delays(seed_, longest_);
  }
  return *queue;
}

std::vector<Queue*> Streams::all(std::optional<c10::DeviceIndex> device) {
  const std::lock_guard lock{mutex_};
  std::vector<Queue*> all;
  for (const auto& [key, queue] : queues_) {
    if (!device || key.first == *device) all.push_back(queue);
  }
  return all;
}

void Streams::synchronize(std::optional<c10::DeviceIndex> device) {
  for (Queue* const queue : all(device)) queue->synchronize();
}

void Streams::set_delays(std::uint64_t seed, std::chrono::microseconds longest) {
  const std::lock_guard lock{mutex_};
  seed_ = seed;
  longest_ = longest;
  for (const auto& [key, queue] : queues_) queue->set_delays(seed, longest);
}

c10::StreamId Streams::next_of_pool() {
  const std::lock_guard lock{mutex_};
  return last_of_pool_ = last_of_pool_ % kPool + 1;
}

c10::StreamId Streams::make() {
  const std::lock_guard lock{mutex_};
  return ++last_made_;
}

c10::DeviceIndex Streams::device() {
  return current_device;
}

void Streams::set_device(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < kDevices, "there is no simulated device ", static_cast<int>(device));
  current_device = device;
}

c10::StreamId Streams::stream(c10::DeviceIndex device) {
  return current_streams.at(static_cast<std::size_t>(device));
}

c10::StreamId Streams::exchange_stream(c10::DeviceIndex device, c10::StreamId stream) {
  return std::exchange(current_streams.at(static_cast<std::size_t>(device)), stream);
}

Streams& streams() {
  static auto& all = *new Streams;
  return all;
}

Queue& cleaner() {
  static auto& queue = *new Queue{1};
  return queue;
}

}  // namespace pharos::simulated
