# `cmake --install`: programs, libraries, headers, a CMake package and pkg-config files.
#
#   find_package(moec)          moec::moec (compiler and runtime), moec::runtime (runtime alone)
#   pkg-config moec             the same; moec-runtime: the runtime alone
#
# The libraries have a SONAME with the version that the C ABI is compatible with: 0.1 for 0.1.x.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(abi_version ${PROJECT_VERSION_MAJOR})
if(abi_version EQUAL 0)
  set(abi_version 0.${PROJECT_VERSION_MINOR})
endif()
set(libraries moec-runtime-shared)
set(programs moec-run)
if(MOEC_BUILD_COMPILER)
  list(APPEND libraries moec-shared)
  list(APPEND programs moec moec-opt)
endif()
set_target_properties(${libraries} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${abi_version})
set_target_properties(moec-runtime-shared PROPERTIES EXPORT_NAME runtime)
target_include_directories(moec-runtime-shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(MOEC_BUILD_COMPILER)
  set_target_properties(moec-shared PROPERTIES EXPORT_NAME moec)
  target_include_directories(moec-shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endif()

install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${libraries} EXPORT moec-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/moec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/moec)
install(EXPORT moec-targets NAMESPACE moec:: DESTINATION ${package_folder})
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/moecConfig.cmake
  CONTENT "include(\"\${CMAKE_CURRENT_LIST_DIR}/moec-targets.cmake\")\n" @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/moecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/moecConfig.cmake ${PROJECT_BINARY_DIR}/package/moecConfigVersion.cmake
  DESTINATION ${package_folder})

# Relative to their own folder, so that an installed tree can be moved.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH to_prefix /${pkgconfig_folder} /)
foreach(library IN LISTS libraries)
  get_target_property(name ${library} OUTPUT_NAME)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@to_prefix@
Name: @name@
Description: Mixture-of-Experts layers compiled for a GPU
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -l@name@
]])
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${pkgconfig_folder})
endforeach()
