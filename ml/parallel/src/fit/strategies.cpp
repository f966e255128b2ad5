#include "fit/strategies.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "fit/copies.hpp"
#include "fit/divided.hpp"
#include "module/text_of_bytes.hpp"

namespace pharos::ml {
namespace {

constexpr std::string_view kByMemoryName = "auto";

}  // namespace

// ---- The list

std::span<const TrainingStrategy* const> strategies() {
  static const Copies copies;
  static const Zero1 zero1;
  static const Zero2 zero2;
  static const FullyShard fully_shard;
  static const TrainingStrategy* const all[] = {&copies, &zero1, &zero2, &fully_shard};
  return all;
}

const TrainingStrategy& strategy_of(FitStrategy id) {
  const auto all = strategies();
  const auto found = std::ranges::find(all, id, &TrainingStrategy::id);
  if (found != all.end()) return **found;
  throw_error(Error{ErrorCode::kInvalidArgument, "there is no strategy with the number " + std::to_string(int(id)),
                    "Take a value of FitStrategy."});
}

// ---- Names

std::string_view name_of(FitStrategy strategy) {
  return strategy == FitStrategy::kByMemory ? kByMemoryName : strategy_of(strategy).name();
}

std::string_view summary_of(FitStrategy strategy) {
  if (strategy == FitStrategy::kByMemory) return "as little of it is divided among them as their memory allows";
  return strategy_of(strategy).summary();
}

std::optional<FitStrategy> strategy_named(std::string_view name) {
  if (name == kByMemoryName) return FitStrategy::kByMemory;
  const auto all = strategies();
  const auto found = std::ranges::find(all, name, &TrainingStrategy::name);
  if (found == all.end()) return std::nullopt;
  return (*found)->id();
}

// ---- By memory

ModelBytes::ModelBytes(const FitSize& size) {
  const auto count = static_cast<double>(size.parameters);
  const std::size_t float_copy = size.bytes < 4 ? 4 : 0;
  parameters = count * static_cast<double>(size.bytes);
  optimizer = count * static_cast<double>(size.kept * std::max<std::size_t>(size.bytes, 4) + float_copy);
  frozen = static_cast<double>(size.frozen_bytes);
  gathered = static_cast<double>(size.gathered_bytes);
  reduced = static_cast<double>(size.gradient_bytes);
  reads_in_place = size.reads_in_place;
}

FitChoice choose_strategy(const FitSize& size, std::uint32_t ranks, std::uint64_t memory) {
  const ModelBytes model{size};
  std::vector<double> needs;
  for (const TrainingStrategy* each : strategies()) needs.push_back(each->bytes_on_rank(model, ranks));
  const auto fits = [&](double bytes) { return bytes <= static_cast<double>(memory); };
  auto taken = ranks == 1 ? needs.begin() : std::ranges::find_if(needs, fits);
  if (taken == needs.end()) taken = std::ranges::min_element(needs);
  const auto chosen = static_cast<std::size_t>(taken - needs.begin());
  std::string lines;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    std::string name{strategies()[i]->name()};
    name.resize(std::max<std::size_t>(name.size() + 1, 14), ' ');
    lines += (i == chosen ? "* " : "  ") + name + text_of_bytes(needs[i]) + (fits(needs[i]) ? "" : ", too much") + '\n';
  }
  FitChoice choice;
  choice.strategy = strategies()[chosen]->id();
  const std::string whole = text_of_bytes(model.reduced) + " of gradients are whole at a time";
  choice.arithmetic = std::to_string(size.parameters) + " parameters on " + std::to_string(ranks) +
                      " ranks: " + text_of_bytes(model.parameters) + " of parameters, as much of gradients, " +
                      text_of_bytes(model.optimizer) + " of optimizer state" +
                      (model.frozen > 0 ? ", " + text_of_bytes(model.frozen) + " that is not trained" : "") + ".\n" +
                      (model.reads_in_place
                           ? "A strategy that divides parameters keeps them once, in memory that all ranks read, and "
                           : "A strategy that divides parameters gathers " + text_of_bytes(model.gathered) + ", and ") +
                      whole + ".\n" + text_of_bytes(static_cast<double>(memory)) +
                      " are available to each rank, of which each strategy needs:\n" + lines;
  return choice;
}

}  // namespace pharos::ml
