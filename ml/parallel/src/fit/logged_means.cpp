#include "fit/logged_means.hpp"

#include <span>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/train_context.hpp>

namespace pharos::ml {

void LoggedMeans::log(std::string_view name, const at::Tensor& mean) {
  if (mean.numel() != 1) {
    throw_error(
        Error{ErrorCode::kInvalidArgument,
              "the learner logs \"" + std::string{name} + "\" with " + std::to_string(mean.numel()) + " elements",
              "Log the mean over the batch."});
  }
  auto found = parts_.find(name);
  if (found == parts_.end()) found = parts_.emplace(name, std::vector<Part>{}).first;
  found->second.push_back({Reading{mean.detach()}, samples_});
}

Metrics LoggedMeans::take() {
  Metrics means;
  for (const auto& [name, parts] : std::exchange(parts_, {})) {
    double sum = 0;
    double samples = 0;
    for (const Part& each : parts) {
      sum += each.samples > 0 ? each.samples * each.mean.value() : 0;
      samples += each.samples;
    }
    means.set(name, samples > 0 ? sum / samples : 0);
  }
  return means;
}

Metrics LoggedMeans::take_as_rank_0(TrainContext& context) {
  const Metrics own = take();
  std::string names;
  for (const auto& [name, mean] : own.entries()) names += name + '\n';
  auto size = static_cast<std::int64_t>(names.size());
  Communicator& ranks = context.communicator();
  ranks.broadcast(std::span{&size, 1}, 0);
  names.resize(static_cast<std::size_t>(size));
  ranks.begin_broadcast(DType::kU8, std::as_writable_bytes(std::span{names}), 0).wait();
  Metrics means;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('\n', begin);
    const std::string name = names.substr(begin, end - begin);
    const double* const mean = own.find(name);
    means.set(name, mean != nullptr ? *mean : 0);
    begin = end + 1;
  }
  return means;
}

}  // namespace pharos::ml
