# moec_add_unit_test(name source... [LIBS lib...] [LABEL label]): a GoogleTest executable, one ctest entry a case.
find_package(GTest REQUIRED)
include(GoogleTest)

function(moec_add_unit_test name)
  cmake_parse_arguments(arg "" "LABEL" "LIBS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} PROPERTIES LABELS ${arg_LABEL} DISCOVERY_TIMEOUT 60)
endfunction()
