# What can be chosen, and the flags that every target of ours is built with.

option(PHAROS_TESTS "Build the tests" ON)
set(PHAROS_SANITIZE "" CACHE STRING "address, thread, or nothing")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(PHAROS_CCACHE ccache)
if(PHAROS_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PHAROS_CCACHE})
endif()

find_package(Threads REQUIRED)

# Flags of our own code; programs that use Pharos get none of them.
add_library(pharos_flags INTERFACE)
target_compile_options(pharos_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror -fvisibility=hidden
                                              -fvisibility-inlines-hidden -fno-omit-frame-pointer)
target_link_libraries(pharos_flags INTERFACE Threads::Threads)

if(PHAROS_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(PHAROS_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -Wno-tsan)
  add_link_options(-fsanitize=thread)
elseif(PHAROS_SANITIZE)
  message(FATAL_ERROR "PHAROS_SANITIZE is \"${PHAROS_SANITIZE}\"; it may be address or thread")
endif()
