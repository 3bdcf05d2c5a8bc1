# moec_add_unit_test(name source... [LIBS lib...] [LABEL label] [DEPENDS target...] [TIMEOUT seconds] [RUN_SERIAL] [OPTIMIZED]
#                    [SEPARATE] [WITH_COMPILER])
#
# A GoogleTest executable bin/<name>, one ctest entry a case, label `unit` unless another is given. Tests that need a
# GPU carry the label `gpu` and call GTEST_SKIP() with a reason where there is none. The executable is part of
# the target check-moec; DEPENDS names programs that the cases start. test/TestMain.cpp is its main(): the cases find
# MOEC_SOURCE_DIR and MOEC_BINARY_DIR in the environment, and a kernel cache that is the build's, never the user's.
find_package(GTest REQUIRED)
include(GoogleTest)

function(moec_add_unit_test name)
  cmake_parse_arguments(arg "RUN_SERIAL;OPTIMIZED;SEPARATE;WITH_COMPILER" "LABEL;TIMEOUT" "LIBS;DEPENDS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(NOT TARGET moec_test_main)
    add_library(moec_test_main STATIC ${PROJECT_SOURCE_DIR}/test/TestMain.cpp)
    target_compile_definitions(moec_test_main PRIVATE
      MOEC_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
      MOEC_BINARY_DIR="${PROJECT_BINARY_DIR}"
      MOEC_NVRTC_PATH="${MOEC_NVRTC_PATH}")
    target_link_libraries(moec_test_main PUBLIC GTest::gtest GTest::gmock)
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE moec_test_main ${arg_LIBS} GTest::gtest GTest::gmock)
  # Most cases take milliseconds, and -O0 halves the time to compile them. OPTIMIZED is for cases that compute much themselves.
  if(NOT arg_OPTIMIZED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  # GoogleTest's macros name the file. Without the place of the clone, ccache finds the objects of another clone.
  target_compile_options(${name} PRIVATE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  # UndefinedBehaviorSanitizer watches what is tested; in the tests themselves it is a sixth of the time to compile them.
  if(MOEC_SANITIZE MATCHES "undefined")
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined,float-cast-overflow)
  endif()
  # SEPARATE: the sources have names in common, so that a unity build compiles each by itself.
  if(arg_SEPARATE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  set(serial OFF)
  if(arg_RUN_SERIAL OR arg_LABEL STREQUAL "gpu")
    set(serial ON)
  endif()
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  # CI compiles a test once: those of the runtime and the importers in the build with sanitizers, which has no compiler;
  # those that need the compiler (WITH_COMPILER) in the other.
  if(MOEC_BUILD_COMPILER AND NOT MOEC_BUILD_RUNTIME_TESTS AND NOT arg_WITH_COMPILER)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  # PRE_TEST: the cases are listed when ctest starts, so that a build needs nothing that only a run needs.
  gtest_discover_tests(${name}
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS ${arg_LABEL} RUN_SERIAL ${serial} TIMEOUT ${arg_TIMEOUT})
  set_property(GLOBAL APPEND PROPERTY MOEC_UNIT_TESTS ${name})
endfunction()
