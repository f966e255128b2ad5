#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <memory>
#include <span>
#include <sstream>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/sharded.hpp>

#include "module/heap.hpp"
#include "module/norms.hpp"
#include "module/parameters.hpp"
#include "module/torch_dtype.hpp"
#include "optimizer/groups.hpp"
#include "parallel/backward_end.hpp"
#include "parallel/gathering.hpp"
#include "parallel/reducing.hpp"
#include "parallel/shards.hpp"
#include "parallel/shares.hpp"

namespace pharos::ml {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

Gathering::Staying staying(Sharding sharding, const ShardOptions& options) {
  const bool passing = sharding == Sharding::kParameters && options.reshard_after_forward;
  return passing ? Gathering::Staying::kRest : Gathering::Staying::kAll;
}

/// Describes everything that must be the same on all ranks, one item in each line.
std::string describe(const std::vector<ShardedUnit>& units, Sharding sharding, const ShardOptions& options) {
  constexpr const char* kShardings[] = {"zero1", "zero2", "fully_shard"};
  std::ostringstream text;
  text << kShardings[static_cast<int>(sharding)]
       << (options.reshard_after_forward ? "" : " without reshard_after_forward")
       << (options.broadcast_buffers ? "" : " without broadcast_buffers") << '\n';
  for (const ShardedUnit& unit : units) {
    for (const Shard& each : unit.shards) {
      text << "the unit \"" << unit.name << "\" of " << each.flat.size << ' ' << each.flat.type << " in "
           << each.computed << ", gradients in " << each.sent << '\n';
    }
  }
  return text.str();
}

}  // namespace

// Gathering brings parameters, and Reducing takes gradients. This class calls them at the right time: from hooks of the
// gradient accumulators, at the end of a backward, and before the step of an optimizer.
class Sharded::Core : public std::enable_shared_from_this<Core> {
 public:
  /// `data` connects the same ranks as `ranks`, on the device of the tensors.
  Core(torch::nn::Module& module, const Communicator& ranks, const Communicator& data, Sharding sharding,
       const ShardOptions& options)
      : ranks_{ranks},
        data_{data},
        sharding_{sharding},
        options_{options},
        shares_{ranks},
        parameters_{parameters_of(module)},
        buffers_{buffers_of(module)},
        units_{plan(module)},
        gathering_{data, units_, staying(sharding, options)},
        slices_{take_over()},
        reducing_{data, units_, parameters_, slices_, sharding == Sharding::kOptimizer} {
    broadcast(data_, buffers_, 0);
    gathering_.begin();
    count_changes();
  }
  Core(Core&&) = delete;

  void attach() {
    hooks_.resize(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].tensor.requires_grad()) continue;
      hooks_[i].accumulator = torch::autograd::impl::grad_accumulator(parameters_[i].tensor);
      const auto came = [this, i](const variable_list& outputs, const variable_list&) -> variable_list {
        arrive(i);
        return outputs;
      };
      hooks_[i].key =
          hooks_[i].accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(came));
    }
  }
  /// Removes the hooks, and leaves the module with empty parameters.
  void detach() {
    const at::NoGradGuard no_grad;
    const Watch::Quiet quiet;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (hooks_[i].accumulator != nullptr) hooks_[i].accumulator->del_post_hook(hooks_[i].key);
      const at::Tensor& parameter = parameters_[i].tensor;
      parameter.mutable_grad().reset();
      parameter.set_data(at::empty({0}, parameter.options().requires_grad(false)));
    }
  }

  const std::vector<Slice>& slices() const { return slices_; }
  void refresh() {
    check();
    gathering_.end_reading();
    gathering_.refresh(true);
    mark_changed();
  }
  std::vector<ParameterGroup> groups(const SettingsOf& settings);
  double clip_norm(double max);
  std::shared_ptr<int> no_syncs() { return {shared_from_this(), &no_syncs_}; }
  void weigh(double samples) {
    check();
    shares_.exchange(samples);
  }
  void check() {
    gathering_.check();
    // On a GPU nobody waits for a gather, so nobody has seen whether it failed.
    if (data_.is_on_gpu()) data_.check();
    check_changes();
  }
  const Step& last_step() const { return step_; }
  Duration waited_for_parameters() const { return gathering_.waited(); }
  std::string table() const;

 private:
  struct Hook {
    std::shared_ptr<Node> accumulator{};  // kept alive here, because the parameter has only a weak pointer to it
    std::uintptr_t key = 0;
  };

  std::vector<ShardedUnit> plan(const torch::nn::Module& module);
  std::vector<Slice> take_over();
  void before_step();
  void arrive(std::size_t parameter);
  void begin();
  void end();
  void forget();
  std::vector<std::uint8_t> exchange_state();
  [[noreturn]] void throw_different_paths();
  std::string path() const;
  void learn_order();
  void count_changes();
  void check_changes() const;
  void mark_changed();

  Communicator ranks_;  // for small lists in host memory
  Communicator data_;
  const Sharding sharding_;
  const ShardOptions options_;
  Shares shares_;
  const std::vector<NamedTensor> parameters_;
  const std::vector<NamedTensor> buffers_;
  std::vector<ShardedUnit> units_;
  Gathering gathering_;
  std::vector<Slice> slices_;
  Reducing reducing_;
  std::vector<Hook> hooks_;             // by parameter
  std::vector<std::int64_t> versions_;  // libtorch's versions of the parameters, to notice writes
  bool under_way_ = false;
  int no_syncs_ = 0;  // number of NoSyncs that live
  Step step_;
};

