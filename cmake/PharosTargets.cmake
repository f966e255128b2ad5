# One folder, one target, one namespace.

# pharos_library(<name> SOURCES … [HEADERS …] [DEPS …] [PRIVATE_DEPS …])
# Makes pharos_<name>, a static library of position-independent code, from the folder that calls it. `HEADERS` are the
# public ones, below include/. `DEPS` are what the public headers need; a foreign library is always a private one.
function(pharos_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target pharos_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR}/include FILES ${ARG_HEADERS})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE pharos_flags ${ARG_PRIVATE_DEPS})
  # `cmake --build … --target all_verify_interface_header_sets` compiles each public header alone.
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# pharos_test(<name> LABEL fast|cluster|long SOURCES … [DEPS …] [TIMEOUT seconds])
# A GoogleTest program, one ctest entry, called <name>.
function(pharos_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE pharos_flags ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
