#include "function_table.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/wire/message.hpp>

namespace pharos {
namespace actors {
namespace {

// The registry of user functions: the one thing that is of the process, because static initialisers fill it.
struct Table {
  std::mutex mutex;
  std::deque<detail::RegisteredFunction> registered;  // addresses stay
  std::vector<detail::Function> sorted;
  bool fixed = false;
  std::optional<Error> failure;
};

Table& table() {
  static auto* const instance = new Table;  // never destroyed: workers and static destructors may still look
  return *instance;
}

/// Two functions of one name. What has one definition in the whole program may be registered by several of its
/// libraries; what is static or in an anonymous namespace is another thing in each file.
bool differ(const detail::Function& a, const detail::Function& b) {
  const std::string_view name = a.name;
  const bool of_one_file =
      name.find("_GLOBAL__N_") != std::string_view::npos || name.find("_ZL") != std::string_view::npos;
  return of_one_file && (a.call != b.call || a.construct != b.construct);
}

std::optional<Error> sort(Table& t) {
  std::vector<detail::RegisteredFunction*> order;
  for (auto& entry : t.registered) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return std::strcmp(a->function.name, b->function.name) < 0; });
  for (auto* const entry : order) {
    if (!t.sorted.empty() && std::strcmp(t.sorted.back().name, entry->function.name) == 0) {
      if (differ(t.sorted.back(), entry->function)) {
        return Error{ErrorCode::kAlreadyExists,
                     "two functions of this program are called " + readable_name(entry->function.name),
                     "What workers run needs a name of its own: rename one of the two, or put it into a namespace that "
                     "has a name."};
      }
    } else {
      t.sorted.push_back(entry->function);
    }
    entry->index = static_cast<std::uint32_t>(t.sorted.size() - 1);
  }
  return std::nullopt;
}

/// Of a template's first argument, the outermost template's.
std::size_t first_argument_end(std::string_view name) {
  int depth = 0;
  for (std::size_t i = name.find('<') + 1; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(') ++depth;
    if (depth == 0 && (name[i] == ',' || name[i] == '>')) return i;
    if (name[i] == '>' || name[i] == ')') --depth;
  }
  return name.size();
}

}  // namespace

Result<void> fix_function_table() {
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  if (!t.fixed) {
    t.fixed = true;
    t.failure = sort(t);
  }
  if (t.failure) return *t.failure;
  return {};
}

std::span<const detail::Function> function_table() {
  return table().sorted;
}

std::uint32_t function_index(const char* mangled) {
  const auto& sorted = table().sorted;
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), mangled,
                       [](const auto& function, const char* name) { return std::strcmp(function.name, name) < 0; });
  if (found == sorted.end() || std::strcmp(found->name, mangled) != 0) return wire::kNoFunction;
  return static_cast<std::uint32_t>(found - sorted.begin());
}

std::string readable_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    &std::free};
  std::string name = status == 0 ? text.get() : mangled;
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous)) {
    name.erase(at, kAnonymous.size());
  }
  // "pharos::detail::MethodTag<Counter, &Counter::add>" is for the table; people know "Counter::add".
  if (name.starts_with("pharos::detail::ConstructorTag<")) {
    return "the constructor of " + name.substr(name.find('<') + 1, first_argument_end(name) - name.find('<') - 1);
  }
  const std::size_t function = name.rfind('&');
  const bool is_tag = name.starts_with("pharos::detail::Tag<") || name.starts_with("pharos::detail::MethodTag<");
  if (!is_tag || function == std::string::npos) return name;
  name = name.substr(function + 1, name.size() - function - 2);
  if (name.starts_with('(') && name.ends_with(')')) name = name.substr(1, name.size() - 2);
  return name;
}

}  // namespace actors

namespace detail {

RegisteredFunction* register_function(const Function& function) {
  actors::Table& t = actors::table();
  const std::lock_guard lock{t.mutex};
  // After the table is fixed the entry keeps no index, and calling it is an error that says so: workers, forked from a
  // process that has not loaded this library, do not have it.
  return &t.registered.emplace_back(RegisteredFunction{.function = function});
}

void throw_bad_arguments() {
  throw_error(Error{ErrorCode::kInvalidArgument, "the arguments that arrived are not those of the function",
                    "Caller and worker must be the same build."}
                  .with_outcome(Outcome::kNotStarted));
}

}  // namespace detail
}  // namespace pharos
