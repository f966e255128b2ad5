#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <pharos/ml/module_state.hpp>
#include <pharos/ml/stored_pins.hpp>

namespace pharos::ml {
namespace {

/// Keeps arrays of the object store while devices copy them.
class StoredCopies {
 public:
  static StoredCopies& of_process() {
    static auto& copies = *new StoredCopies;  // its events may not outlive the driver
    return copies;
  }

  at::Tensor copy(const Array& array, Pin pin, at::Device device) {
    at::Tensor copy = tensor_of(array).to(device, /*non_blocking=*/true);
    const auto done = std::make_shared<c10::Event>(device.type());
    done->record(c10::impl::VirtualGuardImpl{device.type()}.getStream(device));
    std::deque<UnderWay> ended;  // what their destructors do is done without the mutex
    const std::lock_guard lock{mutex_};
    while (!under_way_.empty() && under_way_.front().done->query()) {
      ended.push_back(std::move(under_way_.front()));
      under_way_.pop_front();
    }
    under_way_.push_back({array, std::move(pin), done});
    return copy;
  }

 private:
  struct UnderWay {
    Array array;
    Pin pin;
    std::shared_ptr<c10::Event> done;
  };
  std::mutex mutex_;
  std::deque<UnderWay> under_way_;
};

}  // namespace

at::Tensor tensor_of(const Array& array, at::Device device) {
  if (device.is_cpu()) return tensor_of(array);
  Pin pin = array.is_dense() ? pin_stored(array.bytes().span()) : nullptr;
  if (pin == nullptr) return tensor_of(array).to(device);
  return StoredCopies::of_process().copy(array, std::move(pin), device);
}

}  // namespace pharos::ml
