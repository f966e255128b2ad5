#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include <pharos/scheduler/resources.hpp>

#include "names.hpp"

namespace pharos::scheduler {
namespace {

constexpr std::string_view kMemory = "memory";

std::string number(std::int64_t amount) {
  std::string text = std::to_string(std::abs(amount) / Resources::kWhole);
  if (amount < 0) text.insert(text.begin(), '-');
  if (std::int64_t rest = std::abs(amount) % Resources::kWhole; rest != 0) {
    std::string digits = std::to_string(Resources::kWhole + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text;
}

/// If the name is another spelling of a built-in resource, such as "CPUs", returns the right spelling; else null.
const char* meant_by(std::string_view name) {
  std::string plain;
  for (const char letter : name) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (plain.ends_with('s')) plain.pop_back();
  for (const char* const each : {"cpu", "gpu", "memory"}) {
    if (plain == each && name != each) return each;
  }
  return nullptr;
}

std::string plural_of(const std::string& name) {
  return name == "cpu" ? "CPUs" : name == "gpu" ? "GPUs" : name;
}

std::string amount_of(const std::string& name, std::int64_t amount) {
  if (name != kMemory) return number(amount);
  return (amount < 0 ? "-" : "") + to_string(ByteCount{static_cast<std::uint64_t>(std::abs(amount))});
}

std::string counted(const std::string& name, std::int64_t amount) {
  if (amount == Resources::kWhole && name == "cpu") return "1 CPU";
  if (amount == Resources::kWhole && name == "gpu") return "1 GPU";
  return amount_of(name, amount) + " " + plural_of(name);
}

Error makes_no_sense(const std::string& what, std::string why) {
  return {ErrorCode::kInvalidArgument, "the resource " + what + " is invalid: " + std::move(why),
          "Write names and amounts like gpu=1,cpu=0.5,fast_disk=2,memory=8GiB."};
}

/// Returns how many bytes a suffix stands for: none, or "K", "KB" and "KiB" alike, up to "T". Returns 0 for an unknown
/// suffix.
double unit_of(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  const std::size_t power = std::string_view{"KMGT"}.find(suffix.front());
  const std::string_view rest = suffix.substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) return 0;
  return std::ldexp(1.0, 10 * static_cast<int>(power + 1));
}

/// Finds a GPU for each of several shares. The largest share comes first, and each goes to the GPU that has the least
/// left and still enough. Where a share finds no GPU, the shares before it try others. Two GPUs that have the same
/// amount left count as one.
class GpuSearch {
 public:
  /// `shares` are in order, the largest first.
  GpuSearch(std::vector<std::int64_t> gpus_left, std::vector<std::int64_t> shares)
      : left_{std::move(gpus_left)}, shares_{std::move(shares)}, gpus_(shares_.size()) {}

  bool find() { return place(0); }
  /// The GPU of each share, after find() has returned true.
  const std::vector<std::uint32_t>& gpus() const { return gpus_; }

 private:
  bool place(std::size_t share) {
    if (share == shares_.size()) return true;
    const std::int64_t amount = shares_[share];
    for (std::int64_t tried = amount - 1;;) {
      std::optional<std::uint32_t> best;
      for (std::uint32_t i = 0; i < left_.size(); ++i) {
        if (left_[i] > tried && (!best || left_[i] < left_[*best])) best = i;
      }
      if (!best || steps_++ == shares_.size() + kStepsMax) return false;
      tried = left_[*best];
      left_[*best] -= amount;
      gpus_[share] = *best;
      if (place(share + 1)) return true;
      if (steps_ > shares_.size() + kStepsMax) return false;
      left_[*best] = tried;
    }
  }

  static constexpr std::size_t kStepsMax = 1000;  // beyond those of a search that never goes back

  std::vector<std::int64_t> left_;
  const std::vector<std::int64_t> shares_;
  std::vector<std::uint32_t> gpus_;
  std::size_t steps_ = 0;
};

}  // namespace

// ---- Resources

Resources::Resources(Amounts amounts) : amounts_{std::move(amounts)} {
  std::erase_if(amounts_, [](const auto& entry) { return entry.second == 0; });
}

Result<Resources> Resources::checked(const Amounts& amounts) {
  Resources resources;
  for (const auto& [name, amount] : amounts) {
    const auto step = static_cast<double>(name == kMemory ? 1 : kWhole);
    PHAROS_TRY_VOID(resources.set(name, static_cast<double>(amount) / step));
  }
  return resources;
}

Resources Resources::of_cpus(std::uint32_t cpus) {
  return Resources{{{"cpu", std::int64_t{cpus} * kWhole}}};
}

Result<Resources> Resources::parse(std::string_view text) {
  Resources parsed;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t equals = part.find('=');
    const std::string what = "\"" + std::string{part.substr(0, 2 * kNameBytesMax)} + "\"";
    if (equals == std::string_view::npos) return makes_no_sense(what, "it has no amount");
    const std::string_view name = part.substr(0, equals);
    const std::string_view digits = part.substr(equals + 1);
    double amount = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), amount);
    const std::string_view suffix{read.ptr, static_cast<std::size_t>(digits.data() + digits.size() - read.ptr)};
    const double unit = name == kMemory ? unit_of(suffix) : suffix.empty() ? 1 : 0;
    if (read.ec != std::errc{} || unit == 0) return makes_no_sense(what, "its amount is not a number");
    // An amount such as 0.1GiB is rounded to whole bytes.
    if (name == kMemory) amount = std::round(amount * unit);
    if (parsed.of(name) != 0) return makes_no_sense(what, "its name occurs twice");
    PHAROS_TRY_VOID(parsed.set(name, amount));
  }
  return parsed;
}

