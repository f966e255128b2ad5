# Rules for `cmake --install`. It installs libpharos.so, libpharos_ml.so, libpharos_nccl.so and libpharos_cuda.so (those
# that were built), the start object, the pharos executable and the library that it loads for its records, the public headers, and the
# package that find_package(pharos CONFIG) reads.

include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/pharos)

# The libraries, the components of the package beside pharos::pharos, and the modules that programs use directly.
set(libraries pharos)
set(pharos_components "")
set(to_install pharos_actors pharos_checkpoint pharos_collective pharos_data pharos_reports pharos_trainer pharos_tune pharos_xgboost)
if(PHAROS_HAS_TORCH)
  list(APPEND libraries pharos_ml)
  list(APPEND pharos_components ml)
  list(APPEND to_install pharos_parallel pharos_models)
endif()
if(PHAROS_HAS_NCCL)
  list(APPEND libraries pharos_with_nccl)
  list(APPEND pharos_components nccl)
  list(APPEND to_install pharos_nccl)
endif()
if(PHAROS_HAS_TORCH AND PHAROS_HAS_CUDA AND CUDAToolkit_NVCC_EXECUTABLE)
  list(APPEND libraries pharos_with_cuda)
endif()
# Installs the headers of these modules and of the modules in their DEPS, because public headers include them.
set(modules "")
while(to_install)
  list(POP_FRONT to_install module)
  if(module MATCHES "^pharos_" AND NOT module MATCHES "^pharos_torch" AND NOT module IN_LIST modules)
    list(APPEND modules ${module})
    get_target_property(folder ${module} SOURCE_DIR)
    install(DIRECTORY ${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
    get_target_property(needed ${module} INTERFACE_LINK_LIBRARIES)
    list(APPEND to_install ${needed})
  endif()
endwhile()

# The soname has the minor version, because before 1.0 a new minor version may break programs. The other libraries find
# libpharos.so beside them, and find libtorch and CUDA by the program's path.
set_target_properties(${libraries} pharos_rocksdb PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH "\$ORIGIN")
set_target_properties(pharos_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS ${libraries} pharos_rocksdb pharos_cli)
install(FILES $<TARGET_OBJECTS:pharos_start> DESTINATION ${CMAKE_INSTALL_LIBDIR}/pharos RENAME start.o)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(pharos_components_text "none")
if(pharos_components)
  list(JOIN pharos_components ", " pharos_components_text)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/pharosConfig.cmake.in ${PROJECT_BINARY_DIR}/pharosConfig.cmake
  INSTALL_DESTINATION ${package_folder}
  PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pharosConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pharosConfig.cmake ${PROJECT_BINARY_DIR}/pharosConfigVersion.cmake
        DESTINATION ${package_folder})
foreach(component IN LISTS pharos_components)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/pharos-${component}.cmake.in
                 ${PROJECT_BINARY_DIR}/pharos-${component}.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pharos-${component}.cmake DESTINATION ${package_folder})
endforeach()
if(PHAROS_HAS_TORCH)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/PharosTorchTargets.cmake DESTINATION ${package_folder})
endif()