// ---- Made of a module

std::vector<ShardedUnit> Sharded::Core::plan(const torch::nn::Module& module) {
  check_alike(ranks_, parameters_);
  check_alike(ranks_, buffers_);
  std::vector<ShardedUnit> units;
  on_all(ranks_, [&] {
    for (const auto* const tensors : {&parameters_, &buffers_}) {
      check_devices(ranks_, data_, *tensors, "fully_shard(module, ranks, gpus)");
    }
    units = sharded_units(module, parameters_, options_, data_);
  });
  if (const auto difference = first_difference(ranks_, describe(units, sharding_, options_))) {
    throw_error(Error{ErrorCode::kInvalidArgument, "ranks shard their modules in different ways: " + *difference,
                      "Give all ranks the same Sharding and ShardOptions, and blocks in the same order."});
  }
  return units;
}

std::vector<Sharded::Slice> Sharded::Core::take_over() {
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    ml::take_over(units_[i], parameters_, data_, gathering_.memory_of(i));
    for (Shard& shard : units_[i].shards) {
      const std::int64_t piece = shard.flat.piece;
      const std::int64_t begin = piece * ranks_.rank();
      for (const Flat::Member& each : shard.flat.members) {
        const std::int64_t first = std::max(each.begin, begin);
        const std::int64_t last = std::min(each.begin + each.size, begin + piece);
        if (first >= last) continue;
        const NamedTensor& parameter = parameters_[each.parameter];
        shard.parts.push_back({.slice = slices.size(), .parameter = each.parameter, .begin = first - begin});
        at::Tensor values = shard.own.narrow(0, first - begin, last - first);
        if (shard.flat.is_trained) values.set_requires_grad(true);
        slices.push_back({.name = parameter.name,
                          .shape = parameter.tensor.sizes().vec(),
                          .begin = first - each.begin,
                          .values = std::move(values)});
      }
    }
  }
  return slices;
}

// ---- A backward

void Sharded::Core::arrive(std::size_t parameter) {
  gathering_.check();
  const at::NoGradGuard no_grad;
  const Watch::Quiet quiet;
  if (no_syncs_ > 0) {
    // Held-back gradients are summed up in the type in which they will be sent. The engine adds the next gradient to
    // this one.
    at::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
    if (options_.reduce && gradient.defined()) gradient = gradient.to(reducing_.type_of(parameter));
    return;
  }
  if (!under_way_) begin();
  reducing_.arrive(parameter, shares_.factor());
  gathering_.advance();
}

void Sharded::Core::begin() {
  under_way_ = true;
  reducing_.begin();
  const auto core = shared_from_this();
  at_end_of_backward([core] { core->end(); }, [core] { core->forget(); });
}

