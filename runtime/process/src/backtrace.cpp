#include <backtrace.h>
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <pharos/base/demangle.hpp>
#include <pharos/process/backtrace.hpp>

namespace pharos::process {
namespace {

struct Capture {
  std::span<StackAddress> to;
  std::size_t count = 0;
  bool began = false;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* into) {
  auto& capture = *static_cast<Capture*>(into);
  if (!std::exchange(capture.began, true)) return _URC_NO_REASON;  // the frame of capture_stack() itself
  int exact = 0;  // not 0 for a fault; 0 for a return address, which may already belong to the next line or function
  const std::uintptr_t code = _Unwind_GetIPInfo(context, &exact);
  // The unwinder gives the begin of this function's stack frame, which is the end of the previous function's frame.
  if (capture.count != 0) capture.to[capture.count - 1].end = _Unwind_GetCFA(context);
  if (code == 0 || capture.count == capture.to.size()) return _URC_END_OF_STACK;
  capture.to[capture.count++] = {exact != 0 ? code : code - 1, UINTPTR_MAX};
  return _URC_NO_REASON;
}

// Shared by all threads, and never freed. Files that it cannot read have no names.
backtrace_state* symbols() {
  static backtrace_state* const state = ::backtrace_create_state(
      "/proc/self/exe", 1, [](void*, const char*, int) {}, nullptr);
  return state;
}

// GCC puts the body of a coroutine f into a separate function, "f(f()::_Z1fv.Frame*) [clone .actor]". This function
// returns the name of f.
std::string readable(const char* function) {
  std::string text = demangled(function);
  const std::size_t end = text.find(".Frame*)");
  const std::size_t scope = end == std::string::npos ? end : text.rfind("::_Z", end);
  return scope == std::string::npos ? text : demangled(text.substr(scope + 2, end - scope - 2).c_str());
}

void set_name(Frame& frame, const char* function) {
  frame.name = function;
  frame.function = readable(function);
}

int add_symbol(void* into, std::uintptr_t, const char* file, int line, const char* function) {
  if (function == nullptr && file == nullptr) return 0;
  auto& frames = *static_cast<std::vector<Frame>*>(into);
  Frame frame;
  if (function != nullptr) set_name(frame, function);
  if (file != nullptr) frame.file = file;
  frame.line = line;
  frames.push_back(std::move(frame));
  return 0;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [text](std::string_view beginning) { return text.starts_with(beginning); });
}

// Debug information has lines and inlined functions, but the names of functions with internal linkage lack scope and
// parameters there. The symbol table has full names, but only for the outermost function, into which the others were
// inlined. So the outermost frame gets its name from the symbol table.
std::vector<Frame> symbolize(const ModulePlace& place, std::uintptr_t address) {
  std::vector<Frame> frames;
  if (address != 0 && symbols() != nullptr) {
    constexpr auto kIgnore = [](void*, const char*, int) {};
    ::backtrace_pcinfo(symbols(), address, &add_symbol, kIgnore, &frames);
    if (frames.empty() || !std::string_view{frames.back().name}.starts_with("_Z")) {
      ::backtrace_syminfo(
          symbols(), address,
          [](void* into, std::uintptr_t code, const char* name, std::uintptr_t, std::uintptr_t) {
            auto& found = *static_cast<std::vector<Frame>*>(into);
            if (found.empty()) {
              add_symbol(into, code, nullptr, 0, name);
            } else if (name != nullptr) {
              set_name(found.back(), name);
            }
          },
          kIgnore, &frames);
    }
  }
  if (frames.empty()) frames.push_back(without_symbol(place));
  for (Frame& frame : frames) frame.module = place.module == nullptr ? "" : place.module;
  return frames;
}

struct LoadedAt {
  std::string_view module;
  std::uintptr_t address = 0;
  bool found = false;
};

}  // namespace

[[gnu::noinline]] std::size_t capture_stack(std::span<StackAddress> to) {
  Capture capture{to};
  _Unwind_Backtrace(&add_frame, &capture);
  return capture.count;
}

ModulePlace find_module(std::uintptr_t address) {
  dl_find_object object{};
  if (::_dl_find_object(reinterpret_cast<void*>(address), &object) != 0) return {nullptr, address};
  return {object.dlfo_link_map->l_name, address - object.dlfo_link_map->l_addr};
}

std::string Frame::to_string() const {
  if (file.empty()) return function;
  return function + " at " + std::string{base_name(file)} + ":" + std::to_string(line);
}

bool Frame::of_pharos() const {
  return base_name(module).starts_with("libpharos.so");
}

bool Frame::of_runtime() const {
  if (of_pharos() || starts_with_any(base_name(module), {"libc.so", "libstdc++.so", "libgcc_s.so", "ld-linux",
                                                         "linux-vdso", "libasan.so", "libtsan.so", "libubsan.so"})) {
    return true;
  }
  std::string_view scope = name;
  if (starts_with_any(scope, {"_Unwind_", "__cxa_"})) return true;
  if (!scope.starts_with("_Z")) return false;
  scope.remove_prefix(2);
  // These letters mark a local class or lambda, a nested name, and a const method.
  while (starts_with_any(scope, {"Z", "N", "K"})) scope.remove_prefix(1);
  return starts_with_any(scope, {"St", "Sa", "Ss", "9__gnu_cxx", "10__cxxabiv1", "6pharos6detail", "6pharos6actors"});
}

Frame without_symbol(const ModulePlace& place) {
  char offset[32];
  std::snprintf(offset, sizeof offset, "+%#zx", place.offset);
  Frame frame;
  frame.module = place.module == nullptr ? "" : place.module;
  frame.function = place.module == nullptr ? "no code"
                   : frame.module.empty()  ? "the program"
                                           : std::string{base_name(frame.module)};
  frame.function += offset;
  return frame;
}

std::vector<Frame> symbolize(std::uintptr_t address) {
  return symbolize(find_module(address), address);
}

std::vector<Frame> symbolize(const ModulePlace& place) {
  if (place.module == nullptr) return symbolize(place, 0);
  LoadedAt loaded{place.module};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* into) {
        auto& wanted = *static_cast<LoadedAt*>(into);
        wanted.found = wanted.module == object->dlpi_name;
        wanted.address = object->dlpi_addr;
        return wanted.found ? 1 : 0;
      },
      &loaded);
  return symbolize(place, loaded.found ? loaded.address + place.offset : 0);
}

}  // namespace pharos::process
