#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include <pharos/process/written_stack.hpp>

namespace pharos::process {
namespace {

std::uint8_t module_index(WrittenStack& stack, const char* name) {
  if (name == nullptr) return WrittenStack::kNoModule;
  for (std::uint32_t i = 0; i < stack.modules; ++i) {
    if (std::strncmp(stack.module_names[i], name, sizeof stack.module_names[i] - 1) == 0) {
      return static_cast<std::uint8_t>(i);
    }
  }
  if (stack.modules == WrittenStack::kModulesMax) return WrittenStack::kNoModule;
  copy_text(stack.module_names[stack.modules], name);
  return static_cast<std::uint8_t>(stack.modules++);
}

#if defined(__x86_64__)
// After a call to an address without code, the unwinder cannot start. It can start at the caller, whose return address
// is on top of the stack. Returns true if the context was changed to the caller; write() restores the context later.
bool step_out_of_nowhere(ucontext_t& context) {
  auto& registers = context.uc_mcontext.gregs;
  if (find_module(static_cast<std::uintptr_t>(registers[REG_RIP])).module != nullptr) return false;
  std::uintptr_t back = 0;
  iovec to{&back, sizeof back};
  iovec from{reinterpret_cast<void*>(registers[REG_RSP]), sizeof back};  // NOLINT(performance-no-int-to-ptr)
  // The kernel reads the memory, because an invalid address then gives an error instead of another crash.
  if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != sizeof back) return false;
  if (find_module(back).module == nullptr) return false;
  registers[REG_RIP] = static_cast<greg_t>(back);
  registers[REG_RSP] += 8;
  return true;
}
std::uintptr_t interrupted_code(const ucontext_t& context) {
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}
#else
bool step_out_of_nowhere(ucontext_t&) {
  return false;
}
std::uintptr_t interrupted_code(const ucontext_t&) {
  return 0;
}
#endif

}  // namespace

void WrittenStack::write(ucontext_t& context, const void* outermost) {
  const ucontext_t before = context;
  const bool nowhere = step_out_of_nowhere(context);
  const std::uintptr_t interrupted = interrupted_code(context);
  std::array<StackAddress, kFramesMax + 16> stack;
  const std::size_t count = capture_stack(stack);
  if (nowhere) context = before;
  // The frames of the signal handler come first and are skipped.
  std::size_t first = 0;
  while (first < count && stack[first].code != interrupted) ++first;
  if (first == count) first = 0;
  for (std::size_t i = first; i < count; ++i) {
    if (outermost != nullptr && stack[i].end > reinterpret_cast<std::uintptr_t>(outermost)) return;
    if (depth == kFramesMax) {
      deeper = true;
      return;
    }
    const ModulePlace place = find_module(stack[i].code);
    frames[depth++] = {place.offset, module_index(*this, place.module)};
  }
}

std::vector<Frame> WrittenStack::read(bool with_symbols) const {
  std::vector<Frame> read;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(depth, kFramesMax); ++i) {
    const Place& place = frames[i];
    const ModulePlace where{place.module < modules ? module_names[place.module] : nullptr, place.offset};
    if (!with_symbols) {
      read.push_back(without_symbol(where));
      continue;
    }
    for (Frame& frame : symbolize(where)) read.push_back(std::move(frame));
  }
  return read;
}

void cut_to_users(std::vector<Frame>& frames) {
  const auto of_user = [](const Frame& frame) { return !frame.of_runtime(); };
  const auto innermost = std::find_if(frames.begin(), frames.end(), of_user);
  if (innermost == frames.end()) {
    // The compiler may have inlined the user's function into the function of Pharos that calls it. That function is
    // kept as the outermost frame.
    const auto caller = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
      return !frame.of_pharos() && frame.name.starts_with("_ZN6pharos6detail");
    });
    if (caller != frames.end()) frames.erase(std::next(caller), frames.end());
    return;
  }
  // Cut at the first frame of libpharos.so. This is needed for destructors, which run without a call that would mark
  // where the worker's frames begin.
  frames.erase(std::find_if(innermost, frames.end(), [](const Frame& frame) { return frame.of_pharos(); }),
               frames.end());
  // Cut the frames of Pharos between the worker and the user's outermost function.
  frames.erase(std::find_if(frames.rbegin(), frames.rend(), of_user).base(), frames.end());
}

std::string describe_frames(const std::vector<Frame>& frames) {
  std::string text;
  for (std::size_t i = 0; i < frames.size();) {
    const std::string line = frames[i].to_string();
    const std::size_t first = i;
    while (i < frames.size() && frames[i].to_string() == line) ++i;
    text += "  #" + std::to_string(first) + " " + line;
    if (i - first > 1) text += "  [" + std::to_string(i - first) + " times]";
    text += '\n';
  }
  return text;
}

}  // namespace pharos::process