Result<void> Resources::set(std::string_view name, double amount) {
  const std::string text{name.substr(0, kNameBytesMax)};
  if (!is_name(name)) {
    return makes_no_sense("\"" + text + "\"", kNameRule);
  }
  if (const char* const meant = meant_by(name))
    return makes_no_sense("\"" + text + "\"", std::string{"write "} + meant);
  const bool is_memory = name == kMemory;
  if (is_memory && !(amount >= 0 && amount <= static_cast<double>(kMostMemory.bytes()))) {
    return makes_no_sense(text, "an amount is between 0 and " + pharos::to_string(kMostMemory));
  }
  if (!(amount >= 0 && (is_memory || amount <= kMost))) {
    return makes_no_sense(text, "an amount is between 0 and a million");
  }
  const double exact = is_memory ? amount : amount * kWhole;
  const auto steps = static_cast<std::int64_t>(std::llround(exact));
  if (std::abs(static_cast<double>(steps) - exact) > 1e-3 || (steps == 0 && amount > 0)) {
    return makes_no_sense(
        text, is_memory ? "memory is a whole number of bytes" : "an amount has at most four digits behind the point");
  }
  if (text == "gpu" && steps > kWhole && steps % kWhole != 0) {
    return makes_no_sense("gpu=" + number(steps), "its amount must be at most 1, or a whole number");
  }
  amounts_.erase(text);
  if (amounts_.size() >= kNamesMax) return makes_no_sense(text, "there are more than 32 resources");
  add(text, steps);
  return {};
}

Result<void> Resources::set_memory(ByteCount bytes) {
  return set(kMemory, static_cast<double>(bytes.bytes()));
}

void Resources::add(const std::string& name, std::int64_t amount) {
  if (amount == 0) return;
  const auto at = amounts_.try_emplace(name, 0).first;
  at->second += amount;
  if (at->second == 0) amounts_.erase(at);
}

std::int64_t Resources::of(std::string_view name) const {
  const auto found = amounts_.find(std::string{name});
  return found == amounts_.end() ? 0 : found->second;
}

Resources& Resources::operator+=(const Resources& more) {
  for (const auto& [name, amount] : more.amounts_) add(name, amount);
  return *this;
}

Resources& Resources::operator-=(const Resources& less) {
  for (const auto& [name, amount] : less.amounts_) add(name, -amount);
  return *this;
}

std::string Resources::shortage(const Resources& all, std::string_view whose) const {
  std::string asked;
  std::string there;
  for (const auto& [name, amount] : amounts_) {
    if (amount <= all.of(name)) continue;
    asked += (asked.empty() ? "" : " and ") + counted(name, amount);
    there += (there.empty() ? "" : " and ") + counted(name, all.of(name));
  }
  return asked + "; " + std::string{whose} + " has " + there;
}

std::string Resources::use(const Resources& total, const Resources& left) const {
  std::string text;
  for (const auto& [name, amount] : scarce_in(left).amounts_) {
    if (!text.empty()) text += " and ";
    text += amount_of(name, total.of(name) - left.of(name)) + " of " + amount_of(name, total.of(name)) + " " +
            plural_of(name);
  }
  return text + " are in use";
}

Resources Resources::scarce_in(const Resources& room) const {
  Resources scarce;
  for (const auto& [name, amount] : amounts_) {
    if (amount > room.of(name)) scarce.add(name, amount);
  }
  return scarce.empty() ? *this : scarce;
}

