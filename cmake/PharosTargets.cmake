# Functions that make targets. Each folder is one target and one namespace; ml/tune alone is two targets.

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
  pharos_compile_together(${target})
  # `cmake --build … --target all_verify_interface_header_sets` compiles each public header alone.
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# With PHAROS_UNITY the compiler reads several source files of the target at once, and each header only once for all of
# them. GCC then takes the anonymous namespace of a source file for one in a header, and warns wrongly.
function(pharos_compile_together target)
  if(PHAROS_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-maybe-uninitialized>")
  endif()
endfunction()

# pharos_whole_library(<target> SOURCES … [NAME <of the file>] [MODULES <target> …] [LINK <library> …])
# Makes a shared library of all that needs no libtorch, and of these modules. It exports only names of the namespace
# pharos.
function(pharos_whole_library target)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;MODULES;LINK" ${ARGN})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/pharos.map)
  add_library(${target} SHARED ${ARG_SOURCES})
  target_link_libraries(${target}
    PRIVATE pharos_flags -Wl,--whole-archive ${ARG_MODULES} pharos_checkpoint pharos_collective pharos_data
    pharos_reports pharos_trainer pharos_tune pharos_tune_results pharos_xgboost pharos_actors pharos_process pharos_base
    -Wl,--no-whole-archive
    PRIVATE ${ARG_LINK} pharos_scheduler pharos_net pharos_object_store pharos_wire pharos_async)
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports} -Wl,--no-undefined)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${exports})
  if(ARG_NAME)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${ARG_NAME})
  endif()
endfunction()

# pharos_shared_library(<target> NAME <of the file> MODULES <target> … LINK <foreign library> …)
# Makes a shared library of whole modules, beside libpharos.so. The library exports only names of the namespace pharos.
# The dependencies of the modules are not linked: of Pharos the modules use only what libpharos.so exports, so that no
# program has a second copy of a module's code or state.
function(pharos_shared_library target)
  cmake_parse_arguments(ARG "" "NAME" "MODULES;LINK" ${ARGN})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/pharos.map)
  list(TRANSFORM ARG_MODULES REPLACE ".+" "$<TARGET_OBJECTS:\\0>" OUTPUT_VARIABLE objects)
  add_library(${target} SHARED ${objects})
  target_link_libraries(${target} PUBLIC pharos ${ARG_LINK})
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports} -Wl,--no-undefined)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${ARG_NAME} LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
  foreach(module IN LISTS ARG_MODULES)
    target_include_directories(${target} INTERFACE
      $<TARGET_GENEX_EVAL:${module},$<TARGET_PROPERTY:${module},INTERFACE_INCLUDE_DIRECTORIES>>)
  endforeach()
endfunction()

# pharos_kernels(<variable> <file.cu> [INCLUDES folder…]): compiles kernels for GPUs, and sets the variable to the object.
# This is not CMake's own language CUDA, with which nvcc would also link each program that uses the library.
function(pharos_kernels variable source)
  cmake_parse_arguments(ARG "" "" "INCLUDES" ${ARGN})
  cmake_path(GET source STEM name)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  list(TRANSFORM ARG_INCLUDES PREPEND -I)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 -Xcompiler=-fPIC,-fvisibility=hidden
            -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
            -I ${CMAKE_CURRENT_SOURCE_DIR}/src ${ARG_INCLUDES}
            -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "Building CUDA object ${object}"
    VERBATIM)
  set(${variable} ${object} PARENT_SCOPE)
endfunction()

