#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/ml/loader.hpp>
#include <pharos/ml/stored_pins.hpp>

namespace pharos::ml {

/// Copies batches to a device, on a stream of its own, while the device computes with earlier ones. The batches lie in
/// memory that take_pinned() has given, or in the object store: from both a device copies while the host goes on. The
/// learner owns it during fit(); the rank's thread. Throws what libtorch throws. The destructor waits for the copies
/// that are under way; if libtorch throws there, because the device has failed, the process ends.
class DeviceCopies {
 public:
  explicit DeviceCopies(at::Device device);
  DeviceCopies(DeviceCopies&&) = delete;
  ~DeviceCopies();

  /// Memory of the host for a batch; any thread. For LoaderOptions::memory.
  static std::shared_ptr<std::byte> take_pinned(std::size_t bytes);

  /// Begins to copy all fields of a batch. They stay on the device until keep_newest().
  void begin(const Batch& batch);
  /// The copy of a field, which the current stream may use from now on. nullopt if that batch was not copied here.
  std::optional<at::Tensor> find(const Array& field) const;
  /// Drops the copies of all batches but that which was begun last.
  void keep_newest();

 private:
  struct Copied {
    Batch batch;  // the device may still read its memory
    std::vector<Pin> pins{};
    std::vector<at::Tensor> fields{};
    std::shared_ptr<c10::Event> done{};
  };
  void let_go();

  const c10::Stream stream_;
  std::deque<Copied> copied_;
  std::deque<Copied> old_;  // without fields: until their copies are done
};

}  // namespace pharos::ml
