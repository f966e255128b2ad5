#include "booster.hpp"

#include "array.hpp"

namespace pharos::ml::xgboost {
namespace {

constexpr std::size_t kWarningsMax = 100;

std::span<const float> result_of(const std::uint64_t* shape, std::uint64_t dimensions, const float* numbers) {
  std::uint64_t size = dimensions == 0 ? 0 : 1;
  for (std::uint64_t i = 0; i < dimensions; ++i) size *= shape[i];
  return {numbers, size};
}

std::vector<std::string>& warnings() {
  thread_local std::vector<std::string> said;
  return said;
}
void keep_warning(const char* line) {
  if (warnings().size() < kWarningsMax) warnings().push_back(readable(line));
}

}  // namespace

Result<Booster> Booster::make(const Library& library, std::span<const DMatrixHandle> matrices) {
  BoosterHandle handle = nullptr;
  PHAROS_TRY_VOID(library.check(library.create_booster(matrices.data(), matrices.size(), &handle), "making a model"));
  return Booster{library, handle};
}

Result<void> Booster::set(const std::string& name, const std::string& value) {
  return library_->check(library_->set_parameter(handle_, name.c_str(), value.c_str()),
                         "setting " + name + "=" + value);
}

Result<void> Booster::train(std::uint64_t round, DMatrixHandle data) {
  return library_->check(library_->train_round(handle_, static_cast<int>(round), data),
                         "training round " + std::to_string(round + 1));
}

Result<std::string> Booster::measure(std::uint64_t round, DMatrixHandle data, const std::string& name) {
  const char* const names[] = {name.c_str()};
  const char* line = nullptr;
  PHAROS_TRY_VOID(library_->check(
      library_->measure_round(handle_, static_cast<int>(round), &data, const_cast<const char**>(names), 1, &line),
      "measuring round " + std::to_string(round + 1)));
  return std::string{line};
}

Result<std::span<const float>> Booster::predict(DMatrixHandle data) {
  const std::uint64_t* shape = nullptr;
  std::uint64_t dimensions = 0;
  const float* numbers = nullptr;
  PHAROS_TRY_VOID(library_->check(
      library_->predict_matrix(
          handle_, data,
          R"({"type": 0, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false})", &shape,
          &dimensions, &numbers),
      "predicting"));
  return result_of(shape, dimensions, numbers);
}

Result<std::span<const float>> Booster::predict(std::span<const float> features, std::size_t columns) const {
  const std::uint64_t* shape = nullptr;
  std::uint64_t dimensions = 0;
  const float* numbers = nullptr;
  PHAROS_TRY_VOID(library_->check(
      library_->predict_rows(
          handle_, array_interface(features, columns).c_str(),
          R"({"type": 0, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false, "missing": NaN, "cache_id": 0})",
          nullptr, &shape, &dimensions, &numbers),
      "predicting"));
  return result_of(shape, dimensions, numbers);
}

Result<std::uint64_t> Booster::settle() {
  std::uint64_t columns = 0;
  PHAROS_TRY_VOID(library_->check(library_->count_columns(handle_, &columns), "looking at a model"));
  return columns;
}

Result<Bytes> Booster::save(const char* format) const {
  const std::string config = std::string{R"({"format": ")"} + format + R"("})";
  std::uint64_t size = 0;
  const char* bytes = nullptr;
  PHAROS_TRY_VOID(library_->check(library_->save_model(handle_, config.c_str(), &size, &bytes), "saving a model"));
  return Bytes::copy_of(std::as_bytes(std::span{bytes, size}));
}

Result<void> Booster::load(const Bytes& model) {
  return library_->check(library_->load_model(handle_, model.data(), model.size()),
                         "loading a model of " + std::to_string(model.size()) + " bytes");
}

Result<std::uint64_t> Booster::rounds() const {
  int rounds = 0;
  PHAROS_TRY_VOID(library_->check(library_->count_rounds(handle_, &rounds), "counting a model's rounds"));
  return static_cast<std::uint64_t>(rounds);
}

Result<Booster> Booster::first(std::uint64_t rounds) const {
  BoosterHandle handle = nullptr;
  PHAROS_TRY_VOID(library_->check(library_->slice_rounds(handle_, 0, static_cast<int>(rounds), 1, &handle),
                                  "taking a model's first " + std::to_string(rounds) + " rounds"));
  return Booster{*library_, handle};
}

std::vector<std::string> take_warnings(const Library& library) {
  thread_local bool registered = false;
  if (!registered) registered = library.register_log(&keep_warning) == 0;
  return std::exchange(warnings(), {});
}

}  // namespace pharos::ml::xgboost