# pharos_test(<name> LABEL fast|thorough|cluster|long SOURCES … [DEPS …] [TIMEOUT seconds] [WAITS] [SHARDS n] [TORCH])
# Makes a GoogleTest program and one ctest entry, both called <name>. With SHARDS there are n entries, <name>_1 and so on,
# each of which runs a part of the tests: a long program then does not run alone at the end.
# Tests with the label cluster start clusters and run one at a time, and so do those with the label long. WAITS says that a test mostly waits, for
# deadlines and deaths, so that ctest may run it beside others.
# TORCH says that the sources include <torch/torch.h>.
function(pharos_test name)
  cmake_parse_arguments(ARG "TORCH;WAITS" "LABEL;TIMEOUT;SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  target_link_libraries(${name} PRIVATE pharos_flags ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  pharos_compile_together(${name})
  if(PHAROS_UNITY)  # A name in one file of tests may then hide a name of another file.
    set_target_properties(${name} PROPERTIES PHAROS_NAMES_MAY_HIDE ON)
  endif()
  if(ARG_LABEL STREQUAL "fast")
    add_dependencies(pharos_fast_tests ${name})
  endif()
  if(ARG_TORCH)
    pharos_precompile_tests(${name} pharos_torch_test_pch <torch/torch.h> DEPS pharos_torch_cpu)
  else()
    pharos_precompile_tests(${name} pharos_test_pch)
  endif()
  set(waits "")
  if(ARG_WAITS)
    set(waits WAITS)
  endif()
  if(NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    pharos_describe_test(${name} ${ARG_LABEL} ${ARG_TIMEOUT} ${waits})
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    pharos_describe_test(${name}_${shard} ${ARG_LABEL} ${ARG_TIMEOUT} ${waits})
    set_property(TEST ${name}_${shard} APPEND PROPERTY ENVIRONMENT
      GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# Tests spend their time in the libraries, so the tests themselves are compiled at -O1, in four fifths of the time.
set(pharos_test_optimization $<$<CONFIG:Release>:-O1>)

# Gives a test a precompiled header. All tests share one, and the tests of libtorch share another one. Without it,
# GoogleTest's headers take a second of each test file's compile time, and libtorch's take 25 seconds.
function(pharos_precompile_tests name pch)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  pharos_precompile(${name} ${pch}
    HEADERS <gtest/gtest.h> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <string> <thread> <utility>
            <vector> ${ARG_UNPARSED_ARGUMENTS}
    DEPS GTest::gtest ${ARG_DEPS}
    OPTIONS ${pharos_test_optimization})
endfunction()

# Gives programs that include <torch/torch.h> one precompiled header, which halves their compile time.
function(pharos_precompile_torch)
  foreach(name IN LISTS ARGN)
    pharos_precompile(${name} pharos_torch_pch HEADERS <torch/torch.h> DEPS pharos_torch_cpu)
  endforeach()
endfunction()

# Gives <target> the precompiled header <pch>, and makes it if this is its first user. With it, GCC 12 does not know that
# the headers of the standard library are system headers, and shows its false warnings about copies of std::string.
function(pharos_precompile target pch)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS;OPTIONS" ${ARGN})
  if(NOT TARGET ${pch})
    add_executable(${pch} EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
    target_link_libraries(${pch} PRIVATE pharos_flags ${ARG_DEPS})
    set_target_properties(${pch} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_precompile_headers(${pch} PRIVATE ${ARG_HEADERS})
    target_compile_options(${pch} PRIVATE ${ARG_OPTIONS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  target_compile_options(${target} PRIVATE
    ${ARG_OPTIONS} "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-stringop-overflow;-Wno-array-bounds>")
endfunction()

# Sets the label and the timeout of a ctest entry, how much of the machine it takes, and how the sanitizers report.
# ./test gives ctest two slots for each CPU. A test takes the two slots of one CPU; one that WAITS takes one slot.
function(pharos_describe_test name label timeout)
  if(PHAROS_SANITIZE)
    math(EXPR timeout "4 * ${timeout}")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout})
  if("WAITS" IN_LIST ARGN)
    set_tests_properties(${name} PROPERTIES PROCESSORS 1)
  elseif(label MATCHES "^(fast|thorough)$")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  else()
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  # RocksDB, libtorch and the other libraries are not instrumented; thread_sanitizer.txt says what follows. Workers that crash on purpose must die of the
  # signal, and workers that end must not wait for late reports.
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/thread_sanitizer.txt:ignore_noninstrumented_modules=1:die_after_fork=0:second_deadlock_stack=1:atexit_sleep_ms=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0;ASAN_OPTIONS=handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

# pharos_fuzzer(<name> SOURCES … [DEPS …] [CORPUS folder])
# Makes a libFuzzer program if PHAROS_FUZZ is on (the fuzz preset, with clang). Its ctest entry fuzzes for
# PHAROS_FUZZ_SECONDS, starting from the files of CORPUS.
function(pharos_fuzzer name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  if(NOT PHAROS_FUZZ)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE pharos_flags ${ARG_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  set(found ${CMAKE_BINARY_DIR}/fuzz/${name}.found)
  file(MAKE_DIRECTORY ${found})
  if(ARG_CORPUS)
    get_filename_component(ARG_CORPUS ${ARG_CORPUS} ABSOLUTE)
  endif()
  add_test(NAME ${name} COMMAND ${name} -max_total_time=${PHAROS_FUZZ_SECONDS} -timeout=5 -rss_limit_mb=1024
                                -artifact_prefix=${found}/ ${found} ${ARG_CORPUS})
  math(EXPR timeout "${PHAROS_FUZZ_SECONDS} + 60")
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
  add_dependencies(pharos_fuzzers ${name})
endfunction()

# pharos_programs_in(<folder> …)
# Makes the target pharos_programs: every executable of these folders, and the libraries that they load, but no test.
function(pharos_programs_in)
  add_custom_target(pharos_programs)
  foreach(folder IN LISTS ARGN)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "EXECUTABLE")
        add_dependencies(pharos_programs ${target})
      endif()
    endforeach()
  endforeach()
endfunction()
