#include <pharos/ml/state.hpp>

namespace pharos::ml {

void State::add(StateSlice slice) {
  take(slice.name);
  slices_.push_back(std::move(slice));
}

void State::add(Value value) {
  take(value.name);
  values_.push_back(std::move(value));
}

void State::take(const std::string& name) {
  if (names_.insert(name).second) return;
  throw_error(Error{ErrorCode::kInvalidArgument, "the state has \"" + name + "\" already",
                    "Give each slice and each value a name of its own."});
}

void State::call_before_save() const {
  for (const StateSlice& each : slices_) {
    if (each.fetch) each.fetch();
  }
  for (const auto& each : before_save_) each();
}

void State::call_after_load() const {
  for (const StateSlice& each : slices_) {
    if (each.store) each.store();
  }
  for (const auto& each : after_load_) each();
}

}  // namespace pharos::ml
