#include <ATen/autocast_mode.h>

#include <pharos/ml/precision.hpp>

namespace pharos::ml {

namespace autocast = at::autocast;

Autocast::Autocast(at::Device device, Precision precision)
    : device_{device.type()},
      was_enabled_{autocast::is_autocast_enabled(device_)},
      type_before_{autocast::get_autocast_dtype(device_)} {
  autocast::set_autocast_enabled(device_, precision == Precision::kBf16);
  if (precision == Precision::kBf16) autocast::set_autocast_dtype(device_, at::kBFloat16);
  autocast::increment_nesting();
}

Autocast::~Autocast() {
  // Parameters that were cast are kept until the outermost guard ends, so that a module casts each of them once.
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(device_, was_enabled_);
  autocast::set_autocast_dtype(device_, type_before_);
}

}  // namespace pharos::ml
