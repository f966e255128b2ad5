#include "parallel/units.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <pharos/actors/exceptions.hpp>

namespace pharos::ml {
namespace {

constexpr std::int64_t kPieceElements = 16;  // each rank's piece begins at a new cache line

std::size_t bytes_of(const torch::nn::Module& module) {
  std::size_t bytes = 0;
  for (const NamedTensor& each : parameters_of(module)) bytes += each.tensor.nbytes();
  return bytes;
}

bool is_list(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::ModuleListImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::SequentialImpl*>(&module) != nullptr;
}

[[noreturn]] void throw_invalid(const std::string& what, const std::string& hint) {
  throw_error(Error{ErrorCode::kInvalidArgument, what, hint});
}

/// The names of the blocks, and the block to which each module of the tree belongs.
class Blocks {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Blocks(const torch::nn::Module& module, const Modules& blocks) : names_(blocks.size()) {
    std::unordered_map<const torch::nn::Module*, std::string> names{{&module, "the module"}};
    for (const auto& item : module.named_modules("", false)) names.emplace(item.value().get(), item.key());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto found = names.find(blocks[i].get());
      if (found == names.end()) {
        throw_invalid("block " + std::to_string(i) + " of ShardOptions::blocks is not in the module",
                      "Give submodules of the module that is sharded.");
      }
      names_[i] = found->second;
      add(*blocks[i], i);
    }
  }

  const std::string& name(std::size_t block) const { return names_[block]; }
  std::size_t of(const torch::nn::Module& module) const {
    const auto found = of_.find(&module);
    return found == of_.end() ? kNone : found->second;
  }

 private:
  void add(const torch::nn::Module& block, std::size_t number) {
    const auto own = [&](const torch::nn::Module& each) {
      const auto [place, is_new] = of_.emplace(&each, number);
      if (is_new || place->second == number) return;
      throw_invalid(
          "the blocks \"" + names_[place->second] + "\" and \"" + names_[number] + "\" have modules in common",
          "Give blocks that do not lie inside of each other.");
    };
    own(block);
    for (const auto& each : block.modules(false)) own(*each);
  }

  std::vector<std::string> names_;
  std::unordered_map<const torch::nn::Module*, std::size_t> of_;
};

/// The block that owns each tensor; Blocks::kNone for a tensor outside of all blocks, or in several.
std::unordered_map<const void*, std::size_t> owners_of(const torch::nn::Module& module, const Blocks& blocks) {
  std::unordered_map<const void*, std::size_t> owners;
  const auto look_at = [&](const torch::nn::Module& each) {
    for (const auto& item : each.named_parameters(false)) {
      if (!item.value().defined()) continue;
      const std::size_t block = blocks.of(each);
      const auto [place, is_new] = owners.emplace(item.value().unsafeGetTensorImpl(), block);
      if (!is_new && place->second != block) place->second = Blocks::kNone;
    }
  };
  look_at(module);
  for (const auto& each : module.modules(false)) look_at(*each);
  return owners;
}

void add(Unit& unit, std::size_t number, const at::Tensor& parameter) {
  const auto same = [&](const Flat& flat) {
    return flat.type == parameter.scalar_type() && flat.is_trained == parameter.requires_grad();
  };
  auto flat = std::find_if(unit.flats.begin(), unit.flats.end(), same);
  if (flat == unit.flats.end()) {
    unit.flats.push_back({.type = parameter.scalar_type(), .is_trained = parameter.requires_grad()});
    flat = unit.flats.end() - 1;
  }
  flat->members.push_back({number, flat->size, parameter.numel()});
  flat->size += parameter.numel();
}

/// The list or sequence inside of the module that has most bytes; of equal ones the one with most children. nullptr if
/// there is no list.
const torch::nn::Module* largest_list_in(const torch::nn::Module& module) {
  const torch::nn::Module* largest = nullptr;
  std::size_t most = 0;
  for (const auto& each : module.modules(false)) {
    if (!is_list(*each)) continue;
    const std::size_t bytes = bytes_of(*each);
    if (largest != nullptr &&
        (bytes < most || (bytes == most && each->children().size() <= largest->children().size()))) {
      continue;
    }
    largest = each.get();
    most = bytes;
  }
  return largest;
}

/// The bytes that are gathered at the same time, in a module of `all` bytes, if the children of the list are the units:
/// all parameters outside of the list, and memory for the units that are in use.
std::size_t at_once(std::size_t all, const torch::nn::Module& list) {
  std::size_t largest = 0;
  for (const auto& each : list.children()) largest = std::max(largest, bytes_of(*each));
  return all - bytes_of(list) + std::min(kGatheredAtOnce, list.children().size()) * largest;
}

}  // namespace

Modules blocks_of(const torch::nn::Module& module) {
  const std::size_t all = bytes_of(module);
  const torch::nn::Module* list = is_list(module) ? &module : largest_list_in(module);
  if (list == nullptr) return module.children();
  for (const auto* inner = largest_list_in(*list); inner != nullptr; inner = largest_list_in(*list)) {
    const bool is_most_of_it = 2 * bytes_of(*inner) > bytes_of(*list);
    if (!is_most_of_it || at_once(all, *inner) >= at_once(all, *list)) break;
    list = inner;
  }
  return list->children();
}

std::vector<Unit> units_of(const torch::nn::Module& module, std::span<const NamedTensor> parameters,
                           const Modules& blocks, std::uint32_t ranks) {
  const Blocks known{module, blocks};
  const auto owners = owners_of(module, known);
  std::vector<Unit> units(blocks.size());
  for (std::size_t i = 0; i < units.size(); ++i) units[i].name = known.name(i);
  Unit rest{.name = "all others", .is_rest = true};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t owner = owners.at(parameters[i].tensor.unsafeGetTensorImpl());
    add(owner == Blocks::kNone ? rest : units[owner], i, parameters[i].tensor);
  }
  units.push_back(std::move(rest));
  std::erase_if(units, [](const Unit& each) { return each.flats.empty(); });
  const std::int64_t step = ranks * kPieceElements;
  for (Unit& unit : units) {
    for (Flat& flat : unit.flats) flat.piece = (flat.size + step - 1) / step * kPieceElements;
  }
  return units;
}

}  // namespace pharos::ml
