#pragma once

#include <sys/ucontext.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/process/backtrace.hpp>

namespace pharos::process {

/// A stack that a signal handler writes and another process reads. The reader has the same files loaded, possibly at
/// other addresses, so code addresses are stored as offsets in files. Part of a CrashRecord or StackRecord, whose state
/// says when it may be read.
struct WrittenStack {
  static constexpr std::size_t kFramesMax = 64;
  static constexpr std::size_t kModulesMax = 24;
  static constexpr std::uint8_t kNoModule = 0xff;

  struct Place {
    std::uint64_t offset;
    std::uint8_t module;
  };
  std::uint32_t depth = 0;
  bool deeper = false;  ///< the stack had more than kFramesMax frames
  Place frames[kFramesMax] = {};
  std::uint32_t modules = 0;
  char module_names[kModulesMax][256] = {};

  /// Writes the stack of the interrupted code. Frames beyond the address `outermost` are left out, because they are not
  /// about the user's code; null keeps all frames. For a signal handler on the thread of that code. Before the call
  /// `depth` and `modules` must be 0, and `deeper` must be false. Takes no lock and no memory if the process has called
  /// capture_stack() before; the first capture of a process may load the unwinder. A broken stack may make the call
  /// crash or not end.
  void write(ucontext_t& context, const void* outermost);
  /// Returns the frames, innermost first. Never fails: a frame without a name has its file and offset, and code in
  /// files beyond kModulesMax has only the offset.
  std::vector<Frame> read(bool with_symbols) const;
};

/// Removes the frames of Pharos between the start of the process and the user's functions. Keeps all frames that are
/// further in than the user's functions. If no frame is a user's function, the outermost frame that stays is the
/// function in pharos::detail that calls the user's function; if there is none either, all frames stay. This function
/// and the next one cannot fail. describe_crash() and describe_stacks() call them, never in a signal handler.
void cut_to_users(std::vector<Frame>& frames);
/// Returns a line for each frame, "  #0 step(int) at model.cpp:31". Equal frames in a row share a line.
std::string describe_frames(const std::vector<Frame>& frames);

/// Copies as much of a text as fits, and ends it with a zero. A null `from` counts as empty.
template <std::size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::size_t i = 0;
  for (; from != nullptr && i + 1 < N && from[i] != '\0'; ++i) to[i] = from[i];
  to[i] = '\0';
}

}  // namespace pharos::process
