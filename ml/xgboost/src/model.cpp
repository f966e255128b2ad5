#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/xgboost.hpp>

#include "booster.hpp"

namespace pharos::ml::xgboost {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw_error(std::move(result).error());
  return std::move(result).value();
}

}  // namespace

class Model::Loaded {
 public:
  static Result<std::unique_ptr<Loaded>> of(const Bytes& model, int threads) {
    PHAROS_TRY(const Library* const found, library());
    take_warnings(*found);
    ThreadLimit limit{*found};
    limit.set(threads);
    PHAROS_TRY(auto booster, Booster::make(*found, {}));
    PHAROS_TRY_VOID(booster.load(model));
    PHAROS_TRY_VOID(booster.set("nthread", std::to_string(threads)));
    PHAROS_TRY(const std::uint64_t columns, booster.settle());
    return std::make_unique<Loaded>(Loaded{found, std::move(booster), columns, threads});
  }

  const Library* xgboost;
  Booster booster;
  std::size_t columns;
  int threads;
};

Model::Model(const Bytes& model, int threads) : loaded_{value_of(Loaded::of(model, threads))} {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

std::size_t Model::columns() const {
  return loaded_->columns;
}
std::uint64_t Model::rounds() const {
  return value_of(loaded_->booster.rounds());
}

std::vector<float> Model::predict(std::span<const float> features) const {
  const std::size_t columns = loaded_->columns;
  if (columns == 0 || features.size() % columns != 0) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      std::to_string(features.size()) + " features are not a multiple of the model's " +
                          std::to_string(columns) + " columns",
                      "Give the model the columns that it was trained with."});
  }
  if (features.empty()) return {};
  ThreadLimit limit{*loaded_->xgboost};
  limit.set(loaded_->threads);
  const auto predicted = value_of(loaded_->booster.predict(features, columns));
  return {predicted.begin(), predicted.end()};
}

std::string Model::to_json() const {
  const Bytes json = value_of(loaded_->booster.save("json"));
  return {reinterpret_cast<const char*>(json.data()), json.size()};
}

}  // namespace pharos::ml::xgboost
