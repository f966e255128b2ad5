#include "module/reading.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace pharos::ml {

Reading::Reading(const at::Tensor& number) : number_{number.detach()} {
  if (number.is_cpu()) {
    number_ = number_.clone();  // the caller may change its tensor
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor there = number_.to(at::kDouble);
  number_ = at::empty({}, at::TensorOptions{}.dtype(at::kDouble).pinned_memory(true));
  number_.copy_(there.reshape({}), /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl guard{there.device().type()};
  copied_.emplace(there.device().type());
  copied_->record(guard.getStream(there.device()));
}

double Reading::value() const {
  if (copied_ && !copied_->query()) copied_->synchronize();
  return number_.item<double>();
}

}  // namespace pharos::ml
