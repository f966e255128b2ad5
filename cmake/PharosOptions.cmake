# The options of the build, and the flags with which every target of this tree is built.

option(PHAROS_TESTS "Build the tests" ON)
set(PHAROS_SANITIZE "" CACHE STRING "address, thread, or nothing")
option(PHAROS_UNITY "Compile the source files of a library several at a time: half the build time" OFF)
option(PHAROS_FUZZ "Build the fuzzers, with clang: see the fuzz preset" OFF)
set(PHAROS_FUZZ_SECONDS 60 CACHE STRING "How long ctest runs each fuzzer")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# Programs that keep records load a library from there.
set(CMAKE_BUILD_RPATH ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Messages name source files by their path in this tree. So the same tree gives the same objects in every folder, and
# ccache finds them for another clone.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

# GCC looks for memory that it can use again only when it has this much (KiB). By default it does so far more often, and
# that takes a sixth of its time. A compiler takes 0.25 GiB more for that.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=600000>)

find_program(PHAROS_CCACHE ccache)
if(PHAROS_CCACHE)
  # With this sloppiness and GCC's -fpch-preprocess, ccache also caches objects that are built with a precompiled
  # header. ccache takes paths below the source folder as relative paths, so that two clones of the same tree share its
  # cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${PHAROS_CCACHE})
endif()

find_package(Threads REQUIRED)

# Flags for the code of this tree. Programs that use Pharos get none of them.
# -Wno-restrict: GCC 12 warns wrongly about copies inside std::string (GCC's bug 105651).
add_library(pharos_flags INTERFACE)
target_compile_options(pharos_flags INTERFACE -Wall -Wextra -Wconversion
                                              $<$<NOT:$<BOOL:$<TARGET_PROPERTY:PHAROS_NAMES_MAY_HIDE>>>:-Wshadow> -Werror
                                              $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -fvisibility=hidden
                                              -fvisibility-inlines-hidden -fno-omit-frame-pointer)
target_link_libraries(pharos_flags INTERFACE Threads::Threads)

# -Wno-maybe-uninitialized: with a sanitizer, GCC 12 warns wrongly that members of a variant are uninitialized.
if(PHAROS_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=address,undefined)
elseif(PHAROS_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -Wno-tsan
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=thread)
elseif(PHAROS_SANITIZE)
  message(FATAL_ERROR "PHAROS_SANITIZE is \"${PHAROS_SANITIZE}\"; it may be address or thread")
endif()

if(PHAROS_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PHAROS_FUZZ=ON takes clang, for libFuzzer: use the fuzz preset, or set CMAKE_CXX_COMPILER")
  endif()
  # Clang 14 cannot build coroutines with the sanitizer that checks calls through function pointers.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=function)
endif()

# Clang before 17 supports C++20's coroutines but does not define this macro, and the standard library's header asks for
# the macro.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  add_compile_definitions(__cpp_impl_coroutine=201902L)
endif()
