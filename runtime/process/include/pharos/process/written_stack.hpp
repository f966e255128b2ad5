#pragma once

#include <sys/ucontext.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/process/backtrace.hpp>

namespace pharos::process {

/// A stack for another process, which has the same files loaded elsewhere: written by a signal handler.
struct WrittenStack {
  static constexpr std::size_t kFramesMax = 64;
  static constexpr std::size_t kModulesMax = 24;
  static constexpr std::uint8_t kNoModule = 0xff;

  struct Place {
    std::uint64_t offset;
    std::uint8_t module;
  };
  std::uint32_t depth = 0;
  bool deeper = false;  ///< there were more
  Place frames[kFramesMax] = {};
  std::uint32_t modules = 0;
  char module_names[kModulesMax][256] = {};

  /// What the signal interrupted, down to where stacks begin that say nothing about the user's code; null: all. Takes
  /// no lock and no memory.
  void write(ucontext_t& context, const void* outermost);
  /// Innermost first.
  std::vector<Frame> read(bool with_symbols) const;
};

/// Without what Pharos put between the process's begin and the user's function, and of what lies further in all.
void cut_to_users(std::vector<Frame>& frames);
/// A line each, "  #0 step(int) at model.cpp:31".
std::string describe_frames(const std::vector<Frame>& frames);

/// As much as fits, and a zero.
template <std::size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::size_t i = 0;
  for (; from != nullptr && i + 1 < N && from[i] != '\0'; ++i) to[i] = from[i];
  to[i] = '\0';
}

}  // namespace pharos::process
