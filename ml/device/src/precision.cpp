#include <ATen/autocast_mode.h>

#include <pharos/ml/precision.hpp>

namespace pharos::ml {
namespace {

namespace autocast = at::autocast;

constexpr at::DeviceType kKinds[] = {at::kCPU, at::kCUDA, at::kPrivateUse1};

at::ScalarType type_of(Precision precision, at::Device device) {
  switch (precision) {
    case Precision::kFloat: break;
    case Precision::kBf16: return at::kBFloat16;
    case Precision::kFp16: return at::kHalf;
  }
  return autocast::get_autocast_dtype(device.type());
}

void apply(const std::vector<Autocast::Setting>& settings) {
  for (const Autocast::Setting& each : settings) {
    autocast::set_autocast_enabled(each.device, each.is_enabled);
    autocast::set_autocast_dtype(each.device, each.type);
  }
}

}  // namespace

std::vector<Autocast::Setting> Autocast::settings() {
  std::vector<Setting> settings;
  for (const at::DeviceType each : kKinds) {
    settings.push_back({each, autocast::is_autocast_enabled(each), autocast::get_autocast_dtype(each)});
  }
  return settings;
}

Autocast::Autocast(at::Device device, Precision precision)
    : Autocast{{{device.type(), precision != Precision::kFloat, type_of(precision, device)}}} {}

Autocast::Autocast(const std::vector<Setting>& settings) {
  apply(settings);
  autocast::increment_nesting();
}

Autocast::~Autocast() {
  // Parameters that were cast are kept until the outermost guard ends, so that a module casts each of them once.
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  apply(before_);
}

}  // namespace pharos::ml
