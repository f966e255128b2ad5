#include "module/parameters.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <sstream>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

template <class Items>
std::vector<NamedTensor> once(const Items& items) {
  std::vector<NamedTensor> all;
  std::unordered_set<const void*> seen;
  for (const auto& item : items) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    all.push_back({item.key(), item.value()});
  }
  return all;
}

std::string describe(const NamedTensor& each) {
  std::ostringstream text;
  text << '"' << each.name << "\" " << each.tensor.scalar_type() << ' ' << each.tensor.sizes();
  if (!each.tensor.is_contiguous()) text << " with strides " << each.tensor.strides();
  if (!each.tensor.requires_grad()) text << " frozen";
  return text.str();
}

std::string describe(const std::vector<NamedTensor>& tensors) {
  std::string text;
  for (const NamedTensor& each : tensors) text += describe(each) + '\n';
  return text;
}

/// The texts of all ranks, by rank.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text) {
  std::vector<std::int64_t> sizes(ranks.size());
  const auto own = static_cast<std::int64_t>(text.size());
  ranks.all_gather(std::span{&own, 1}, std::span{sizes});
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::byte> padded(longest);
  std::transform(text.begin(), text.end(), padded.begin(), [](char each) { return static_cast<std::byte>(each); });
  std::vector<std::byte> all(longest * ranks.size());
  ranks.all_gather(std::span<const std::byte>{padded}, std::span{all});
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data()) + rank * longest,
                       static_cast<std::size_t>(sizes[rank]));
  }
  return texts;
}

/// The first line in which the texts differ, from each of them.
std::pair<std::string, std::string> first_lines_that_differ(const std::string& one, const std::string& other) {
  std::istringstream ones{one};
  std::istringstream others{other};
  for (;;) {
    std::string a = "nothing more";
    std::string b = a;
    if (std::string line; std::getline(ones, line)) a = line;
    if (std::string line; std::getline(others, line)) b = line;
    if (a != b) return {a, b};
  }
}

}  // namespace

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  return once(module.named_parameters());
}
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module) {
  return once(module.named_buffers());
}

void check_alike(Communicator& ranks, const std::vector<NamedTensor>& tensors) {
  const auto difference = first_difference(ranks, describe(tensors));
  if (!difference) return;
  throw_error(Error{ErrorCode::kInvalidArgument, "ranks have different modules: " + *difference,
                    "Make the same module on all ranks."});
}

std::optional<std::string> first_difference(Communicator& ranks, const std::string& text) {
  const auto texts = gather_texts(ranks, text);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto [first, other] = first_lines_that_differ(texts[0], texts[rank]);
    return "rank 0 has " + first + " where rank " + std::to_string(rank) + " has " + other;
  }
  return std::nullopt;
}

void check_devices(const Communicator& ranks, const Communicator& data, std::span<const NamedTensor> tensors,
                   const std::string& example) {
  if (ranks.is_on_gpu()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the first communicator works on GPUs",
                      "Give both communicators: " + example + '.'});
  }
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_cpu() != data.is_on_gpu()) continue;
    throw_error(Error{ErrorCode::kInvalidArgument, '"' + name + "\" is on " + tensor.device().str(),
                      data.is_on_gpu() ? "Move the module to the GPU that the communicator was made for."
                                       : "Pass the communicator that on_gpu() returned, as in " + example +
                                             ", or move the module to the CPU."});
  }
}

void on_all(Communicator& ranks, const std::function<void()>& work) {
  std::optional<Error> own;
  std::exception_ptr thrown;
  try {
    work();
  } catch (const Exception& error) {
    own = error.error();
    thrown = std::current_exception();
  } catch (const std::exception& error) {  // of libtorch, or there is no memory
    own = Error{ErrorCode::kInternal, error.what()};
    thrown = std::current_exception();
  }
  constexpr std::int64_t kNone = -1;
  const std::int64_t code = own ? static_cast<std::int64_t>(own->code()) : kNone;
  std::vector<std::int64_t> codes(ranks.size());
  ranks.all_gather(std::span{&code, 1}, std::span{codes});
  const auto first = std::ranges::find_if(codes, [](std::int64_t each) { return each != kNone; });
  if (first == codes.end()) return;
  const auto rank = static_cast<std::size_t>(first - codes.begin());
  const std::vector<std::string> texts = gather_texts(ranks, own ? own->to_string() : "");
  if (thrown) std::rethrow_exception(thrown);
  throw_error(Error{static_cast<ErrorCode>(*first), "rank " + std::to_string(rank) + ": " + texts[rank]});
}

void broadcast(Communicator& ranks, const std::vector<NamedTensor>& tensors, std::uint32_t root) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& each : tensors) {
    const at::Tensor dense = each.tensor.contiguous();
    ranks.broadcast(bytes_of(dense), root);
    if (!dense.is_same(each.tensor)) each.tensor.copy_(dense);
    // By the version an optimizer that keeps a float copy on a GPU learns that the parameter was written to.
    if (each.tensor.requires_grad()) each.tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace pharos::ml
