#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <utility>

#include <pharos/ml/fit_strategy.hpp>

namespace pharos::ml {
namespace {

constexpr std::pair<FitStrategy, const char*> kStrategies[] = {{FitStrategy::kCopies, "copies"},
                                                               {FitStrategy::kZero1, "ZeRO-1"},
                                                               {FitStrategy::kZero2, "ZeRO-2"},
                                                               {FitStrategy::kFullyShard, "fully sharded"}};

std::string text_of_bytes(double bytes) {
  std::array<char, 32> text{};
  const bool is_small = bytes < (1 << 20);
  std::snprintf(text.data(), text.size(), "%.1f %s", bytes / (is_small ? 1 << 10 : 1 << 20), is_small ? "KiB" : "MiB");
  return text.data();
}

}  // namespace

FitChoice choose_strategy(const FitSize& size, std::uint32_t ranks, std::uint64_t memory) {
  const double n = ranks;
  const auto count = static_cast<double>(size.parameters);
  const double own = count * static_cast<double>(size.bytes);  // bytes of the parameters; gradients take as many
  const std::size_t float_copy = size.bytes < 4 ? 4 : 0;
  const double optimizer = count * static_cast<double>(size.kept * std::max<std::size_t>(size.bytes, 4) + float_copy);
  const auto frozen = static_cast<double>(size.frozen_bytes);
  const auto gathered = static_cast<double>(size.gathered_bytes);
  const auto gradients = static_cast<double>(size.gradient_bytes);
  const double divided = size.reads_in_place ? (frozen + own) / n : frozen + own;  // bytes of parameters, with ZeRO
  const double needs[] = {frozen + own + own + optimizer, divided + own + optimizer / n,
                          divided + gradients + (own + optimizer) / n,
                          gathered + gradients + (frozen + own + own + optimizer) / n};
  const auto* const first =
      std::ranges::find_if(needs, [&](double each) { return each <= static_cast<double>(memory); });
  const auto* const taken = ranks == 1 ? needs : first != std::end(needs) ? first : std::ranges::min_element(needs);
  FitChoice choice;
  std::string lines;
  for (std::size_t i = 0; i < std::size(kStrategies); ++i) {
    const auto [strategy, name] = kStrategies[i];
    const bool fits = needs[i] <= static_cast<double>(memory);
    const bool is_this = taken == needs + i;
    if (is_this) choice.strategy = strategy;
    lines += std::string{is_this ? "* " : "  "} + name + std::string(14 - std::string{name}.size(), ' ') +
             text_of_bytes(needs[i]) + (fits ? "" : ", too much") + '\n';
  }
  const std::string whole = text_of_bytes(gradients) + " of gradients are whole at a time";
  choice.arithmetic =
      std::to_string(size.parameters) + " parameters on " + std::to_string(ranks) + " ranks: " + text_of_bytes(own) +
      " of parameters, as much of gradients, " + text_of_bytes(optimizer) + " of optimizer state" +
      (frozen > 0 ? ", " + text_of_bytes(frozen) + " that is not trained" : "") + ".\n" +
      (size.reads_in_place ? "A strategy that divides parameters keeps them once, in memory that all ranks read, and "
                           : "A strategy that divides parameters gathers " + text_of_bytes(gathered) + ", and ") +
      whole + ".\n" + text_of_bytes(static_cast<double>(memory)) +
      " are available to each rank, of which each strategy needs:\n" + lines;
  return choice;
}

}  // namespace pharos::ml
