#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "order.hpp"

namespace pharos::simulated {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr c10::DeviceIndex kDevices = 2;

/// How often the host has waited for a device, and how many pieces of work the streams were given. Of the process; any
/// thread.
struct Activity {
  std::atomic<std::uint64_t> host_waits{0};
  std::atomic<std::uint64_t> calls{0};
};
Activity& activity();

class RecordedWork;

/// One stream: work that runs in order on a thread of its own, some time after it was queued. Never destroyed, so it
/// may be used while the process ends. Any thread may call it.
class Queue {
 public:
  explicit Queue(std::uint64_t salt);

  QueueNumber number() const { return number_; }
  /// Queues work, and returns how much was queued so far. What the work throws comes out of the next synchronize().
  std::uint64_t push(std::function<void()> work);

  /// From now on the queue records what it is given, and does none of it, until `into` is nullptr. It cannot be waited
  /// for meanwhile.
  void record(RecordedWork* into);
  RecordedWork* recording() const { return recording_; }
  /// Whether any queue records.
  static bool any_records() { return recording_queues != 0; }
  std::uint64_t queued() const;
  bool is_idle() const;
  /// Waits until so much work is done.
  void wait(std::uint64_t work) const;
  /// Waits until all work that was queued before is done, and notes that the host has waited. Throws what the work has
  /// thrown since the last call.
  void synchronize();

  /// The thread ends when all work that was queued is done. Nothing is queued afterwards.
  void end();

  /// Before each piece of work the thread sleeps for up to `longest`; how long follows from the seed.
  void set_delays(std::uint64_t seed, std::chrono::microseconds longest);

 private:
  void run();

  const std::uint64_t salt_;
  const QueueNumber number_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::uint64_t queued_ = 0;
  std::uint64_t done_ = 0;
  std::mt19937_64 random_;
  std::chrono::microseconds longest_{0};
  std::exception_ptr error_;
  bool ends_ = false;
  std::atomic<RecordedWork*> recording_ = nullptr;
  static inline std::atomic<int> recording_queues = 0;
};

/// An event: a place in the work of a queue. Shared by its owner and by the work that waits for it. Any thread.
class Event : public std::enable_shared_from_this<Event> {
 public:
  /// The event is now what this queue was given so far.
  void record(Queue& queue);
  /// Later work of the queue waits for what was recorded last.
  void block(Queue& queue);
  bool is_done();
  void synchronize();
  std::chrono::steady_clock::time_point when() const;

 private:
  void wait(std::uint64_t version);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;                      // how often it was recorded
  std::uint64_t done_ = 0;                          // the last of these whose work is done
  Clock clock_;                                     // what the last one comes after
  std::atomic<RecordedWork*> recording_ = nullptr;  // in which it was recorded last, if any
  std::chrono::steady_clock::time_point when_;
};

/// The streams of all devices, and the current device and streams of each thread. One for the process.
class Streams {
 public:
  Queue& queue(c10::DeviceIndex device, c10::StreamId stream);
  Queue& queue(const c10::Stream& stream) { return queue(stream.device_index(), stream.id()); }
  /// The queue of the device's current stream.
  Queue& current(c10::DeviceIndex device) { return queue(device, stream(device)); }
  /// All queues of a device; of all devices without one.
  std::vector<Queue*> all(std::optional<c10::DeviceIndex> device = std::nullopt);
  /// Waits for all queues of a device; of all devices without one. Throws what their work has thrown.
  void synchronize(std::optional<c10::DeviceIndex> device = std::nullopt);
  void set_delays(std::uint64_t seed, std::chrono::microseconds longest);

  c10::StreamId next_of_pool();
  c10::StreamId make();

  // The calling thread has these for itself.
  static c10::DeviceIndex device();
  /// Throws unless there is such a device.
  static void set_device(c10::DeviceIndex device);
  static c10::StreamId stream(c10::DeviceIndex device);
  static c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId stream);
  /// The index of the device, or that of the current one if it has none.
  static c10::DeviceIndex index_of(c10::Device device) {
    return device.has_index() ? device.index() : Streams::device();
  }

 private:
  static constexpr c10::StreamId kPool = 8;  // streams 1 to 8; 0 is the default stream

  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, Queue*> queues_;
  c10::StreamId last_made_ = kPool;
  c10::StreamId last_of_pool_ = 0;
  std::uint64_t seed_ = 0;
  std::chrono::microseconds longest_{0};
};

Streams& streams();

/// A queue for what waits until several queues are done, and holds up none of them.
Queue& cleaner();

}  // namespace pharos::simulated
