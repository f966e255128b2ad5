# Optional parts: the core builds without them. PHAROS_<PART> is AUTO (the part is used if it is found), ON (configuring
# stops if the part is not found) or OFF. PHAROS_HAS_<PART> says whether the part is used. A table at the end of
# configuring lists all parts.

# pharos_part(<PART> FOUND <bool> DETAIL <version or place> MISSING <what is not there, and what to do>)
function(pharos_part part)
  cmake_parse_arguments(ARG "" "FOUND;DETAIL;MISSING" "" ${ARGN})
  set(has OFF)
  if(PHAROS_${part} STREQUAL "OFF")
    set(reason "switched off: PHAROS_${part}=OFF")
  elseif(ARG_FOUND)
    set(has ON)
    set(reason "${ARG_DETAIL}")
  elseif(PHAROS_${part} STREQUAL "AUTO")
    set(reason "${ARG_MISSING}")
  else()
    message(FATAL_ERROR "PHAROS_${part}=ON, but ${ARG_MISSING}")
  endif()
  set(PHAROS_HAS_${part} ${has} PARENT_SCOPE)
  set_property(GLOBAL APPEND PROPERTY PHAROS_PARTS "${part};${has};${reason}")
endfunction()

function(pharos_report_parts)
  get_property(parts GLOBAL PROPERTY PHAROS_PARTS)
  set(table "Optional parts:")
  while(parts)
    list(POP_FRONT parts part has reason)
    string(TOLOWER "${part}" part)
    string(TOLOWER "${has}" has)
    string(SUBSTRING "${part}          " 0 10 part)
    string(APPEND table "\n  ${part}${has} (${reason})")
  endwhile()
  message(NOTICE "${table}")
endfunction()

foreach(part IN ITEMS TORCH XGBOOST CUDA NCCL TESTING)
  set(PHAROS_${part} AUTO CACHE STRING "AUTO, ON or OFF")
  set_property(CACHE PHAROS_${part} PROPERTY STRINGS AUTO ON OFF)
endforeach()

include(PharosTorch)

# Programs that train with XGBoost load it at run time. The build only checks whether the versions for the tests are
# there.
set(PHAROS_XGBOOST_1_7 ${PROJECT_SOURCE_DIR}/third_party/xgboost-1.7.4/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
set(PHAROS_XGBOOST_3_2 ${PROJECT_SOURCE_DIR}/third_party/xgboost-3.2/xgboost/lib)
set(xgboost_found ON)
foreach(library IN ITEMS ${PHAROS_XGBOOST_1_7}/libxgboost.so.0 ${PHAROS_XGBOOST_3_2}/libxgboost.so)
  if(NOT EXISTS ${library})
    set(xgboost_found OFF)
  endif()
endforeach()
pharos_part(XGBOOST FOUND "${xgboost_found}" DETAIL "its tests run with 1.7.4 and 3.2"
            MISSING "third_party has not both versions that its tests load: run tools/setup --tests")

if(NOT PHAROS_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
endif()
pharos_part(CUDA FOUND "${CUDAToolkit_FOUND}" DETAIL "toolkit ${CUDAToolkit_VERSION}"
            MISSING "no CUDA toolkit was found: install one, or set CUDAToolkit_ROOT")

find_path(PHAROS_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(PHAROS_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
set(nccl_found OFF)
if(PHAROS_HAS_CUDA AND CUDAToolkit_NVCC_EXECUTABLE AND PHAROS_NCCL_INCLUDE AND PHAROS_NCCL_LIBRARY)
  set(nccl_found ON)
endif()
pharos_part(NCCL FOUND ${nccl_found} DETAIL "${PHAROS_NCCL_LIBRARY}"
            MISSING "it takes CUDA with nvcc, nccl.h and libnccl.so, which were not all found")

# Simulated clusters for tests. Their threads are fibres of Boost.Context, which the thread sanitizer does not know.
if(PHAROS_SANITIZE STREQUAL "thread")
  set(testing_found OFF)
  set(testing_missing "the thread sanitizer does not know its fibres")
else()
  find_package(Boost 1.81 QUIET COMPONENTS context)
  set(testing_found "${Boost_CONTEXT_FOUND}")
  set(testing_missing "Boost.Context 1.81 was not found: install libboost-context1.81-dev")
endif()
pharos_part(TESTING FOUND "${testing_found}" DETAIL "Boost.Context ${Boost_VERSION_STRING}" MISSING "${testing_missing}")
