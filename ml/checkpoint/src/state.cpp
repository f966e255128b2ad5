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
  call_and_fetch(/*early_alone=*/false);
}

void State::call_before_commit() const {
  call_and_fetch(/*early_alone=*/true);
}

void State::call_and_fetch(bool early_alone) const {
  for (const auto& each : before_save_) each();
  for (const StateSlice& each : slices_) {
    if (each.fetch && (each.changes_early || !early_alone)) each.fetch();
  }
}

void State::call_after_load() const {
  for (const StateSlice& each : slices_) {
    if (each.store) each.store();
  }
  for (const auto& each : after_load_) each();
}

}  // namespace pharos::ml
