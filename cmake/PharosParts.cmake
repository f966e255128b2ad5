# Parts that the core builds without. PHAROS_<PART> is AUTO (used where it is found), ON (configuring stops without it)
# or OFF. What was found is in PHAROS_HAS_<PART>, and in one table at the end of configuring.

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

foreach(part IN ITEMS TORCH XGBOOST CUDA NCCL)
  set(PHAROS_${part} AUTO CACHE STRING "AUTO, ON or OFF")
  set_property(CACHE PHAROS_${part} PROPERTY STRINGS AUTO ON OFF)
endforeach()

include(PharosTorch)

# Loaded at run time by the trial that needs it: all that matters here is whether its tests can run.
find_library(PHAROS_XGBOOST_LIBRARY xgboost)
pharos_part(XGBOOST FOUND "${PHAROS_XGBOOST_LIBRARY}" DETAIL "${PHAROS_XGBOOST_LIBRARY}"
            MISSING "libxgboost.so is not installed: apt install libxgboost-dev")

if(NOT PHAROS_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
endif()
pharos_part(CUDA FOUND "${CUDAToolkit_FOUND}" DETAIL "toolkit ${CUDAToolkit_VERSION}"
            MISSING "no CUDA toolkit was found: install one, or set CUDAToolkit_ROOT")

find_path(PHAROS_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(PHAROS_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
set(nccl_found OFF)
if(PHAROS_HAS_CUDA AND PHAROS_NCCL_INCLUDE AND PHAROS_NCCL_LIBRARY)
  set(nccl_found ON)
endif()
pharos_part(NCCL FOUND ${nccl_found} DETAIL "${PHAROS_NCCL_LIBRARY}"
            MISSING "it takes CUDA, nccl.h and libnccl.so, which were not all found")