void Sharded::Core::end() {
  check();
  const at::NoGradGuard no_grad;
  const Watch::Quiet quiet;
  reducing_.finish(shares_.factor());
  const auto began = std::chrono::steady_clock::now();
  const std::vector<std::uint8_t> all = exchange_state();  // waits for slower ranks
  const Duration waited = std::chrono::steady_clock::now() - began;
  reducing_.end(all, shares_.factor());
  if (options_.broadcast_buffers) broadcast(data_, buffers_, 0);
  const bool is_first_step = step_.number++ == 0;
  step_.gathers = gathering_.gathers();
  step_.reductions = reducing_.reductions();
  step_.waited = gathering_.waited() + reducing_.waited() + waited;
  gathering_.begin_counting();
  gathering_.refresh();
  if (is_first_step) learn_order();
  under_way_ = false;
}

void Sharded::Core::forget() {
  under_way_ = false;
  reducing_.forget();
  gathering_.begin_counting();
}

/// Exchanges Reducing::state(), and returns for each parameter the largest state of all ranks. Throws on all ranks if
/// ranks have not touched the same units in the same order (with kParameters).
std::vector<std::uint8_t> Sharded::Core::exchange_state() {
  const std::uint64_t path = sharding_ == Sharding::kParameters ? gathering_.path_hash() : 0;
  std::vector<std::uint8_t> own(sizeof path);
  std::memcpy(own.data(), &path, sizeof path);
  const std::vector<std::uint8_t> state = reducing_.state();
  own.insert(own.end(), state.begin(), state.end());
  std::vector<std::uint8_t> all(own.size() * ranks_.size());
  ranks_.all_gather(std::span<const std::uint8_t>{own}, std::span{all});
  std::vector<std::uint8_t> most(state.size());
  bool are_alike = true;
  for (auto from = all.begin(); from != all.end(); from += static_cast<std::ptrdiff_t>(own.size())) {
    are_alike = are_alike && std::equal(from, from + sizeof path, all.begin());
    std::transform(most.begin(), most.end(), from + sizeof path, most.begin(),
                   [](std::uint8_t a, std::uint8_t b) { return std::max(a, b); });
  }
  if (!are_alike) throw_different_paths();
  return most;
}

void Sharded::Core::throw_different_paths() {
  const auto difference = first_difference(ranks_, path());
  throw_error(Error{
      ErrorCode::kFailedPrecondition,
      "ranks have run different graphs in step " + std::to_string(step_.number + 1) + ": " +
          difference.value_or("they differ"),
      "Ranks with sharded parameters must do the same operations in a step. With ZeRO the operations may differ."});
}

std::string Sharded::Core::path() const {
  std::string text;
  for (const std::uint32_t each : gathering_.path()) text += '"' + units_[each].name + "\"\n";
  return text;
}

/// From the second step on, units are gathered in the order in which rank 0 first touched them, and reduced in the
/// reverse order.
void Sharded::Core::learn_order() {
  const std::vector<std::size_t> own = gathering_.order_of_touch();
  std::vector<std::int64_t> agreed(own.begin(), own.end());
  ranks_.broadcast(std::span{agreed}, 0);
  std::vector<std::size_t> order(agreed.begin(), agreed.end());
  gathering_.set_order(order);
  std::ranges::reverse(order);
  reducing_.set_order(order);
}

// ---- Around it

std::vector<ParameterGroup> Sharded::Core::groups(const SettingsOf& settings) {
  std::vector<TrainedParameter> trained;
  for (const Slice& each : slices_) {
    if (each.values.requires_grad()) trained.push_back({{each.name, each.shape}, each.values});
  }
  std::vector<ParameterGroup> groups = grouped(trained, settings);
  if (groups.empty()) groups.emplace_back();  // a rank without parameters waits for the other ranks, too
  // All groups get the callback, because an Optimizer may have only one of them.
  for (ParameterGroup& each : groups) {
    each.before_step = [weak = weak_from_this()] {
      const auto core = weak.lock();
      if (core == nullptr) {
        throw_error(Error{ErrorCode::kFailedPrecondition,
                          "an optimizer was used after the Sharded that owns its parameters was destroyed",
                          "Destroy the optimizer before the Sharded."});
      }
      core->before_step();
    };
  }
  return groups;
}

/// Units that were gathered since the backward, for an evaluation, are discarded, because the step changes them.
void Sharded::Core::before_step() {
  check();
  gathering_.end_reading();
  gathering_.refresh();
  mark_changed();
}

void Sharded::Core::count_changes() {
  versions_.clear();
  for (const NamedTensor& each : parameters_) versions_.push_back(each.tensor._version());
}

