#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "queues.hpp"

namespace pharos::simulated {

/// The work that a queue was given while it recorded, to be given to queues again, as by a CUDA graph. What is given
/// again is one call of the device. Made and used by one thread; add_…() are called by the threads that give work to
/// the queue.
class RecordedWork {
 public:
  void add_work(std::function<void()> work);
  /// The work that is added next uses these bytes.
  void add_use(const void* address, std::size_t bytes, bool writes, std::string name);
  /// A kernel of the work draws from `drawn_from`, and each time from where the device's generator is then.
  void add_draw(const at::Generator& of_device, at::Generator drawn_from);

  void run_on(Queue& queue) const;

 private:
  struct Use {
    const void* address;
    std::size_t bytes;
    bool writes;
    std::string name;
  };
  struct Piece {
    std::vector<Use> uses{};
    std::function<void()> work{};
  };

  std::function<void()> draw_again() const;

  mutable std::mutex mutex_;
  std::vector<Use> next_uses_;
  std::vector<Piece> pieces_;
  at::Generator generator_;           // of the device
  std::vector<at::Generator> draws_;  // of kernels, in the order of the work
};

/// The recording of the queue with this number; nullptr if it does not record.
RecordedWork* recording_of(QueueNumber queue);

}  // namespace pharos::simulated
