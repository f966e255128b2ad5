#include "fit/device_copies.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include <pharos/ml/module_state.hpp>

namespace pharos::ml {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

}  // namespace

DeviceCopies::DeviceCopies(at::Device device)
    : stream_{c10::impl::VirtualGuardImpl{device.type()}.getStreamFromGlobalPool(device)} {}

DeviceCopies::~DeviceCopies() {
  keep_newest();
  for (const std::deque<Copied>* const batches : {&copied_, &old_}) {
    for (const Copied& each : *batches) each.done->synchronize();
  }
}

std::shared_ptr<std::byte> DeviceCopies::take_pinned(std::size_t bytes) {
  const at::Tensor memory =
      at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions{}.dtype(at::kByte).pinned_memory(true));
  return {static_cast<std::byte*>(memory.data_ptr()), [memory](std::byte*) {}};
}

void DeviceCopies::begin(const Batch& batch) {
  let_go();
  Copied& copied =
      copied_.emplace_back(Copied{.batch = batch, .done = std::make_shared<c10::Event>(stream_.device_type())});
  const c10::StreamGuard on_own{stream_};
  for (const auto& [name, array] : batch.fields) {
    copied.pins.push_back(pin_stored(array.bytes().span()));
    copied.fields.push_back(tensor_of(array).to(stream_.device(), /*non_blocking=*/true));
  }
  copied.done->record(stream_);
}

std::optional<at::Tensor> DeviceCopies::find(const Array& field) const {
  // Two fields of a batch may begin at one address: one without elements, or one that is a part of another one.
  const auto is_it = [&](const Array& copied) {
    return copied.bytes().data() == field.bytes().data() && copied.dtype() == field.dtype() &&
           copied.shape() == field.shape();
  };
  for (const Copied& each : copied_) {
    for (std::size_t i = 0; i < each.fields.size(); ++i) {
      if (!is_it(each.batch.fields[i].array)) continue;
      const c10::Stream user = current_stream(stream_.device());
      each.done->block(user);
      each.fields[i].record_stream(user);
      return each.fields[i];
    }
  }
  return std::nullopt;
}

void DeviceCopies::keep_newest() {
  while (copied_.size() > 1) {
    copied_.front().fields.clear();
    old_.push_back(std::move(copied_.front()));
    copied_.pop_front();
  }
}

void DeviceCopies::let_go() {
  while (!old_.empty() && old_.front().done->query()) old_.pop_front();
}

}  // namespace pharos::ml
