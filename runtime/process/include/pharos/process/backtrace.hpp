#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Stack traces in two steps: the addresses of a stack are captured cheaply, and later turned into function names.
namespace pharos::process {

/// One function on a stack: the address of its call or fault, and the upper end of its stack frame. The frames of its
/// callers are above that end.
struct StackAddress {
  std::uintptr_t code = 0;
  std::uintptr_t end = 0;
};

/// Captures the calling thread's stack, innermost function first, starting with the caller of capture_stack(). In a
/// signal handler the capture continues into the interrupted code. Takes no lock and no memory, except that the first
/// call in a process may load the unwinder. A broken stack may make the call crash or not end. Returns the number of
/// addresses, at most the size of `to`. Any thread.
std::size_t capture_stack(std::span<StackAddress> to);

/// A code address as an offset in a loaded file. `module` is valid as long as the file is loaded. Another process may
/// have the same file loaded at another address.
struct ModulePlace {
  const char* module = nullptr;  ///< path of the file; "" for the program itself; null if no code is at the address
  std::uintptr_t offset = 0;     ///< offset in the file; the address itself if `module` is null
};
/// Finds the loaded file that contains the address. Takes no lock and no memory.
ModulePlace find_module(std::uintptr_t address);

/// A function on a stack. Where functions were inlined into each other, several frames have the same address.
struct Frame {
  std::string name;      ///< mangled name; empty if the file does not have it
  std::string function;  ///< readable name
  std::string file;      ///< source file; empty without debug information
  int line = 0;
  std::string module;

  /// "step(int) at model.cpp:31", or "libm.so.6+0x1f3a0" without a name.
  std::string to_string() const;
  /// Returns true if the function is in libpharos.so.
  bool of_pharos() const;
  /// Returns true for functions of Pharos and of the C and C++ libraries, which are neither the user's own code nor a
  /// library that the user chose.
  bool of_runtime() const;
};

/// Finds the functions at an address, innermost first; at least one frame. The first call reads the symbols of all
/// loaded files, which takes milliseconds, or a second if many files are loaded. It keeps them until the process ends,
/// and files that are loaded later have no names. Never fails: without symbols it returns file and offset. Any thread,
/// but not in a signal handler.
std::vector<Frame> symbolize(std::uintptr_t address);
/// The same for a place in a file. Returns no function names if this process has not loaded the file.
std::vector<Frame> symbolize(const ModulePlace& place);
/// Makes a frame of file and offset only, without reading symbols.
Frame without_symbol(const ModulePlace& place);

}  // namespace pharos::process
