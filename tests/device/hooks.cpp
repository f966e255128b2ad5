// Registers the simulated devices with libtorch: their guard, their hooks, and what moves parameters to them.

#include <ATen/core/VariableHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "generators.hpp"
#include "memory.hpp"
#include "queues.hpp"

namespace pharos::simulated {
namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  using EventPointer = std::shared_ptr<Event>;

  static Event& event_at(void* event) { return **static_cast<EventPointer*>(event); }
  static c10::Stream stream_of(c10::Device device, c10::StreamId id) {
    return c10::Stream{c10::Stream::UNSAFE, c10::Device{kDeviceType, Streams::index_of(device)}, id};
  }

  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device getDevice() const override { return {kDeviceType, Streams::device()}; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) Streams::set_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { setDevice(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override {
    return stream_of(device, Streams::stream(Streams::index_of(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream_of(device, streams().next_of_pool());
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return stream_of(device, streams().make()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(stream.device(), Streams::exchange_stream(stream.device_index(), stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override { return streams().queue(stream).is_idle(); }
  void synchronizeStream(const c10::Stream& stream) const override { streams().queue(stream).synchronize(); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { streams().synchronize(device); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return &streams().queue(stream); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new EventPointer{std::make_shared<Event>()};
    event_at(*event).record(streams().queue(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) event_at(event).block(streams().queue(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || event_at(event).is_done(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) event_at(event).synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventPointer*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>{event_at(to).when() - event_at(from).when()}.count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    memory().recordStream(data, stream);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { Streams::set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return Streams::device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = Streams::device();
    Streams::set_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<DeviceGenerator>(device < 0 ? Streams::device() : device);
  }

  at::Device getDeviceFromPtr(void* address) const override {
    const auto device = memory().device_of(address);
    TORCH_CHECK(device.has_value(), "this is no address of a simulated device");
    return {kDeviceType, *device};
  }
  bool isPinnedPtr(const void* address) const override { return pinned_memory().has(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    c10::StorageImpl& resized = *storage.unsafeGetStorageImpl();
    const c10::DeviceGuard guard{resized.device()};
    c10::DataPtr larger = memory().allocate(bytes);
    if (const std::size_t kept = std::min(bytes, resized.nbytes()); kept != 0) {
      memory().copy_data(larger.get(), resized.data(), kept);
    }
    resized.set_data_ptr_noswap(std::move(larger));
    resized.set_nbytes(bytes);
  }
};

/// libtorch lets `set_data`, and so Module::to(), cross devices only between those of a fixed list, in which
/// PrivateUse1 is not. These hooks move the parameter themselves if one side is a simulated device, and pass on
/// everything else.
struct MovingHooks final : at::impl::VariableHooksInterface {
  using Base = at::TensorBase;
  VariableHooksInterface* next = at::impl::GetVariableHooks();

  void set_data(const Base& tensor, const Base& data) const override {
    const bool moves = tensor.device() != data.device() &&
                       (tensor.device().type() == kDeviceType || data.device().type() == kDeviceType);
    if (!moves) return next->set_data(tensor, data);
    TORCH_CHECK(tensor.scalar_type() == data.scalar_type(), "a tensor that moves to another device keeps its type");
    if (auto* const autograd = torch::autograd::impl::get_autograd_meta(tensor)) {
      const std::lock_guard lock{autograd->mutex_};
      autograd->grad_accumulator_.reset();
    }
    tensor.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
  }

  Base tensor_data(const Base& tensor) const override { return next->tensor_data(tensor); }
  Base variable_data(const Base& tensor) const override { return next->variable_data(tensor); }
  const std::shared_ptr<torch::autograd::Node>& grad_fn(const Base& tensor) const override {
    return next->grad_fn(tensor);
  }
  unsigned _register_hook(const Base& tensor, std::function<Base(const Base&)> hook) const override {
    return next->_register_hook(tensor, std::move(hook));
  }
  void remove_hook(const Base& tensor, unsigned position) const override { next->remove_hook(tensor, position); }
  bool is_view(const Base& tensor) const override { return next->is_view(tensor); }
  const Base& base(const Base& tensor) const override { return next->base(tensor); }
  const std::string& name(const Base& tensor) const override { return next->name(tensor); }
  bool is_leaf(const Base& tensor) const override { return next->is_leaf(tensor); }
  std::int64_t output_nr(const Base& tensor) const override { return next->output_nr(tensor); }
  Base data(const Base& tensor) const override { return next->data(tensor); }
  std::int64_t _version(const Base& tensor) const override { return next->_version(tensor); }
  void retain_grad(const Base& tensor) const override { next->retain_grad(tensor); }
  bool retains_grad(const Base& tensor) const override { return next->retains_grad(tensor); }
  void _backward(const at::Tensor& tensor, at::TensorList inputs, const std::optional<at::Tensor>& gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override {
    next->_backward(tensor, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const Base& tensor, bool requires_grad) const override {
    next->requires_grad_(tensor, requires_grad);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    next->basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const Base& tensor) const override { return next->grad_dtype(tensor); }
  void set_grad_dtype(const Base& tensor, const std::optional<c10::ScalarType>& type) const override {
    next->set_grad_dtype(tensor, type);
  }
};

const bool is_registered = [] {
  c10::register_privateuse1_backend("simulated");
  c10::SetAllocator(kDeviceType, &memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  at::impl::SetVariableHooks(new MovingHooks);
  return true;
}();

}  // namespace
}  // namespace pharos::simulated
