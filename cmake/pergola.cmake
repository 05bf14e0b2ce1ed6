# How Pergola's folders become targets.
#
# pergola_layer(NAME folder [SHARDS n] [QUICK] [DEPS layers...] [LINK targets...] [FUZZED "x: files..."...]) makes, from the
# files of the current folder,
#   pergola_<name>       a static library of *.cc
#   <name>_test          a GoogleTest program of *_test.cc, registered with CTest; with SHARDS as <name>_test_1 to _n, which
#                        have every n-th test each
#   <name>_<x>_fuzz      a libFuzzer program of each *_fuzz.cc, with PERGOLA_FUZZ
# so a new file needs no line in any CMakeLists.txt. QUICK: with a sanitizer it is not optimised, as no test spends its time
# in it. FUZZED: a fuzzer that needs these files and the layer base alone is made of them, so that no other layer is built
# for it.

add_library(pergola_options INTERFACE)
target_compile_features(pergola_options INTERFACE cxx_std_20)
target_include_directories(pergola_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
# -ffp-contract=off: the CPU device gives the GPU's bits; a fused multiply-add is written where it is meant.
target_compile_options(pergola_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
                                                 -ffp-contract=off)
if(PERGOLA_WERROR)
  target_compile_options(pergola_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (PERGOLA_QUICK_TESTS OR NOT CMAKE_UNITY_BUILD))
  # GCC 12 fears reads of no bytes at all where a boost::small_vector is moved, in files that are compiled by themselves.
  target_compile_options(pergola_options INTERFACE -Wno-stringop-overread)
endif()
target_compile_definitions(pergola_options INTERFACE SPDLOG_FMT_EXTERNAL PERGOLA_VERSION="${PROJECT_VERSION}")
if(PERGOLA_SANITIZE)
  add_link_options(-fsanitize=${PERGOLA_SANITIZE})  # programs that only use the library need its runtime too
  target_compile_options(pergola_options INTERFACE -fsanitize=${PERGOLA_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  target_link_options(pergola_options INTERFACE -fsanitize=${PERGOLA_SANITIZE})
  if(PERGOLA_SANITIZE MATCHES "thread")
    target_compile_definitions(pergola_options INTERFACE PERGOLA_TSAN=1)
  endif()
  if(PERGOLA_SANITIZE MATCHES "address")
    target_compile_definitions(pergola_options INTERFACE PERGOLA_ASAN=1)
  endif()
endif()
# With a sanitizer the library is optimised a little, as tests spend their time in it, and they themselves are not.
set(pergola_library_options)
if(PERGOLA_SANITIZE)
  set(pergola_library_options -O1)
endif()
if(PERGOLA_FUZZ)
  target_compile_options(pergola_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The headers that most files include, compiled once for all targets (where PERGOLA_PRECOMPILE is on: a clang build that
# CI makes cold takes two thirds of the time). Builds without them show what a file forgot to include.
function(pergola_precompile)
  set(CMAKE_CXX_COMPILE_OPTIONS_PIE "-fPIC" PARENT_SCOPE)  # programs as libraries: what is compiled once must suit both
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
  foreach(kind precompiled precompiled_library)  # clang takes only what is optimised alike
    add_library(pergola_${kind} STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
    target_link_libraries(pergola_${kind} PRIVATE pergola_options fmt::fmt spdlog::spdlog Boost::headers
                                                  nlohmann_json::nlohmann_json)
    target_precompile_headers(pergola_${kind} PRIVATE
      <algorithm> <array> <atomic> <bit> <chrono> <condition_variable> <cstdint> <cstring> <deque> <filesystem> <fstream>
      <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread>
      <unordered_map> <unordered_set> <variant> <vector> <fmt/format.h> <boost/container/small_vector.hpp>
      <boost/unordered/unordered_flat_map.hpp> <nlohmann/json.hpp>)
  endforeach()
  target_compile_options(pergola_precompiled_library PRIVATE ${pergola_library_options})
endfunction()

# For the targets of the folder and below, but for those that are compiled as users would.
function(pergola_reuse_precompiled folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(sources ${target} SOURCES)
    if(type MATCHES "EXECUTABLE|STATIC_LIBRARY|SHARED_LIBRARY|MODULE_LIBRARY|OBJECT_LIBRARY"
       AND sources MATCHES "\\.cc" AND NOT target MATCHES "^pergola_precompiled")
      get_target_property(is_library ${target} PERGOLA_LAYER)
      if(is_library)
        target_precompile_headers(${target} REUSE_FROM pergola_precompiled_library)
      else()
        target_precompile_headers(${target} REUSE_FROM pergola_precompiled)
      endif()
    endif()
  endforeach()
  get_property(children DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  list(FILTER children EXCLUDE REGEX "/examples$")
  foreach(child IN LISTS children)
    pergola_reuse_precompiled(${child})
  endforeach()
endfunction()

# With PERGOLA_QUICK_TESTS, for the targets of the folder and below: tests are compiled without optimisation (a little
# where they compute for long: PERGOLA_COMPUTES) and debug information. Benchmarks are compiled as users compile: a
# launch from C++ is inline code of theirs, and takes three times as long without optimisation.
function(pergola_quick_tests folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|SHARED_LIBRARY|MODULE_LIBRARY|OBJECT_LIBRARY")
      continue()
    endif()
    if(folder MATCHES "^${PROJECT_SOURCE_DIR}/tests" OR target MATCHES "_test$")
      get_target_property(computes ${target} PERGOLA_COMPUTES)
      target_compile_options(${target} PRIVATE $<IF:$<BOOL:${computes}>,-O1,-O0> -g0)
    endif()
  endforeach()
  get_property(children DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS children)
    pergola_quick_tests(${child})
  endforeach()
endfunction()

function(pergola_layer)
  cmake_parse_arguments(ARG "QUICK" "NAME;SHARDS" "DEPS;LINK;FUZZED" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_fuzz.cc)
  file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_bench.cc)
  list(REMOVE_ITEM sources ${tests} ${fuzzers} ${benches})

  set(target pergola_${ARG_NAME})
  set(links)
  foreach(dep IN LISTS ARG_DEPS)
    list(APPEND links pergola_${dep})
  endforeach()
  list(APPEND links ${ARG_LINK})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC pergola_options ${links})
    if(NOT ARG_QUICK)
      set_target_properties(${target} PROPERTIES PERGOLA_LAYER ON)
      target_compile_options(${target} PRIVATE ${pergola_library_options})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE pergola_options ${links})
  endif()

  if(PERGOLA_TESTS AND tests)
    add_executable(${ARG_NAME}_test ${tests})
    target_link_libraries(${ARG_NAME}_test PRIVATE ${target} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${ARG_NAME}_test PRIVATE PERGOLA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(ARG_SHARDS)
      foreach(shard RANGE 1 ${ARG_SHARDS})
        math(EXPR index "${shard} - 1")
        add_test(NAME ${ARG_NAME}_test_${shard} COMMAND ${ARG_NAME}_test)
        set_tests_properties(${ARG_NAME}_test_${shard} PROPERTIES TIMEOUT 600
          ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
      endforeach()
    else()
      add_test(NAME ${ARG_NAME}_test COMMAND ${ARG_NAME}_test)
      set_tests_properties(${ARG_NAME}_test PROPERTIES TIMEOUT 600)
    endif()
  endif()
  if(PERGOLA_FUZZ)
    foreach(file IN LISTS fuzzers)
      get_filename_component(stem ${file} NAME_WE)
      set(from ${target})
      set(needed)
      foreach(each IN LISTS ARG_FUZZED)
        string(REGEX MATCH "^(.*): (.*)$" whole "${each}")
        if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${CMAKE_MATCH_1}_fuzz.cc")
          message(FATAL_ERROR "FUZZED of the layer ${ARG_NAME}: '${each}', and there is no ${CMAKE_MATCH_1}_fuzz.cc.")
        endif()
        if(stem STREQUAL "${CMAKE_MATCH_1}_fuzz")
          separate_arguments(needed UNIX_COMMAND "${CMAKE_MATCH_2}")
          set(from pergola_base ${ARG_LINK})
        endif()
      endforeach()
      add_executable(${ARG_NAME}_${stem} ${file} ${needed})
      target_link_libraries(${ARG_NAME}_${stem} PRIVATE ${from})
      target_link_options(${ARG_NAME}_${stem} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()
