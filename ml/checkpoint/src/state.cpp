#include <pharos/ml/state.hpp>

namespace pharos::ml {

void State::call_before_save() const {
  for (const auto& each : before_save_) each();
}

void State::call_after_load() const {
  for (const auto& each : after_load_) each();
}

}  // namespace pharos::ml