Resources Resources::as_in(const Resources& all) const {
  Resources same;
  for (const auto& [name, amount] : amounts_) same.add(name, all.of(name));
  return same;
}

std::string Resources::to_string() const {
  std::string text;
  for (const auto& [name, amount] : amounts_) text += (text.empty() ? "" : ", ") + counted(name, amount);
  return text.empty() ? "nothing" : text;
}

// ---- ResourceLedger

ResourceLedger::ResourceLedger(Resources total)
    : total_{std::move(total)},
      left_{total_},
      gpus_left_(static_cast<std::size_t>(total_.gpus() / Resources::kWhole), Resources::kWhole) {}

ResourceLedger::ResourceLedger(const Allotment& total) : total_{total.amounts}, left_{total_} {
  for (const GpuShare& share : total.gpus) {
    gpus_left_.resize(std::max<std::size_t>(gpus_left_.size(), share.index + 1));
    gpus_left_[share.index] = share.amount;
  }
}

bool ResourceLedger::fits(const Resources& demand) const {
  return demand.fits_in(left_) && (demand.gpus() == 0 || !choose_gpus(demand.gpus()).empty());
}

bool ResourceLedger::fits(const Allotment& allotment) const {
  return allotment.amounts.fits_in(left_) &&
         std::all_of(allotment.gpus.begin(), allotment.gpus.end(), [&](const GpuShare& share) {
           return share.index < gpus_left_.size() && share.amount <= gpus_left_[share.index];
         });
}

std::vector<Allotment> ResourceLedger::find_allotments(const std::vector<const Resources*>& demands) const {
  Resources all;
  for (const Resources* const each : demands) all += *each;
  if (!all.fits_in(left_)) return {};
  std::vector<std::size_t> order(demands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return demands[a]->gpus() > demands[b]->gpus(); });
  std::vector<Allotment> found;
  for (const Resources* const each : demands) found.push_back({*each, {}});
  // Whole GPUs come first. Any of those that are free will do, because they are all alike.
  ResourceLedger rest = *this;
  std::vector<std::size_t> sharers;
  std::vector<std::int64_t> shares;
  for (const std::size_t i : order) {
    const std::int64_t gpus = demands[i]->gpus();
    if (gpus == 0) break;
    if (gpus < Resources::kWhole) {
      sharers.push_back(i);
      shares.push_back(gpus);
      continue;
    }
    found[i].gpus = rest.choose_gpus(gpus);
    if (found[i].gpus.empty()) return {};
    rest.take(found[i]);
  }
  GpuSearch search{std::move(rest.gpus_left_), shares};
  if (!search.find()) return {};
  for (std::size_t i = 0; i < sharers.size(); ++i) found[sharers[i]].gpus.push_back({search.gpus()[i], shares[i]});
  return found;
}

Allotment ResourceLedger::take(const Resources& demand) {
  Allotment allotment{demand, choose_gpus(demand.gpus())};
  const bool has_gpus = demand.gpus() == 0 || !allotment.gpus.empty();
  PHAROS_CHECK(has_gpus && fits(allotment), demand.to_string(), left_.to_string());
  take(allotment);
  return allotment;
}

void ResourceLedger::take(const Allotment& allotment) {
  left_ -= allotment.amounts;
  for (const GpuShare& share : allotment.gpus) gpus_left_.at(share.index) -= share.amount;
}

void ResourceLedger::give_back(const Allotment& allotment) {
  left_ += allotment.amounts;
  for (const GpuShare& share : allotment.gpus) gpus_left_.at(share.index) += share.amount;
}

// Returns an empty list if the GPUs are not available. A share is taken from the GPU that has the least left and still
// enough, so that whole GPUs stay whole.
std::vector<GpuShare> ResourceLedger::choose_gpus(std::int64_t amount) const {
  std::vector<GpuShare> chosen;
  const std::int64_t each = std::min(amount, Resources::kWhole);
  for (std::int64_t missing = amount; missing > 0; missing -= each) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 0; i < gpus_left_.size(); ++i) {
      const bool taken = std::any_of(chosen.begin(), chosen.end(), [i](const auto& share) { return share.index == i; });
      if (taken || gpus_left_[i] < each) continue;
      if (!best || gpus_left_[i] < gpus_left_[*best]) best = i;
    }
    if (!best) return {};
    chosen.push_back({*best, each});
  }
  return chosen;
}

}  // namespace pharos::scheduler
