#include "program/function_table.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/demangle.hpp>
#include <pharos/wire/message.hpp>

namespace pharos {
namespace actors {
namespace {

// The registry of user functions. It is global to the process, because static initialisers fill it.
struct Table {
  std::mutex mutex;
  std::deque<detail::RegisteredFunction> registered;  // a deque, so that the addresses of entries stay valid
  std::vector<detail::Function> sorted;
  bool fixed = false;
};

Table& table() {
  static auto* const instance = new Table;  // never destroyed: workers and static destructors may still read it
  return *instance;
}

// The sorted table once it is fixed, else empty. A constant-initialised variable, which is read without a function
// call, because every call of a user's function reads it.
constinit std::span<const detail::Function> fixed_table;

// Functions that are static or in an anonymous namespace may have the same name in several files; the types of their
// tags tell them apart. A function with one definition in the whole program becomes one entry, even if several
// libraries have registered it.
void sort(Table& t) {
  std::vector<detail::RegisteredFunction*> order;
  for (auto& entry : t.registered) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::strcmp(a->function.name(), b->function.name()) < 0;
  });
  std::size_t of_this_name = 0;  // index in `sorted` of the first function with the current name
  for (auto* const entry : order) {
    if (t.sorted.empty() || std::strcmp(t.sorted.back().name(), entry->function.name()) != 0) {
      of_this_name = t.sorted.size();
    }
    const auto same = std::find_if(t.sorted.begin() + static_cast<std::ptrdiff_t>(of_this_name), t.sorted.end(),
                                   [&](const auto& other) { return *other.tag == *entry->function.tag; });
    entry->index = static_cast<std::uint32_t>(same - t.sorted.begin());
    if (same == t.sorted.end()) t.sorted.push_back(entry->function);
  }
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

// Returns the end of the template argument that begins at `at`: the next comma, or the bracket that closes the list.
std::size_t end_of_argument(std::string_view name, std::size_t at) {
  int depth = 0;
  for (; at < name.size(); ++at) {
    const char c = name[at];
    if (depth == 0 && (c == ',' || c == '>')) break;
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  return at;
}

// The compiler writes "std::vector<int, std::allocator<int> >" where people write "std::vector<int>".
void leave_out_defaults(std::string& name) {
  constexpr std::string_view kString =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (std::size_t at = name.find(kString); at != std::string::npos; at = name.find(kString, at)) {
    name.replace(at, kString.size(), "std::string");
  }
  constexpr std::string_view kAllocator = ", std::allocator<";
  for (std::size_t at = name.find(kAllocator); at != std::string::npos; at = name.find(kAllocator, at)) {
    const std::size_t end = end_of_argument(name, at + 2);
    name.erase(at, end - at);
  }
  erase_all(name, "__cxx11::");
}

}  // namespace

void fix_function_table() {
  Table& t = table();
  const std::lock_guard lock{t.mutex};
  if (std::exchange(t.fixed, true)) return;
  sort(t);
  fixed_table = t.sorted;
}

std::span<const detail::Function> function_table() {
  return fixed_table;
}

const detail::Function* exception_types(std::uint32_t index) {
  const auto functions = function_table();
  const bool are_types = index < functions.size() && functions[index].kind == detail::FunctionKind::kExceptionTypes;
  return are_types ? &functions[index] : nullptr;
}

std::uint32_t function_index(const char* mangled) {
  const auto sorted = function_table();
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), mangled,
                       [](const auto& function, const char* name) { return std::strcmp(function.name(), name) < 0; });
  if (found == sorted.end() || std::strcmp(found->name(), mangled) != 0) return wire::kNoFunction;
  return static_cast<std::uint32_t>(found - sorted.begin());
}

std::string readable_name(const char* mangled) {
  std::string name = demangled(mangled);
  erase_all(name, "(anonymous namespace)::");
  leave_out_defaults(name);
  // The table has "pharos::detail::MethodTag<Counter, &Counter::add>" where people write "Counter::add".
  const auto begin_of = [&](std::string_view tag) { return name.starts_with(tag) ? tag.size() : 0; };
  for (const char* const tag : {"pharos::detail::ConstructorTag<", "pharos::detail::MemberConstructorTag<"}) {
    if (const std::size_t type = begin_of(tag); type != 0) {
      return "the constructor of " + name.substr(type, end_of_argument(name, type) - type);
    }
  }
  if (const std::size_t types = begin_of("pharos::detail::ForeignTag<"); types != 0) {
    return "a foreign method " + name.substr(types, end_of_argument(name, types) - types);
  }
  std::size_t begin = begin_of("pharos::detail::Tag<");
  for (const char* const tag : {"pharos::detail::MethodTag<", "pharos::detail::GroupMethodTag<"}) {
    if (const std::size_t type = begin_of(tag); type != 0) begin = end_of_argument(name, type) + 2;
  }
  if (begin == 0 || begin >= name.size()) return name;
  name = name.substr(begin, name.rfind('>') - begin);
  if (name.starts_with('&')) name.erase(0, 1);
  if (name.starts_with('(') && name.ends_with(')')) name = name.substr(1, name.size() - 2);
  if (name.ends_with("{}")) name.resize(name.size() - 2);
  return name;
}

}  // namespace actors

namespace detail {

RegisteredFunction* register_function(const Function& function) {
  actors::Table& t = actors::table();
  const std::lock_guard lock{t.mutex};
  // A function that is registered after the table is fixed gets no index, and its calls fail with kFunctionNotFound.
  // Workers do not have the function: they are forked from a process that has not loaded its library.
  return &t.registered.emplace_back(RegisteredFunction{.function = function});
}

}  // namespace detail
}  // namespace pharos