/// A write to the module's parameters would be lost, because their memory is soon used by another unit. libtorch counts
/// the writes.
void Sharded::Core::check_changes() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].tensor._version() == versions_[i]) continue;
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      '"' + parameters_[i].name +
                          "\" was written to, but a write to the module does not change the parts that the ranks keep",
                      "Load the module before it is sharded, or write to Sharded::slices() and call refresh()."});
  }
}

/// Raises the versions of all parameters, so that the backward of a graph that has used the old values throws.
void Sharded::Core::mark_changed() {
  for (const NamedTensor& each : parameters_) each.tensor.unsafeGetTensorImpl()->bump_version();
  count_changes();
}

double Sharded::Core::clip_norm(double max) {
  check();
  std::vector<at::Tensor> gradients;
  for (const Slice& each : slices_) {
    if (each.values.grad().defined()) gradients.push_back(each.values.grad());
  }
  double squares = sum_of_squares(on_host(norms_of(gradients)));
  ranks_.all_reduce(std::span{&squares, 1});
  const double norm = std::sqrt(squares);
  if (std::isfinite(norm) && norm > max) multiply(gradients, max / norm);
  return norm;
}

std::string Sharded::Core::table() const {
  constexpr double kMib = 1 << 20;
  std::size_t width = std::string_view{"unit"}.size();
  for (const ShardedUnit& each : units_) width = std::max(width, each.name.size());
  std::ostringstream text;
  text << std::left << std::setw(static_cast<int>(width)) << "unit" << std::right << std::setw(14) << "parameters"
       << std::setw(14) << "whole MiB" << std::setw(10) << "kept MiB" << '\n';
  text << std::fixed << std::setprecision(2);
  std::size_t all_kept = 0;
  for (const ShardedUnit& unit : units_) {
    std::int64_t elements = 0;
    std::size_t kept = 0;
    for (const Shard& each : unit.shards) {
      elements += each.flat.size;
      kept += each.own.nbytes();
    }
    text << std::left << std::setw(static_cast<int>(width)) << unit.name << std::right << std::setw(14) << elements
         << std::setw(14) << static_cast<double>(unit.bytes) / kMib << std::setw(10) << static_cast<double>(kept) / kMib
         << '\n';
    all_kept += kept;
  }
  if (gathering_.reads_in_place()) {
    text << "All ranks read the same memory; each rank keeps " << static_cast<double>(all_kept) / kMib
         << " MiB of it.\n";
  } else {
    text << "Gathered parameters take at most " << static_cast<double>(gathering_.bytes()) / kMib << " MiB, kept parts "
         << static_cast<double>(all_kept) / kMib << " MiB.\n";
  }
  return text.str();
}

// ---- Sharded

Sharded::Sharded(torch::nn::Module& module, const Communicator& ranks, Sharding sharding, const ShardOptions& options)
    : Sharded{module, ranks, ranks, sharding, options} {}
Sharded::Sharded(torch::nn::Module& module, const Communicator& ranks, const Communicator& gpus, Sharding sharding,
                 const ShardOptions& options)
    : core_{std::make_shared<Core>(module, ranks, gpus, sharding, options)} {
  keep_heap();
  core_->attach();
}

Sharded::~Sharded() {
  core_->detach();
}

const std::vector<Sharded::Slice>& Sharded::slices() const {
  return core_->slices();
}
void Sharded::refresh() {
  core_->refresh();
}
std::vector<at::Tensor> Sharded::parameters() const {
  std::vector<at::Tensor> parameters;
  for (const Slice& each : slices()) {
    if (each.values.requires_grad()) parameters.push_back(each.values);
  }
  return parameters;
}
std::vector<ParameterGroup> Sharded::groups(const SettingsOf& settings) const {
  return core_->groups(settings);
}
double Sharded::clip_norm(double max) {
  return core_->clip_norm(max);
}
NoSync Sharded::no_sync() {
  return NoSync{core_->no_syncs()};
}
void Sharded::weigh(double samples) {
  core_->weigh(samples);
}
void Sharded::check() const {
  core_->check();
}
const Sharded::Step& Sharded::last_step() const {
  return core_->last_step();
}
Duration Sharded::waited_for_parameters() const {
  return core_->waited_for_parameters();
}
std::string Sharded::table() const {
  return core_->table();
}

}  // namespace pharos::ml
